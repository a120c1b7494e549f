"""Why runs failed, and what follows for workloads whose owners asked for retries.

A workload that failed, and may be tried again, is put aside until its failure is judged (`runs.JUDGED_AFTER`): the
engine sees it no more, its followers wait on, its secrets are kept. Then it has failed for good, where the failure is
its own; it is back in its old place, from its checkpoint if it is resumable; or it is held until a person releases or
cancels it, where a run of its owner failed in the same way within a day (Jeon et al., ATC'19: see scheduler.failures).
Each step is conditional on the row that it starts from: made twice, or by a second worker, it changes nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext

from budgets.authority import may
from budgets.errors import NotAllowed
from budgets.models import Person
from scheduler import failure_words
from scheduler.failures import Failure, failure_of
from scheduler.models import Decision, Run, Workload
from scheduler.services import events, runs
from scheduler.services.events import Kind

ALIKE_FOR = timedelta(hours=24)
"""Who fails in the same way twice within so long is held."""
JUDGED_MAX = 200
"""Runs in one run of the task; the next goes on with the rest."""
RANKS_READ, CHUNKS_READ, CHARS_READ = 64, 4, 64 * 1024
"""Of a run those ranks are read that ended first, and the end of what each printed."""
RELEASABLE = (events.ALIKE, events.CANARY)
"""Reason codes of those that are held until a person releases them."""
TRIED_AGAIN = "tried_again"
"""Reason code of one that is back in the queue."""

PRINTED_SQL = """
SELECT k.message || E'\\n' || coalesce((SELECT right(string_agg(c.text, '' ORDER BY c."offset"), %(chars)s) FROM (
    SELECT text, "offset" FROM scheduler_logchunk WHERE rank_id = k.id ORDER BY "offset" DESC LIMIT %(chunks)s) c), '')
