"""A pass's plan, carried out on rows: one transaction of conditional changes.

Between loading and applying, rows may have changed. Whatever a decision assumed and no longer holds drops that
decision, with all that depended on it; the next pass sees the new state. Nothing is preempted for a workload whose own
part was dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from django.db import connection
from django.db.models import F, Max
from django.db.models.functions import Coalesce
from django.utils import timezone

from budgets.models import BudgetNode
from scheduler.engine import ENGINE_VERSION, Action, Decision, LevelFigures, Plan
from scheduler.models import Claim, Holding, Node, Pass, Rank, Reservation, Run, Workload
from scheduler.models import Decision as DecisionRow
from scheduler.services import agents, current, events
from scheduler.services.devices import FreeDevices
from scheduler.services.events import Entry, Kind
from scheduler.snapshots.build import Loaded

log = structlog.get_logger(__name__)

ORDER_KEPT = 200
"""How many places of the order a pass keeps."""

NEEDED_STATE = {
    Action.START: Workload.State.QUEUED,
    Action.CLAIM: Workload.State.QUEUED,
    Action.HOLD: Workload.State.QUEUED,
    Action.RELEASE: Workload.State.HELD,
    Action.RESERVE: Workload.State.QUEUED,
    Action.END_CLAIM: Workload.State.QUEUED,
    Action.END_RESERVATION: Workload.State.QUEUED,
}
PREEMPTIBLE = (Run.State.STARTING, Run.State.RUNNING)


@dataclass(slots=True)
class Applied:
    """What became of a plan: the stored pass, whether it changed anything a pass sees, and what was dropped."""

    stored: Pass
    has_changed: bool
    dropped: Sequence[str] = ()


@dataclass(slots=True)
class _Work:
    """One plan being carried out."""

    loaded: Loaded
    plan: Plan
    stored: Pass
    decisions: list[Decision] = field(default_factory=list)
    devices: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)  # by workload: (node, device, milli)
    entries: list[Entry] = field(default_factory=list)
    rows: list[DecisionRow] = field(default_factory=list)
    node_ids: set[int] = field(default_factory=set)  # whose agents have something to do

    @property
    def at(self) -> datetime:
        """The instant of the pass."""
        return self.loaded.now

    def of(self, action: Action) -> list[Decision]:
        """The decisions of one kind that hold, in the plan's order."""
        return [each for each in self.decisions if each.action is action]

    def pk(self, decision: Decision) -> int:
        """Whom it is about."""
        if decision.run is not None:
            return self.loaded.runs[decision.run].workload_id
        return self.loaded.workloads[decision.workload].pk


def apply(loaded: Loaded, plan: Plan, *, timings: Mapping[str, int] | None = None) -> Applied:
    """Carry out a plan: start, claim, preempt, hold, release, reserve, and tell everybody who waits why.

    Args:
        loaded: what the plan was made on.
        plan: the engine's.
        timings: `load_ms` and `decide_ms`, for the record.
    """
    with events.changing(loaded.cluster.pk):
        stored = _store(loaded, plan, timings or {})
        work = _Work(loaded, plan, stored)
        dropped = _choose(work)
        _hold_and_release(work)
        _end_plans(work)
        _preempt(work)
        _start(work)
        _promise(work)
        current.tell(work)
        DecisionRow.objects.bulk_create(work.rows)
        events.record_all(cluster_id=loaded.cluster.pk, entries=work.entries, at=work.at, made_in=stored)
        agents.wake(work.node_ids)
    for workload in dropped:
        log.info("decision_dropped", pass_id=stored.pk, workload=workload)
    return Applied(stored, bool(work.entries), dropped)


def _store(loaded: Loaded, plan: Plan, timings: Mapping[str, int]) -> Pass:
    return Pass.objects.create(
        cluster=loaded.cluster,
        at=loaded.now,
        event_mark=loaded.event_mark,
        policy=loaded.policy_version,
        tree=loaded.tree_version,
        engine_version=ENGINE_VERSION,
        order=list(plan.order[:ORDER_KEPT]),
        figures={name: figures_as_json(each) for name, each in plan.figures.items()},
        load_ms=timings.get("load_ms", 0),
        decide_ms=timings.get("decide_ms", 0),
    )


