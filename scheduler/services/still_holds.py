"""A plan that is carried out, and what of it still holds on rows that may have changed since it was made.

Whatever a decision assumed and no longer holds drops that decision, with all that depended on it; the next pass sees
the new state. Nothing is preempted for a workload whose own part was dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from scheduler.engine import Action, Decision, Plan
from scheduler.models import Node, Pass, Run, Workload
from scheduler.services.devices import FreeDevices
from scheduler.services.events import Entry
from scheduler.snapshots.build import Loaded

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
class Work:
    """One plan being carried out."""

    loaded: Loaded
    plan: Plan
    stored: Pass
    decisions: list[Decision] = field(default_factory=list)
    devices: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)  # by workload: (node, device, milli)
    entries: list[Entry] = field(default_factory=list)
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


def choose(work: Work) -> list[str]:
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


def _workloads_that_moved_on(work: Work) -> set[str]:
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


def _startable_nodes(work: Work) -> set[str]:
    """Nodes that are still fit: an agent may have fallen silent since the snapshot."""
    names = {name for each in work.plan.decisions if each.action is Action.START for name in each.holdings}
    if not names:
        return set()
    rows = Node.objects.filter(
        cluster=work.loaded.cluster, name__in=names, health="healthy", drain_asked_at=None, retired_at=None
    )
    return set(rows.values_list("name", flat=True))


def _stoppable_runs(work: Work) -> tuple[set[str], set[str]]:
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


def _drop_claims_in_vain(work: Work, gone: set[str], stoppable: set[str], out_of_reach: set[str]) -> None:
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