FROM scheduler_rank k WHERE k.run_id = %(run)s
ORDER BY k.exit_code IS NOT DISTINCT FROM 0, k.exited_at, k.index LIMIT %(ranks)s
"""


def judge(now: datetime | None = None) -> int:
    """Say of the runs that are due why they failed, and go on with their workloads. How many were judged."""
    at = (now or timezone.now()).replace(microsecond=0)
    due = Run.objects.filter(failure_due_at__lte=at).order_by("failure_due_at", "pk")
    return sum(_judge(run, at) for run in due.select_related("workload")[:JUDGED_MAX])


def _judge(run: Run, at: datetime) -> bool:
    failure = _read(run)
    if not _is_aside(run.workload):  # nothing follows, so no pass has to wait for it
        return _note(run, failure)
    with events.changing(run.cluster_id):
        if not _note(run, failure):
            return False
        workload = Workload.objects.select_related("leaf", "cluster").get(pk=run.workload_id)
        if _is_aside(workload):
            _go_on(workload, run, failure, at)
    return True


def _is_aside(workload: Workload) -> bool:
    return workload.state == Workload.State.HELD and workload.reason_code == events.UNJUDGED


def _read(run: Run) -> Failure:
    """Why it failed, by the end of what its ranks printed."""
    values = {"run": run.pk, "ranks": RANKS_READ, "chunks": CHUNKS_READ, "chars": CHARS_READ}
    with connection.cursor() as cursor:
        cursor.execute(PRINTED_SQL, values)
        return failure_of([text for (text,) in cursor.fetchall()], run.exit_code)


def _note(run: Run, failure: Failure) -> bool:
    """Keep it; whether this was news."""
    return bool(
        Run.objects.filter(pk=run.pk, failure_due_at__isnull=False).update(
            failure_due_at=None,
            failure_class=failure.kind,
            failure_line=failure.line,
            failure_signature=failure.signature,
        )
    )


def _go_on(workload: Workload, run: Run, failure: Failure, at: datetime) -> None:
    words = failure_words.CLASSES[failure.kind]
    if not failure.may_pass:
        ended = str(workload.reason_numbers.get("ended", ""))
        _fail(workload, failure_words.NOT_AGAIN.format(text=ended or failure_words.FAILED, words=words), at)
    elif _has_failed_alike(workload, run, failure):
        text = failure_words.ALIKE.format(words=words)
        numbers = {"run": run.number, "class": failure.kind}
        _change(workload, {"reason_code": events.ALIKE, "reason_text": text, "reason_numbers": numbers})
        _decide(workload, "hold", events.ALIKE, text, at)
        events.record(
            cluster_id=workload.cluster_id, kind=Kind.HELD, at=at, workload=workload, data={"code": events.ALIKE}
        )
    else:
        number = workload.retried + 1
        text = failure_words.AGAIN.format(words=words, number=number, number_2=workload.retries)
        _return(workload, text, at, None)


def _has_failed_alike(workload: Workload, run: Run, failure: Failure) -> bool:
    """Whether another run of its owner failed so lately; where no line says how, another one of the workload itself."""
    assert run.ended_at is not None
    others = Run.objects.filter(
        cluster=workload.cluster_id,
        failure_signature=failure.signature,
        failure_class=failure.kind,
        ended_at__gt=run.ended_at - ALIKE_FOR,
        ended_at__lt=run.ended_at + ALIKE_FOR,
    ).exclude(pk=run.pk)
    if failure.line:
        return others.filter(workload__owner=workload.owner_id).exists()
    return others.filter(workload=workload).exists()


def _change(workload: Workload, values: dict[str, Any]) -> None:
    """Of a workload that is put aside, under its cluster's writers' lock."""
    Workload.objects.filter(pk=workload.pk, state=Workload.State.HELD).update(**values)


def _fail(workload: Workload, text: str, at: datetime) -> None:
    """It is over."""
    _change(
        workload,
        {
            "state": Workload.State.FAILED,
            "ended_at": at,
            "reason_code": runs.FAILED,
            "reason_text": text,
            "reason_numbers": {},
            "secrets": {},
        },
    )
    events.record(
        cluster_id=workload.cluster_id, kind=Kind.FAILED, at=at, workload=workload, data={"code": runs.FAILED}
    )
    runs.release_followers(workload, at)
    events.wake(workload.cluster_id)


def _return(workload: Workload, text: str, at: datetime, by: Person | None) -> None:
    """It is back in its old place of the queue, and that counts as a retry."""
    _change(
        workload,
        {
            "state": Workload.State.QUEUED,
            "retried": F("retried") + 1,
            "reason_code": TRIED_AGAIN,
            "reason_text": text,
            "reason_numbers": {},
        },
    )
    _decide(workload, "release", TRIED_AGAIN, text, at)
    events.record(
        cluster_id=workload.cluster_id, kind=Kind.RELEASED, at=at, workload=workload, by=by, data={"code": TRIED_AGAIN}
    )
    events.wake(workload.cluster_id)


def _decide(workload: Workload, action: str, code: str, text: str, at: datetime) -> None:
    Decision.objects.create(workload=workload, at=at, action=action, code=code, text=text)


def release(*, workload: Workload, by: Person | None, now: datetime | None = None) -> bool:
    """Let a workload enter the queue that waits for a person's word, since it failed as before or its canary did.

    In its old place, and that counts as a retry; one that had not come yet comes now. Says False where it is not held
    for that.

    Raises:
        NotAllowed: it is not theirs.
    """
    if by is not None and not may(by, "workload.release", workload):
        raise NotAllowed("workload.release", gettext("this workload is not yours to release"))
    at = (now or timezone.now()).replace(microsecond=0)
    with events.changing(workload.cluster_id):
        row = Workload.objects.select_related("leaf", "cluster").get(pk=workload.pk)
        if row.state != Workload.State.HELD or row.reason_code not in RELEASABLE:
            return False
        if row.reason_code == events.CANARY:
            _come(row, at, by)
        else:
            text = failure_words.RELEASED.format(number=row.retried + 1, number_2=row.retries)
            _return(row, text, at, by)
    return True


def _come(workload: Workload, at: datetime, by: Person | None) -> None:
    """It enters the queue, as submitted now."""
    text = failure_words.CANARY_RELEASED
    values = {"state": Workload.State.QUEUED, "submitted_at": at, "reason_code": TRIED_AGAIN, "reason_text": text}
    _change(workload, {**values, "reason_numbers": {}})
    events.record(cluster_id=workload.cluster_id, kind=Kind.RELEASED, at=at, workload=workload, by=by)
    events.wake(workload.cluster_id)


def release_array(*, workload: Workload, by: Person | None, now: datetime | None = None) -> int:
    """`release` for every task of the array that a workload is one of, or for it alone. How many were released.

    Raises:
        NotAllowed: one of them is not theirs; nothing is released then.
    """
    if workload.array is None:
        return int(release(workload=workload, by=by, now=now))
    held = Workload.objects.filter(array=workload.array, state=Workload.State.HELD, reason_code__in=RELEASABLE)
    with events.changing(workload.cluster_id):
        rows = list(held.select_related("leaf", "cluster").order_by("pk"))
        return sum(release(workload=row, by=by, now=now) for row in rows)
