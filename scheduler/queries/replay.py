"""A stored pass decided again from what it saw, beside what it stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler import snapshots
from scheduler.engine import ENGINE_VERSION, Action, Plan, decide
from scheduler.models import Decision, Pass
from scheduler.services.emergency import STOPPED
from scheduler.services.passes import ORDER_KEPT, figures_as_json
from scheduler.services.rollout import SHADOW

STOOD_STILL = (SHADOW, STOPPED)
"""Codes of those who were told that nothing is carried out there: what was decided about them stands in the pass."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The plan made again, and a line for each difference from what was stored; none means the same."""

    stored: Pass
    plan: Plan
    differences: tuple[str, ...]


def replay(stored: Pass) -> Replay:
    """Rebuild what the pass saw, decide again, and compare.

    Waiting workloads were stored only when their code changed, and decisions whose rows had changed meanwhile were
    dropped: so what was stored has to be in the plan, and what the plan changes has to be stored or was dropped.
    """
    loaded = snapshots.snapshot_at(stored)
    plan = decide(loaded.snapshot, loaded.policy)
    found = []
    if stored.engine_version != ENGINE_VERSION:
        found.append(f"engine: it was version {stored.engine_version}, this is {ENGINE_VERSION}")
    found += _differ("order", stored.order, list(plan.order[:ORDER_KEPT]))
    figures = {name: figures_as_json(each) for name, each in plan.figures.items()}
    for name in sorted(stored.figures.keys() | figures):
        found += _differ(f"figures of {name}", stored.figures.get(name), figures.get(name))
    found += _missing(stored, plan)
    return Replay(stored, plan, tuple(found))


def _differ(what: str, stored: Any, again: Any) -> list[str]:
    return [] if stored == again else [f"{what}: stored {stored!r}, decided again {again!r}"]


def _missing(stored: Pass, plan: Plan) -> list[str]:
    """Decisions on one side only, or with other words and numbers."""
    rows = {
        (row.workload.code, row.action, row.run.number if row.run and row.action == Action.PREEMPT else None): row
        for row in Decision.objects.filter(made_in=stored)
        .exclude(code__in=STOOD_STILL)
        .select_related("workload", "run")
        .order_by("pk")
    }
    again: dict[tuple[str, str, int | None], Mapping[str, Any]] = {}
    for each in plan.decisions:
        number = int(each.run.rpartition("/")[2]) if each.run is not None else None
        again[each.workload, each.action.value, number] = {
            "code": str(each.reason.code),
            "text": each.reason.text,
            "numbers": each.reason.numbers,
        }
    found = []
    for key, row in rows.items():
        kept = {"code": row.code, "text": row.text, "numbers": row.numbers}
        found += _differ(f"{key[1]} {key[0]}", kept, again.get(key))
    return found
