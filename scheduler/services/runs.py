"""The life of a run after a pass has started it: it really runs, it is told to stop, it ends.

Called by those who learn of it (facts of agents, cancels, time limits, lost nodes), inside `events.changing`. Each
change is conditional on the state it starts from, and says whether it was made: a replayed report changes nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Case, F, Q, Value, When
from django.utils import timezone

from budgets.authority import may
from budgets.errors import InputError, NotAllowed
from budgets.models import Person
from scheduler.engine import Code, Policy
from scheduler.models import Claim, Decision, Holding, Reservation, Run, Workload
from scheduler.services import agents, events, policies
from scheduler.services.events import Kind

FINISHED = "finished"
FAILED = "failed"
CANCELLED = "cancelled"
TIME_LIMIT = "time_limit"

HOLDING_STATES = (Run.State.STARTING, Run.State.RUNNING, Run.State.UNREACHABLE)
"""Not ended and, unless it is unreachable, not told to stop."""

FINAL_STATES = {FINISHED: Workload.State.FINISHED, FAILED: Workload.State.FAILED, TIME_LIMIT: Workload.State.FAILED}
"""What becomes of a workload whose run ended like this; whatever else ends a run sends it back to the queue."""


def begin(*, run: Run, at: datetime) -> bool:
    """Every rank really runs: the contract begins at `at`.

    One that was told to stop after that keeps leaving; that it ran is noted, since its progress counts from then.
    Says False for a run of which this was known, or that has ended, or that never ran before it was told to stop.
    """
    with events.changing(run.cluster_id):
        ends_at = at + timedelta(seconds=run.min_runtime_s) if run.funded else None
        starting = Q(state=Run.State.STARTING) | Q(state=Run.State.LEAVING, stop_asked_at__gte=at)
        goes_on = Case(When(state=Run.State.STARTING, then=Value(Run.State.RUNNING)), default=F("state"))
        changed = Run.objects.filter(starting, pk=run.pk, running_at=None).update(
            state=goes_on, running_at=at, contract_ends_at=ends_at
        )
        if not changed:
            return False
        Workload.objects.filter(pk=run.workload_id, state=Workload.State.STARTING).update(state=Workload.State.RUNNING)
        _log(run, Kind.RUN_RUNNING, at)
        return True


def tell_to_stop(*, run: Run, code: str, at: datetime, policy: Policy, by: Person | None = None) -> bool:
    """Ask a run to leave within the grace. `code` is what it will have ended as.

    Says False for a run that is leaving or has ended already. An unreachable run stays unreachable: nobody can be
    told anything there; it leaves when its node answers.
    """
    with events.changing(run.cluster_id):
        leaving = Case(
            When(state=Run.State.UNREACHABLE, then=Value(Run.State.UNREACHABLE)), default=Value(Run.State.LEAVING)
        )
        changed = Run.objects.filter(pk=run.pk, state__in=HOLDING_STATES, stop_asked_at=None).update(
            state=leaving, stop_asked_at=at, leave_by=at + timedelta(seconds=policy.grace_s), end_reason=code
        )
        if not changed:
            return False
        Workload.objects.filter(pk=run.workload_id, state__in=(Workload.State.STARTING, Workload.State.RUNNING)).update(
            state=Workload.State.LEAVING
        )
        _log(run, Kind.RUN_STOPPING, at, by=by, code=code)
        return True


def stop_by_operator(*, run: Run, by: Person, reason: str, now: datetime | None = None) -> bool:
    """An operator's emergency stop (fire, theft), also inside a contract: on the record, and its charge is given back.

    Says False for a run that is leaving or has ended already.

    Raises:
        InputError: no reason was given. NotAllowed: not theirs to decide.
    """
    if not may(by, "node.operate", run.cluster):
        raise NotAllowed("node.operate")
    if not reason.strip():
        raise InputError("reason", "say why, in a sentence: the owner reads it")
    at = (now or timezone.now()).replace(microsecond=0)
    with events.changing(run.cluster_id):
        policy = policies.as_policy(policies.latest(run.cluster))
        if not tell_to_stop(run=run, code=Code.STOPPED_BY_OPERATOR, at=at, policy=policy, by=by):
            return False
        text = f"Stopped by an operator: {reason.strip()}"
        numbers = {"person_id": by.pk}
        Decision.objects.create(
            workload_id=run.workload_id,
            run=run,
            at=at,
            action="stop",
            code=Code.STOPPED_BY_OPERATOR,
            text=text,
            numbers=numbers,
        )
        Workload.objects.filter(pk=run.workload_id).update(
            reason_code=Code.STOPPED_BY_OPERATOR, reason_text=text, reason_numbers=numbers
        )
        agents.wake(set(run.ranks.values_list("node_id", flat=True)))
    return True


def end(*, run: Run, at: datetime, code: str, exit_code: int | None = None) -> bool:
    """A run holds its devices no longer: they are free at once, and its charge stops.

    Args:
        run: which; only its key and what never changes are used.
        at: when it really ended, not before its start.
        code: why, unless it had been told to stop before: then that reason stands. `finished`, `failed`, or a
            reason code such as `node_lost`.
        exit_code: the first rank's that was not 0, else 0; minus the signal where one ended it.

    Says False for a run that has ended already.
    """
    with events.changing(run.cluster_id):
        row = Run.objects.select_for_update().select_related("workload").get(pk=run.pk)
        if row.state == Run.State.ENDED:
            return False
        ended_at = max(at, row.started_at)
        was_told = row.stop_asked_at is not None and row.stop_asked_at <= ended_at
        row.end_reason = code if code == Code.STUCK_EXIT or not was_told else (row.end_reason or code)
        row.state, row.ended_at, row.exit_code = Run.State.ENDED, ended_at, exit_code
        row.save(update_fields=["end_reason", "state", "ended_at", "exit_code"])
        Holding.objects.filter(run=row, released_at=None).update(released_at=ended_at)
        row.ranks.filter(state__in=("wanted", "running")).update(
            state="gone" if row.end_reason == Code.NODE_LOST else "exited", exited_at=ended_at
        )
        _settle_workload(row, ended_at)
        _log(row, Kind.RUN_ENDED, ended_at, code=row.end_reason)
        events.wake(row.cluster_id)
        return True


def _settle_workload(run: Run, at: datetime) -> None:
    """The workload of an ended run ends with it, or returns to its old place in the queue."""
    workload = run.workload
    state = FINAL_STATES.get(run.end_reason)
    if workload.cancel_asked_at is not None:
        state = Workload.State.CANCELLED
    elif state is None:
        workload.preemptions += run.end_reason not in (Code.NODE_LOST, Code.STOPPED_BY_OPERATOR, CANCELLED)
        if not workload.resumable:
            state = Workload.State.LOST if run.end_reason == Code.NODE_LOST else Workload.State.PREEMPTED
    if state is None:
        workload.state = Workload.State.QUEUED
        workload.progress_s += ran_s(run)
    else:
        workload.state, workload.ended_at = state, at
    workload.save(update_fields=["state", "ended_at", "preemptions", "progress_s"])
    if state is not None:
        release_followers(workload, at)


def ran_s(run: Run) -> int:
    """How long a run really ran until it was told to stop, or ended: the progress that it can have saved."""
    untils = [instant for instant in (run.stop_asked_at, run.ended_at) if instant is not None]
    if run.running_at is None or not untils:
        return 0
    return max(0, int((min(untils) - run.running_at).total_seconds()))


def release_followers(workload: Workload, at: datetime) -> None:
    """A workload has ended: those submitted to come after it enter the queue, as submitted now."""
    followers = Workload.objects.filter(after=workload, state=Workload.State.HELD, reason_code=events.AFTER)
    ids = sorted(followers.values_list("pk", flat=True))
    if not ids:
        return
    Workload.objects.filter(pk__in=ids, state=Workload.State.HELD).update(
        state=Workload.State.QUEUED, submitted_at=at, reason_code="", reason_text=""
    )
    entries = [events.Entry(Kind.RELEASED, workload_id=pk) for pk in ids]
    events.record_all(cluster_id=workload.cluster_id, entries=entries, at=at)
    events.wake(workload.cluster_id)


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


def over_time_limit(cluster_id: int, now: datetime) -> list[Run]:
    """Runs whose workload has run for its whole time limit, over all its runs, and that were not told to stop."""
    rows = Run.objects.filter(
        cluster_id=cluster_id, state=Run.State.RUNNING, stop_asked_at=None, workload__time_limit_s__isnull=False
    )
    return [
        run
        for run in rows.select_related("workload").order_by("pk")
        if run.running_at is not None
        and run.running_at + timedelta(seconds=(run.workload.time_limit_s or 0) - run.workload.progress_s) <= now
    ]


def _log(run: Run, kind: Kind, at: datetime, by: Person | None = None, code: str = "") -> None:
    events.record_all(
        cluster_id=run.cluster_id,
        entries=[events.Entry(kind, workload_id=run.workload_id, run_id=run.pk, data={"code": code} if code else {})],
        at=at,
        by=by,
    )
