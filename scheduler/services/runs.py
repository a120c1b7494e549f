"""The life of runs after a pass has started them: they really run, they are told to stop, they end.

Called by those who learn of it (facts of agents, cancels, time limits, lost nodes), inside `events.changing`. Each
change is conditional on the state it starts from, and says which runs it changed: a replayed report changes nothing.
One run or thousands take the same number of statements.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import DurationField, ExpressionWrapper, F, Func, Value

from budgets.models import Person
from scheduler import failure_words
from scheduler.engine import Code, Policy
from scheduler.models import Claim, Decision, Reservation, Run, SecondField, Workload
from scheduler.services import events, kept
from scheduler.services.events import Entry, Kind

FINISHED = "finished"
FAILED = "failed"
CANCELLED = "cancelled"
TIME_LIMIT = "time_limit"

HOLDING_STATES = (Run.State.STARTING, Run.State.RUNNING, Run.State.UNREACHABLE)
"""Not ended and, unless it is unreachable, not told to stop."""

FINAL_STATES = {FINISHED: Workload.State.FINISHED, FAILED: Workload.State.FAILED, TIME_LIMIT: Workload.State.FAILED}
"""What becomes of a workload whose run ended like this; whatever else ends a run sends it back to the queue."""


JUDGED_AFTER = timedelta(seconds=15)
"""What a program printed last arrives some seconds later than that it ended; then it is judged why it failed."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended.

    Attributes:
        run_id: which.
        at: when it really ended.
        code: why, unless it had been told to stop before: then that reason stands. `finished`, `failed`, or a reason
            code such as `node_lost`.
        exit_code: the first rank's that was not 0, else 0; minus the signal where one ended it.
        sentence: what its workload's page says if it is over by this, and not because somebody stopped it. Everybody
            reads it: no command, and nothing that it printed.
        known_at: when that was learned; None is at once.
    """

    run_id: int
    at: datetime
    code: str
    exit_code: int | None = None
    sentence: str = ""
    known_at: datetime | None = None


BEGIN_SQL = """
UPDATE scheduler_run r
SET state = CASE r.state WHEN 'starting' THEN 'running' ELSE r.state END, running_at = t.at,
    contract_ends_at = CASE WHEN r.funded THEN t.at + r.min_runtime_s * interval '1 second' END
FROM unnest(%s::bigint[], %s::timestamptz[]) AS t(id, at)
WHERE r.id = t.id AND r.running_at IS NULL
AND (r.state = 'starting' OR (r.state = 'leaving' AND r.stop_asked_at >= t.at))
RETURNING r.id, r.workload_id
"""


def begin(*, cluster_id: int, began: Mapping[int, datetime]) -> set[int]:
    """Every rank of these runs really runs: their contracts begin at these instants, by the run's id.

    One that was told to stop after that keeps leaving; that it ran is noted, since its progress counts from then.
    Returns those for which this was news: not those that have ended, or never ran before they were told to stop.
    """
    if not began:
        return set()
    with events.changing(cluster_id):
        with connection.cursor() as cursor:
            cursor.execute(BEGIN_SQL, [list(began), list(began.values())])
            changed: dict[int, int] = dict(cursor.fetchall())
        Workload.objects.filter(pk__in=changed.values(), state=Workload.State.STARTING).update(
            state=Workload.State.RUNNING
        )
        _log(cluster_id, [Entry(Kind.RUN_RUNNING, changed[pk], pk, at=began[pk]) for pk in sorted(changed)])
    return set(changed)


STOP_SQL = """
UPDATE scheduler_run r
SET state = CASE r.state WHEN 'unreachable' THEN r.state ELSE 'leaving' END,
    stop_asked_at = t.at, leave_by = t.at + %s * interval '1 second', end_reason = t.code
