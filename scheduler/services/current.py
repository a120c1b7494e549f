"""What a pass tells people: decisions where action or code changed, and the current reason of everybody who waits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from scheduler.engine import Action, Decision, Reason
from scheduler.models import Decision as DecisionRow
from scheduler.services import bulk
from scheduler.services.still_holds import Work

WAITS = (Action.WAIT, Action.CLAIM)
PLANS = (Action.RESERVE, Action.END_RESERVATION, Action.END_CLAIM)
"""Actions that are recorded but are not what a workload is told: that is said by another decision of the same pass."""

TELL_SQL = """
UPDATE scheduler_workload w
SET reason_code = r.code, reason_text = r.text, reason_numbers = r.numbers, place = t.place,
    earliest_start_at = to_timestamp(t.earliest_s)
FROM unnest(%(ids)s::bigint[], %(reasons)s::int[], %(places)s::int[], %(earliest)s::bigint[])
    AS t(id, reason, place, earliest_s)
JOIN ROWS FROM (jsonb_to_recordset(%(said)s::jsonb) AS (code text, text text, numbers jsonb)) WITH ORDINALITY r
    ON r.ordinality = t.reason
WHERE w.id = t.id AND w.state = ANY(%(states)s)
"""
PLACE_SQL = """
UPDATE scheduler_workload w SET place = t.place, earliest_start_at = to_timestamp(t.earliest_s)
FROM unnest(%(ids)s::bigint[], %(places)s::int[], %(earliest)s::bigint[]) AS t(id, place, earliest_s)
WHERE w.id = t.id AND w.state = ANY(%(states)s)
"""
TOLD_STATES = ["queued", "starting", "leaving", "held"]


def tell(work: Work) -> None:
    """Rewrite what workloads say of themselves where it changed, and keep the decisions that are news.

    Where only the place in the order changed, or the earliest start, nothing else is rewritten: the figures behind a
    reason move with every second, and stand in the pass.
    """
    news: list[Decision] = []
    told: dict[int, Decision] = {}
    placed: dict[int, Decision] = {}
    for each in work.decisions:
        if each.action in PLANS:
            news.append(each)
            continue
        if each.action not in WAITS:
            news.append(each)
            told[work.pk(each)] = each
            continue
        row, reason = work.loaded.workloads[each.workload], each.reason
        if row.reason_code != reason.code or row.is_held:
            news.append(each)
        if (row.reason_code, row.reason_text) != (reason.code, reason.text):
            told[row.pk] = each
        elif (row.place, row.earliest_start_s) != (each.place, reason.earliest_start_s):
            placed[row.pk] = each
    said = _Said()
    _rewrite(told, said)
    _place(placed)
    _keep(work, news, said)


class _Said:
    """Reasons as JSON, numbered from 1. Many wait for one and the same: each is written as text once."""

    def __init__(self) -> None:
        self._numbers_of: dict[int, int] = {}
        self._reasons: list[Reason] = []  # also keeps them alive, so that no id is given twice
        self._numbers: list[str] = []

    def number(self, reason: Reason) -> int:
        """Which it is."""
        known = self._numbers_of.get(id(reason))
        if known is None:
            self._reasons.append(reason)
            self._numbers.append(json.dumps(dict(reason.numbers)))
            known = self._numbers_of[id(reason)] = len(self._reasons)
        return known

    def numbers(self, reason: Reason) -> str:
        """The numbers behind it, as JSON."""
        return self._numbers[self.number(reason) - 1]

    def as_json(self) -> str:
        """All of them, in their order."""
        rows = (
            f'{{"code": {json.dumps(reason.code)}, "text": {json.dumps(reason.text)}, "numbers": {numbers}}}'
            for reason, numbers in zip(self._reasons, self._numbers, strict=True)
        )
        return f"[{', '.join(rows)}]"


def _rewrite(told: Mapping[int, Decision], said: _Said) -> None:
    """Another reason, with its numbers."""
    if not told:
        return
    reasons = [said.number(each.reason) for each in told.values()]
    with connection.cursor() as cursor:
        cursor.execute(TELL_SQL, _places(told) | {"reasons": reasons, "said": said.as_json()})


def _place(placed: Mapping[int, Decision]) -> None:
    """The same reason at another place, or with another earliest start."""
    if placed:
        with connection.cursor() as cursor:
            cursor.execute(PLACE_SQL, _places(placed))


def _places(decisions: Mapping[int, Decision]) -> dict[str, Any]:
    return {
        "ids": list(decisions),
        "places": [each.place if each.action in WAITS else None for each in decisions.values()],
        "earliest": [each.reason.earliest_start_s for each in decisions.values()],
        "states": TOLD_STATES,
    }


DECISION = (
    "workload_id",
    "run_id",
    "made_in_id",
    "at",
    "action",
    "code",
    "text",
    "numbers",
    "by_id",
    "place",
    "earliest_start_at",
)


def _keep(work: Work, news: Sequence[Decision], said: _Said) -> None:
    """Rows of decisions, in the plan's order."""
    if not news:
        return
    bulk.copy(
        DecisionRow,
        DECISION,
        (
            (
                work.pk(each),
                None if each.run is None else work.loaded.runs[each.run].pk,
                work.stored.pk,
                work.at,
                str(each.action),
                str(each.reason.code),
                each.reason.text,
                said.numbers(each.reason),
                None if each.by is None else work.loaded.workloads[each.by].pk,
                each.place,
                instant(each.reason.earliest_start_s),
            )
            for each in news
        ),
    )


def instant(second: int | None) -> datetime | None:
    """A whole second of Unix time as an aware instant."""
    return None if second is None else datetime.fromtimestamp(second, UTC)
