"""What a pass tells people: decisions where action or code changed, and the current numbers of everybody who waits."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.db import connection

from scheduler.engine import Action, Decision
from scheduler.models import Decision as DecisionRow
from scheduler.models import Workload
from scheduler.snapshots.build import SeenWorkload

if TYPE_CHECKING:
    from scheduler.services.passes import _Work

WAITS = (Action.WAIT, Action.CLAIM)
PLANS = (Action.RESERVE, Action.END_RESERVATION, Action.END_CLAIM)
"""Actions that are recorded but are not what a workload is told: that is said by another decision of the same pass."""

TELL_SQL = """
UPDATE scheduler_workload w
SET reason_code = t.code, reason_text = t.text, reason_numbers = t.numbers::jsonb, place = t.place,
    earliest_start_at = t.earliest
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::int[], %s::timestamptz[])
    AS t(id, code, text, numbers, place, earliest)
WHERE w.id = t.id AND w.state = ANY(%s)
"""
TOLD_STATES = ["queued", "starting", "leaving", "held"]


def tell(work: _Work) -> None:
    """Rewrite the current numbers where they changed, and keep decisions that are news."""
    news: list[Decision] = []
    changed: dict[int, Decision] = {}
    for each in work.decisions:
        if each.action in PLANS:
            news.append(each)
            continue
        if each.action not in WAITS:
            news.append(each)
            changed[work.pk(each)] = each
            continue
        row = work.loaded.workloads[each.workload]
        if row.reason_code != each.reason.code or row.is_held:
            news.append(each)
        if _differs(row, each):
            changed[row.pk] = each
    _rewrite(changed)
    work.rows += [_row(work, each) for each in news]


def _differs(row: SeenWorkload, decision: Decision) -> bool:
    """Whether a waiting workload's page would say anything else. The figures behind it move with every second; they
    stand in the pass.
    """
    reason = decision.reason
    return (row.reason_code, row.reason_text, row.place, row.earliest_start_s) != (
        reason.code,
        reason.text,
        decision.place,
        reason.earliest_start_s,
    )


def _rewrite(changed: dict[int, Decision]) -> None:
    if not changed:
        return
    decisions = list(changed.values())
    numbers: dict[int, str] = {}  # many wait for one and the same reason: written as text once
    for each in decisions:
        if id(each.reason) not in numbers:
            numbers[id(each.reason)] = json.dumps(dict(each.reason.numbers))
    with connection.cursor() as cursor:
        cursor.execute(
            TELL_SQL,
            [
                list(changed),
                [str(each.reason.code) for each in decisions],
                [each.reason.text for each in decisions],
                [numbers[id(each.reason)] for each in decisions],
                [each.place if each.action in WAITS else None for each in decisions],
                [instant(each.reason.earliest_start_s) for each in decisions],
                TOLD_STATES,
            ],
        )


def _row(work: _Work, decision: Decision) -> DecisionRow:
    return DecisionRow(
        workload_id=work.pk(decision),
        run_id=None if decision.run is None else work.loaded.runs[decision.run].pk,
        made_in=work.stored,
        at=work.at,
        action=decision.action,
        code=decision.reason.code,
        text=decision.reason.text,
        numbers=dict(decision.reason.numbers),
        by_id=None if decision.by is None else work.loaded.workloads[decision.by].pk,
        place=decision.place,
        earliest_start_at=instant(decision.reason.earliest_start_s),
    )


def instant(second: int | None) -> datetime | None:
    """A whole second of Unix time as an aware instant."""
    return None if second is None else datetime.fromtimestamp(second, UTC)


def forget(workload: Workload) -> None:
    """Clear place and earliest start of one that no longer waits; the caller saves it."""
    workload.place = None
    workload.earliest_start_at = None