FROM unnest(%s::bigint[], %s::text[], %s::timestamptz[]) AS t(id, code, at)
WHERE r.id = t.id AND r.state = ANY(%s) AND r.stop_asked_at IS NULL
RETURNING r.id, r.workload_id
"""


def tell_all_to_stop(
    *, cluster_id: int, stops: Mapping[int, tuple[str, datetime]], policy: Policy, by: Person | None = None
) -> set[int]:
    """Ask runs to leave within the grace. `stops` are, by run, the code of what it will have ended as, and when.

    Returns those that were told: not those that are leaving or have ended already. An unreachable run stays
    unreachable: nobody can be told anything there; it leaves when its node answers.
    """
    if not stops:
        return set()
    codes, instants = zip(*stops.values(), strict=True)
    with events.changing(cluster_id):
        with connection.cursor() as cursor:
            cursor.execute(
                STOP_SQL,
                [
                    policy.grace_s,
                    list(stops),
                    [str(code) for code in codes],
                    list(instants),
                    [str(state) for state in HOLDING_STATES],
                ],
            )
            changed: dict[int, int] = dict(cursor.fetchall())
        Workload.objects.filter(
            pk__in=changed.values(), state__in=(Workload.State.STARTING, Workload.State.RUNNING)
        ).update(state=Workload.State.LEAVING)
        entries = [
            Entry(Kind.RUN_STOPPING, changed[pk], pk, data={"code": stops[pk][0]}, at=stops[pk][1])
            for pk in sorted(changed)
        ]
        _log(cluster_id, entries, by=by)
    return set(changed)


def tell_to_stop(*, run: Run, code: str, at: datetime, policy: Policy, by: Person | None = None) -> bool:
    """`tell_all_to_stop` for one run; whether it was told."""
    return bool(tell_all_to_stop(cluster_id=run.cluster_id, stops={run.pk: (code, at)}, policy=policy, by=by))


ENDED_SQL = """
UPDATE scheduler_run r
SET state = 'ended', end_reason = t.reason, ended_at = t.at, exit_code = t.exit_code, failure_due_at = t.due_at
FROM unnest(%(ids)s::bigint[], %(reasons)s::text[], %(ats)s::timestamptz[], %(exit_codes)s::int[],
    %(dues)s::timestamptz[]) AS t(id, reason, at, exit_code, due_at)
WHERE r.id = t.id
"""
RELEASED_SQL = """
UPDATE scheduler_holding h SET released_at = t.at
FROM unnest(%(ids)s::bigint[], %(ats)s::timestamptz[]) AS t(id, at)
WHERE h.run_id = t.id AND h.released_at IS NULL
"""
GONE_SQL = """
UPDATE scheduler_rank k SET state = CASE t.reason WHEN 'node_lost' THEN 'gone' ELSE 'exited' END, exited_at = t.at
FROM unnest(%(ids)s::bigint[], %(reasons)s::text[], %(ats)s::timestamptz[]) AS t(id, reason, at)
WHERE k.run_id = t.id AND k.state IN ('wanted', 'running')
"""
SETTLED_SQL = """
UPDATE scheduler_workload w
SET state = t.state, ended_at = t.at, preemptions = t.preemptions, progress_s = t.progress_s,
    reason_code = t.code, reason_text = t.text, requeued_at = coalesce(t.requeued_at, w.requeued_at),
    secrets = CASE WHEN t.at IS NULL THEN w.secrets ELSE '{}' END,
    reason_numbers = coalesce(t.numbers::jsonb, w.reason_numbers)
FROM unnest(%s::bigint[], %s::text[], %s::timestamptz[], %s::int[], %s::int[], %s::text[], %s::text[], %s::text[],
    %s::timestamptz[]) AS t(id, state, at, preemptions, progress_s, code, text, numbers, requeued_at)