def figures_as_json(figures: LevelFigures) -> dict[str, Any]:
    """As `Pass.figures` holds them."""
    return {
        "used_milli_s": figures.used_milli_s,
        "committed_milli_s": figures.committed_milli_s,
        "uncharged_milli_s": figures.uncharged_milli_s,
        "shares": figures.shares,
        "entitlement": list(figures.entitlement),
    }


# --- what still holds -------------------------------------------------------------------------------------------------


def _choose(work: _Work) -> list[str]:
    """Keep the decisions whose assumptions still hold. Returns the codes of the workloads whose were dropped."""
    plan = work.plan.decisions
    gone = _workloads_that_moved_on(work)
    startable = _startable_nodes(work)
    free = FreeDevices(
        work.loaded.nodes[name] for each in plan if each.action is Action.START for name in each.holdings
    )
    for each in plan:
        if each.action is Action.START and each.workload not in gone:
            taken = None
            if all(name in startable for name in each.holdings):
                taken = free.take({work.loaded.nodes[name]: milli for name, milli in each.holdings.items()})
            if taken is None:
                gone.add(each.workload)
            else:
                work.devices[each.workload] = taken
    stoppable, out_of_reach = _stoppable_runs(work)
    _drop_claims_in_vain(work, gone, stoppable, out_of_reach)
    work.decisions = [each for each in plan if _holds(each, gone, stoppable)]
    return sorted(gone)


def _workloads_that_moved_on(work: _Work) -> set[str]:
    needed = {each.workload: each.action for each in work.plan.decisions if each.action in NEEDED_STATE}
    if not needed:
        return set()
    # A workload that is released and then started in one pass was held before.
    released = {each.workload for each in work.plan.decisions if each.action is Action.RELEASE}
    ids = {work.loaded.workloads[name].pk: name for name in needed}
    rows = Workload.objects.select_for_update(no_key=True).filter(pk__in=ids, cancel_asked_at=None).order_by("pk")
    states = {ids[pk]: state for pk, state in rows.values_list("pk", "state")}
    return {
        name
        for name, action in needed.items()
        if states.get(name) != (Workload.State.HELD if name in released else NEEDED_STATE[action])
    }


def _startable_nodes(work: _Work) -> set[str]:
    """Nodes that are still fit: an agent may have fallen silent since the snapshot."""
    names = {name for each in work.plan.decisions if each.action is Action.START for name in each.holdings}
    if not names:
        return set()
    rows = Node.objects.filter(
        cluster=work.loaded.cluster, name__in=names, health="healthy", drain_asked_at=None, retired_at=None
    )
    return set(rows.values_list("name", flat=True))


def _stoppable_runs(work: _Work) -> tuple[set[str], set[str]]:
    """The runs to preempt, by the engine's id: those that still can be, and those whose node fell silent meanwhile.

    The others have ended or been told to stop: whoever counts on their devices may.
    """
    runs = {work.loaded.runs[each.run].pk: each.run for each in work.plan.decisions if each.run is not None}
    if not runs:
        return set(), set()
    rows = Run.objects.select_for_update(no_key=True).filter(pk__in=runs, stop_asked_at=None).order_by("pk")
    states = dict(rows.values_list("pk", "state"))
    return (
        {runs[pk] for pk, state in states.items() if state in PREEMPTIBLE},
        {runs[pk] for pk, state in states.items() if state == Run.State.UNREACHABLE},
    )


def _drop_claims_in_vain(work: _Work, gone: set[str], stoppable: set[str], out_of_reach: set[str]) -> None:
    """A claim that counts on runs which will not be stopped, since another claim was dropped, is dropped too."""
    claims = {each.workload: each for each in work.plan.decisions if each.action is Action.CLAIM}
    victims = {each.run: each.by for each in work.plan.decisions if each.run is not None and each.by is not None}
    vain = set(claims) if victims else set()
    while vain:
        kept_on = {run for run, by in victims.items() if by in gone and run in stoppable} | out_of_reach
        vain = {
            name
            for name, claim in claims.items()
            if name not in gone and any(run in kept_on for run in claim.reason.numbers["waits_for"])
        }
        gone |= vain


