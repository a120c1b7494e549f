"""Which rules clusters follow now, and from when others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django import template

from budgets.models import Cluster
from scheduler.models import EmergencyStop, RolloutStep
from scheduler.services import emergency, rollout

register = template.Library()


@dataclass(frozen=True, slots=True)
class Rules:
    """Of one cluster: what it follows now, the next change, and the emergency stop that it is under."""

    cluster: Cluster
    is_shadow: bool
    next_step: RolloutStep | None
    stop: EmergencyStop | None


@register.simple_tag
def rules_of(clusters: Sequence[Cluster], at: datetime | None = None) -> list[Rules]:
    """Of each cluster, in their order. Two queries."""
    now = at or datetime.now(UTC)
    found, stops = rollout.now_and_next(now), emergency.standing_everywhere()
    return [
        Rules(each, mode is rollout.Mode.SHADOW, step, stops.get(each.pk))
        for each in clusters
        for mode, step in [found.get(each.pk, (rollout.Mode.CONTRACTS, None))]
    ]