WHERE w.id = t.id
"""


def end_all(*, cluster_id: int, endings: Iterable[Ending]) -> set[int]:
    """Runs hold their devices no longer: these are free at once, and their charges stop. No run ends before its start.

    Returns the ids of those for which this was news: not of those that have ended already.
    """
    given = {each.run_id: each for each in endings}
    if not given:
        return set()
    with events.changing(cluster_id):
        rows = list(
            Run.objects.select_for_update()
            .filter(pk__in=given)
            .exclude(state=Run.State.ENDED)
            .select_related("workload")
            .order_by("pk")
        )
        for row in rows:
            _end(row, given[row.pk])
        values: dict[str, Any] = {
            "ids": [row.pk for row in rows],
            "reasons": [row.end_reason for row in rows],
            "ats": [row.ended_at for row in rows],
            "exit_codes": [row.exit_code for row in rows],
            "dues": [row.failure_due_at for row in rows],
        }
        with connection.cursor() as cursor:
            for statement in (ENDED_SQL, RELEASED_SQL, GONE_SQL) if rows else ():
                cursor.execute(statement, values)
        kept.settle(values["ids"])
        _settle_workloads(cluster_id, rows, {row.pk: given[row.pk].sentence for row in rows})
        _log(
            cluster_id,
            [
                Entry(Kind.RUN_ENDED, row.workload_id, row.pk, data={"code": row.end_reason}, at=row.ended_at)
                for row in rows
            ],
        )
        if rows:
            events.wake(cluster_id)
    return {row.pk for row in rows}


def end(*, run: Run, at: datetime, code: str, exit_code: int | None = None) -> bool:
    """`end_all` for one run; whether it was news."""
    return bool(end_all(cluster_id=run.cluster_id, endings=[Ending(run.pk, at, code, exit_code)]))


def _end(row: Run, ending: Ending) -> None:
    """What the columns of the run become."""
    ended_at = max(ending.at, row.started_at)
    was_told = row.stop_asked_at is not None and row.stop_asked_at <= ended_at
    if ending.code == Code.STUCK_EXIT or not was_told or not row.end_reason:
        row.end_reason = ending.code
    row.state, row.ended_at, row.exit_code = Run.State.ENDED, ended_at, ending.exit_code
    if row.end_reason == FAILED:
        row.failure_due_at = max(ended_at, ending.known_at or ended_at) + JUDGED_AFTER


def _settle_workloads(cluster_id: int, rows: Sequence[Run], sentences: Mapping[int, str]) -> None:
    """The workload of an ended run ends with it, returns to its old place in the queue, or is put aside."""
    over: dict[int, datetime] = {}
    aside: list[Decision] = []
    settled: list[tuple[Any, ...]] = []
    for row in rows:
        workload, state, code, text, left_at = row.workload, _state_after(row), row.end_reason, "", row.ended_at
        assert left_at is not None
        ended_at: datetime | None = left_at
        requeued_at, numbers = None, {}
        if state in (Workload.State.QUEUED, Workload.State.HELD):
            ended_at, requeued_at = None, left_at
            workload.progress_s += ran_s(row) if workload.resumable else 0
        else:
            over[workload.pk] = left_at
            text = _sentence(row, state, sentences[row.pk])
        if state == Workload.State.HELD:
            code, text, numbers = (
                events.UNJUDGED,
                failure_words.UNJUDGED,
                {"run": row.number, "ended": sentences[row.pk]},
            )
            aside.append(Decision(workload=workload, run=row, at=left_at, action="hold", code=code, text=text))
        code, said = (code, text) if text else (workload.reason_code, workload.reason_text)
        settled.append(
            (
                workload.pk, str(state), ended_at, workload.preemptions, workload.progress_s,
                str(code), said, json.dumps(numbers) if text else None, requeued_at,
            )
        )  # fmt: skip
    if settled:
        with connection.cursor() as cursor:
            cursor.execute(SETTLED_SQL, [list(column) for column in zip(*settled, strict=True)])
    Decision.objects.bulk_create(aside)
    release_all_followers(cluster_id, over)


def _sentence(row: Run, state: str, sentence: str) -> str:
    """What the page of a workload says that is over; empty where whoever stopped it has said why."""
    if state not in (Workload.State.FINISHED, Workload.State.FAILED, Workload.State.LOST):
        return ""
    if row.end_reason == TIME_LIMIT:
        return "It had run for its whole time limit."
    if row.end_reason == FAILED and row.workload.retried:
        return failure_words.TRIED.format(
            text=sentence or failure_words.FAILED, number=row.workload.retried, number_2=row.workload.retries
        )
    return sentence if row.end_reason in (FINISHED, FAILED, Code.NODE_LOST) else ""


def _state_after(row: Run) -> str:
    """What an ended run makes of its workload; a preemption is counted."""
    workload = row.workload
    if workload.cancel_asked_at is not None:
        return Workload.State.CANCELLED
    if row.end_reason == FAILED and workload.retried < workload.retries:
        return Workload.State.HELD
    if row.end_reason in FINAL_STATES:
        return FINAL_STATES[row.end_reason]
    workload.preemptions += row.end_reason not in (Code.NODE_LOST, Code.STOPPED_BY_OPERATOR, CANCELLED)
    if workload.resumable:
        return Workload.State.QUEUED
    return Workload.State.LOST if row.end_reason == Code.NODE_LOST else Workload.State.PREEMPTED


def ran_s(run: Run) -> int:
    """How long a run really ran until it was told to stop, or ended: the progress that it can have saved."""
    untils = [instant for instant in (run.stop_asked_at, run.ended_at) if instant is not None]
    if run.running_at is None or not untils:
        return 0
    return max(0, int((min(untils) - run.running_at).total_seconds()))


FOLLOW_SQL = """
UPDATE scheduler_workload w SET state = 'queued', submitted_at = t.at, reason_code = '', reason_text = ''
FROM unnest(%s::bigint[], %s::timestamptz[]) AS t(id, at)
WHERE w.after_id = t.id AND w.state = 'held' AND w.reason_code = %s
AND (NOT w.after_passed OR EXISTS (
    SELECT 1 FROM scheduler_run r WHERE r.workload_id = t.id AND r.end_reason IN ('finished', 'time_limit')))