def _holds(decision: Decision, gone: set[str], stoppable: set[str]) -> bool:
    if decision.action is Action.PREEMPT:
        return decision.run in stoppable and decision.by not in gone
    return decision.workload not in gone


# --- changes ----------------------------------------------------------------------------------------------------------


def _hold_and_release(work: _Work) -> None:
    for action, before, after, kind in (
        (Action.RELEASE, Workload.State.HELD, Workload.State.QUEUED, Kind.RELEASED),
        (Action.HOLD, Workload.State.QUEUED, Workload.State.HELD, Kind.HELD),
    ):
        ids = [work.pk(each) for each in work.of(action)]
        if ids:
            Workload.objects.filter(pk__in=ids, state=before).update(state=after)
            work.entries += [Entry(kind, workload_id=pk) for pk in ids]


def _end_plans(work: _Work) -> None:
    """Claims and reservations end: by the engine's word, and claims of what starts or is claimed anew."""
    claimless = {work.pk(each): each.reason.code for each in work.of(Action.END_CLAIM)}
    claimless |= {
        work.pk(each): each.reason.code for action in (Action.START, Action.CLAIM) for each in work.of(action)
    }
    unreserved = {work.pk(each): each.reason.code for each in work.of(Action.END_RESERVATION)}
    unreserved |= {work.pk(each): "moved earlier" for each in work.of(Action.RESERVE)}
    for model, outcomes, kind, name in (
        (Claim, claimless, Kind.CLAIM_ENDED, "claim"),
        (Reservation, unreserved, Kind.RESERVATION_ENDED, "reservation"),
    ):
        for row in model.objects.filter(workload__in=outcomes, ended_at=None).order_by("pk") if outcomes else ():
            outcome = outcomes[row.workload_id][:20]
            model.objects.filter(pk=row.pk, ended_at=None).update(ended_at=work.at, outcome=outcome)
            work.entries.append(Entry(kind, workload_id=row.workload_id, data={name: row.pk, "outcome": outcome}))


def _preempt(work: _Work) -> None:
    """Tell runs to leave within the grace."""
    leave_by = work.at + timedelta(seconds=work.loaded.policy.grace_s)
    for each in work.of(Action.PREEMPT):
        assert each.run is not None
        run = work.loaded.runs[each.run]
        by = None if each.by is None else work.loaded.workloads[each.by].pk
        changed = Run.objects.filter(pk=run.pk, state__in=PREEMPTIBLE, stop_asked_at=None).update(
            state=Run.State.LEAVING,
            stop_asked_at=work.at,
            leave_by=leave_by,
            end_reason=each.reason.code,
            preempted_by_id=by,
        )
        assert changed == 1, f"run {each.run} changed under its lock"
        Workload.objects.filter(pk=run.workload_id, state__in=(Workload.State.STARTING, Workload.State.RUNNING)).update(
            state=Workload.State.LEAVING
        )
        work.entries.append(
            Entry(
                Kind.RUN_STOPPING,
                workload_id=run.workload_id,
                run_id=run.pk,
                data={"code": each.reason.code, "by": each.by},
            )
        )
    stopped = [work.loaded.runs[each.run].pk for each in work.of(Action.PREEMPT) if each.run is not None]
    work.node_ids |= set(Rank.objects.filter(run__in=stopped).values_list("node_id", flat=True)) if stopped else set()


