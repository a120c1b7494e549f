"""Which rules clusters follow now, and from when others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django import template

from budgets.models import Cluster
from scheduler.models import RolloutStep
from scheduler.services import rollout

register = template.Library()


@dataclass(frozen=True, slots=True)
class Rules:
    """Of one cluster: what it follows now, and the next change."""

    cluster: Cluster
    is_shadow: bool
    next_step: RolloutStep | None


@register.simple_tag
def rules_of(clusters: Sequence[Cluster], at: datetime | None = None) -> list[Rules]:
    """Of each cluster, in their order. One query."""
    now = at or datetime.now(UTC)
    found = rollout.now_and_next(now)
    return [
        Rules(each, mode is rollout.Mode.SHADOW, step)
        for each in clusters
        for mode, step in [found.get(each.pk, (rollout.Mode.CONTRACTS, None))]
    ]