RETURNING w.id, t.at
"""
"""A canary has passed that finished, or ran without an error for as long as it might."""
STAY_SQL = """
UPDATE scheduler_workload w SET reason_code = %s, reason_text = %s
FROM unnest(%s::bigint[], %s::timestamptz[]) AS t(id, at)
WHERE w.after_id = t.id AND w.state = 'held' AND w.reason_code = %s
RETURNING w.id, t.at
"""


def release_all_followers(cluster_id: int, over: Mapping[int, datetime]) -> None:
    """Workloads have ended at these instants: those submitted to come after them enter the queue, as submitted then.

    A gang whose canary did not pass stays held.
    """
    if not over:
        return
    with connection.cursor() as cursor:
        cursor.execute(FOLLOW_SQL, [list(over), list(over.values()), events.AFTER])
        followers = sorted(cursor.fetchall())
        failed: list[Any] = [events.CANARY, failure_words.CANARY_FAILED, list(over), list(over.values()), events.AFTER]
        cursor.execute(STAY_SQL, failed)
        staying = sorted(cursor.fetchall())
    _log(
        cluster_id,
        [
            *(Entry(Kind.RELEASED, workload_id=pk, at=at) for pk, at in followers),
            *(Entry(Kind.HELD, workload_id=pk, data={"code": events.CANARY}, at=at) for pk, at in staying),
        ],
    )
    if followers:
        events.wake(cluster_id)


def release_followers(workload: Workload, at: datetime) -> None:
    """`release_all_followers` of one workload."""
    release_all_followers(workload.cluster_id, {workload.pk: at})


def end_plans(workload: Workload, at: datetime, outcome: str) -> None:
    """End the claim and the reservation of a workload that is cancelled, held or no longer waits."""
    with events.changing(workload.cluster_id):
        entries = []
        for model, kind, name in (
            (Claim, Kind.CLAIM_ENDED, "claim"),
            (Reservation, Kind.RESERVATION_ENDED, "reservation"),
        ):
            for pk in model.objects.filter(workload=workload, ended_at=None).values_list("pk", flat=True):
                model.objects.filter(pk=pk, ended_at=None).update(ended_at=at, outcome=outcome)
                entries.append(events.Entry(kind, workload_id=workload.pk, data={name: pk, "outcome": outcome}))
        events.record_all(cluster_id=workload.cluster_id, entries=entries, at=at)


class _Seconds(Func):
    """So many seconds, as a span of time."""

    template = "make_interval(secs => %(expressions)s)"
    output_field = DurationField()


def over_time_limit(cluster_id: int, now: datetime) -> list[Run]:
    """Runs whose workload has run for its whole time limit, over all its runs, and that were not told to stop."""
    left = _Seconds(F("workload__time_limit_s") - F("workload__progress_s"))
    over = ExpressionWrapper(Value(now, SecondField()) - left, SecondField())
    rows = Run.objects.filter(
        cluster_id=cluster_id,
        state=Run.State.RUNNING,
        stop_asked_at=None,
        workload__time_limit_s__isnull=False,
        running_at__lte=over,
    )
    return list(rows.order_by("pk"))


def _log(cluster_id: int, entries: Sequence[Entry], by: Person | None = None) -> None:
    events.record_all(cluster_id=cluster_id, entries=entries, by=by)