def _start(work: _Work) -> None:
    """Runs with their holdings and ranks, and claims for those whose devices are still being left."""
    starts = work.of(Action.START)
    if starts:
        ids = [work.pk(each) for each in starts]
        Workload.objects.filter(pk__in=ids, state=Workload.State.QUEUED).update(
            state=Workload.State.STARTING, first_started_at=Coalesce(F("first_started_at"), work.at), place=None
        )
        runs = Run.objects.bulk_create(_runs_of(work, starts, ids))
        holdings = [
            Holding(run=run, device_id=device, node_id=node, milli=milli)
            for each, run in zip(starts, runs, strict=True)
            for node, device, milli in work.devices[each.workload]
        ]
        Holding.objects.bulk_create(holdings, batch_size=5_000)
        Rank.objects.bulk_create(
            (
                Rank(run=run, node_id=work.loaded.nodes[name], index=index)
                for each, run in zip(starts, runs, strict=True)
                for index, name in enumerate(sorted(each.holdings))
            ),
            batch_size=5_000,
        )
        work.entries += [Entry(Kind.RUN_STARTED, workload_id=run.workload_id, run_id=run.pk) for run in runs]
        work.node_ids |= {holding.node_id for holding in holdings}
    for each in work.of(Action.CLAIM):
        waits_for = [work.loaded.runs[run].pk for run in each.reason.numbers["waits_for"] if run in work.loaded.runs]
        claim = Claim.objects.create(
            workload_id=work.pk(each),
            cluster=work.loaded.cluster,
            holdings=dict(each.holdings),
            waits_for=waits_for,
            made_in=work.stored,
            made_at=work.at,
        )
        work.entries.append(Entry(Kind.CLAIM_MADE, workload_id=claim.workload_id, data={"claim": claim.pk}))


def _runs_of(work: _Work, starts: Sequence[Decision], ids: Sequence[int]) -> list[Run]:
    numbers = dict(Run.objects.filter(workload__in=ids).values_list("workload_id").annotate(last=Max("number")))
    waiting = [work.loaded.workloads[each.workload] for each in starts]
    paths = dict(BudgetNode.objects.filter(pk__in={row.leaf_id for row in waiting}).values_list("pk", "path"))
    return [
        Run(
            workload_id=row.pk,
            number=numbers.get(row.pk, 0) + 1,
            cluster=work.loaded.cluster,
            leaf_id=row.leaf_id,
            path=paths[row.leaf_id],
            size_milli=sum(each.holdings.values()),
            funded=each.funded,
            min_runtime_s=row.min_runtime_s,
            started_at=work.at,
            started_in=work.stored,
        )
        for each, row in zip(starts, waiting, strict=True)
    ]


def _promise(work: _Work) -> None:
    for each in work.of(Action.RESERVE):
        numbers: Mapping[str, Any] = each.reason.numbers
        row = Reservation.objects.create(
            workload_id=work.pk(each),
            cluster=work.loaded.cluster,
            starts_at=datetime.fromtimestamp(numbers["at_s"], UTC),
            holdings=dict(each.holdings),
            counts_on=[work.loaded.runs[run].pk for run in numbers["counts_on"] if run in work.loaded.runs],
            made_in=work.stored,
            made_at=work.at,
        )
        work.entries.append(Entry(Kind.RESERVATION_MADE, workload_id=row.workload_id, data={"reservation": row.pk}))


def note_apply_time(stored: Pass, apply_ms: int) -> None:
    """Write down how long carrying out took, after it was committed."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduler_pass SET apply_ms = %s WHERE id = %s", [apply_ms, stored.pk])


QUIET_FOR = timedelta(hours=1)
"""Passes that changed nothing and told nobody anything new are kept this long."""

FORGET_SQL = """
DELETE FROM scheduler_pass p WHERE p.at < %(before)s
AND EXISTS (SELECT 1 FROM scheduler_pass later WHERE later.cluster_id = p.cluster_id AND later.id > p.id)
AND NOT EXISTS (SELECT 1 FROM scheduler_event e WHERE e.made_in_id = p.id)
AND NOT EXISTS (SELECT 1 FROM scheduler_decision d WHERE d.made_in_id = p.id)
AND NOT EXISTS (SELECT 1 FROM scheduler_run r WHERE r.started_in_id = p.id)
AND NOT EXISTS (SELECT 1 FROM scheduler_claim c WHERE c.made_in_id = p.id)
AND NOT EXISTS (SELECT 1 FROM scheduler_reservation v WHERE v.made_in_id = p.id)
"""


def forget_quiet(now: datetime | None = None) -> int:
    """Drop old passes that nothing refers to; the last one of a cluster stays. How many were dropped."""
    before = (now or timezone.now()) - QUIET_FOR
    with connection.cursor() as cursor:
        cursor.execute(FORGET_SQL, {"before": before})
        return cursor.rowcount
