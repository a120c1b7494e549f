"""What runs on above a share: runs whose contract is over, which may be interrupted sooner if their team gets less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from budgets.models import BudgetNode, Cluster
from scheduler.models import Run

CODES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class AtRisk:
    """Funded runs below one node whose contract is over: how many, what they hold, and some of their workloads."""

    runs: int = 0
    held_milli: int = 0
    codes: tuple[str, ...] = ()


def after_contract(nodes: Sequence[BudgetNode], cluster: Cluster, now: datetime) -> dict[int, AtRisk]:
    """By node id. One query."""
    found = {node.pk: AtRisk() for node in nodes}
    running = Run.objects.filter(
        cluster=cluster, state=Run.State.RUNNING, funded=True, contract_ends_at__lte=now
    ).order_by("started_at", "pk")
    for path, size_milli, code in running.values_list("path", "size_milli", "workload__code"):
        for pk in path:
            if pk in found:
                had = found[pk]
                codes = (*had.codes, code) if len(had.codes) < CODES_SHOWN else had.codes
                found[pk] = AtRisk(had.runs + 1, had.held_milli + size_milli, codes)
    return found
