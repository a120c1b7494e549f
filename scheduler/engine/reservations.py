"""Promises: which devices are certain from when, and who gets them reserved (semantics.md section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .classes import is_reserve_kept_from, leaves_reserve, suits, without_reserved
from .cluster import HeldRun, NodeState
from .frozen import value
from .host import certain_from_s, is_bound
from .placing import Candidate, by_rack, choose_whole_nodes, is_bound_to_rack, is_whole_nodes, meets_window
from .preemption import Claimant
from .private import keeps_from, leaves_in_cell, settle
from .snapshot import Snapshot
from .trial import Trial
from .values import DEVICE_MILLI, Reservation, Workload


@value(frozen=True, slots=True)
class Certain:
    """The devices that are certain earliest for a workload, and the instant from which they are."""

    at_s: int
    holdings: Mapping[str, int]
    counts_on: tuple[str, ...]


def certain_for(trial: Trial, workload: Workload) -> Certain | None:
    """What contracts make certain for a funded workload, on today's figures; None if nothing is.

    A device is certain from t on if it is free, held by an unallocated run or one that is leaving for nobody, or by
    a run whose contract ends by t and which the workload could then preempt by rule (b) or (c), or (e) in its cell.
    What others were promised, what a plan holds, and nodes that are unfit, others' cells or in whose maintenance the
    contract would end, are not.
    """
    snapshot = trial.snapshot
    claimant = Claimant(trial, workload)
    size_milli = workload.size_milli
    is_whole = is_whole_nodes(snapshot, size_milli)
    ready: list[tuple[int, NodeState]] = []
    for node in _possible_nodes(trial, workload):
        at_s = _certain_from(claimant, node, node.capacity_milli if is_whole else size_milli)
        if at_s is not None and not meets_window(node, at_s, at_s + workload.min_runtime_s):
            ready.append((at_s, node))
    if is_whole:
        soonest = _soonest_whole(trial, workload, [Candidate((at_s,), (), node) for at_s, node in ready])
        if soonest is None:
            return None
        at_s, nodes = soonest
        holdings = {node.name: node.capacity_milli for node in nodes}
    elif ready:
        at_s, node = min(ready, key=lambda each: (each[0], each[1].name))
        nodes, holdings = [node], {node.name: size_milli}
    else:
        return None
    at_s = max(at_s, trial.now_s)
    return Certain(at_s, holdings, _counted_on(claimant, nodes, at_s))


def _soonest_whole(
    trial: Trial, workload: Workload, candidates: Sequence[Candidate]
) -> tuple[int, list[NodeState]] | None:
    """The whole nodes that are certain earliest, and that instant.

    Of a gang that is bound to one rack still, those of one rack, or from when on it looks in any.
    """
    if not is_bound_to_rack(trial.snapshot, workload):
        return _soonest_among(trial, workload, candidates)
    racks = [_soonest_among(trial, workload, members) for members in by_rack(candidates)]
    found = [(at_s, nodes[0].rack, nodes) for at_s, nodes in (each for each in racks if each is not None)]
    soonest = min(found, key=lambda each: each[:2], default=None)
    relaxed = _soonest_relaxed(trial, workload, candidates)
    if relaxed is not None and (soonest is None or relaxed[0] < soonest[0]):
        return relaxed
    return None if soonest is None else (soonest[0], soonest[2])


def _soonest_relaxed(
    trial: Trial, workload: Workload, candidates: Sequence[Candidate]
) -> tuple[int, list[NodeState]] | None:
    """The same in any rack, from when on it looks there."""
    if workload.relaxes_s is None:
        return None
    from_s, contract_s = workload.relaxes_s, workload.min_runtime_s
    later = [each._replace(cost=(max(each.cost[0], from_s),)) for each in candidates]
    later = [each for each in later if not meets_window(each.node, each.cost[0], each.cost[0] + contract_s)]
    return _soonest_among(trial, workload, later)


def _soonest_among(
    trial: Trial, workload: Workload, candidates: Sequence[Candidate]
) -> tuple[int, list[NodeState]] | None:
    """The same of these nodes, of those that leave the reserve of high-end devices."""
    snapshot, size_milli = trial.snapshot, workload.size_milli
    nodes = choose_whole_nodes(candidates, size_milli)
    if nodes is not None and not leaves_reserve(snapshot, workload, nodes):
        names = without_reserved(snapshot, [each.node for each in candidates])
        nodes = choose_whole_nodes([each for each in candidates if each.node.name in names], size_milli)
    if nodes is None:
        return None
    instants = {each.node.name: each.cost[0] for each in candidates}
    return max(instants[node.name] for node in nodes), nodes


def certain_at_s(trial: Trial, workload: Workload) -> int | None:
    """The instant of `certain_for` alone."""
    is_apart = bool(trial.snapshot.tree.tenants) or is_bound_to_rack(trial.snapshot, workload)
    horizon = None if is_apart else trial.reaches.at_a_glance(workload)
    if horizon is not None and horizon.knows(workload.size_milli):
        return horizon.certain_at_s(workload)
    if _is_bound_by_devices_alone(trial.snapshot, workload):
        return _first_certain_s(trial, workload)
    certain = certain_for(trial, workload)
    return None if certain is None else certain.at_s


def _is_bound_by_devices_alone(snapshot: Snapshot, workload: Workload) -> bool:
    """Whether a workload may go on any one node that is fit and has the devices."""
    return not (
        workload.node is not None
        or workload.asks_host
        or snapshot.tree.tenants
        or is_whole_nodes(snapshot, workload.size_milli)
        or is_reserve_kept_from(snapshot, workload)
        or snapshot.nodes.have_windows
    )


def _first_certain_s(trial: Trial, workload: Workload) -> int | None:
    """The first instant from which there are devices enough on some one node."""
    claimant = Claimant(trial, workload)
    first_s = None
    for node in trial.snapshot.nodes.by_name.values():
        if node.indexed_milli is None:
            continue
        at_s = _devices_certain_from(claimant, node, workload.size_milli)
        if at_s is not None and (first_s is None or at_s < first_s):
            first_s = at_s
            if at_s <= trial.now_s:
                break
    return first_s


def is_any_certain(trial: Trial, workload: Workload) -> bool:
    """Whether anything is certain for a workload that holds no promise."""
    snapshot = trial.snapshot
    if (
        workload.node is not None
        or workload.asks_host
        or is_reserve_kept_from(snapshot, workload)
        or (workload.relaxes_s is None and is_bound_to_rack(snapshot, workload))
        or snapshot.nodes.have_windows
    ):
        return certain_at_s(trial, workload) is not None
    return trial.reaches.has_ever(workload, max(workload.size_milli, DEVICE_MILLI))


def _possible_nodes(trial: Trial, workload: Workload) -> Iterator[NodeState]:
    nodes = trial.snapshot.nodes.by_name
    pinned_to = None if workload.node is None else nodes.get(workload.node)
    possible = nodes.values() if workload.node is None else [] if pinned_to is None else [pinned_to]
    return (node for node in possible if _is_possible(trial, node, workload))


def _is_possible(trial: Trial, node: NodeState, workload: Workload) -> bool:
    """Whether a node may start something, of a class that suits, no cell of others, and without what is kept free."""
    if node.indexed_milli is None or not suits(node, workload) or keeps_from(trial.snapshot, node, workload):
        return False
    return leaves_reserve(trial.snapshot, workload, [node])


def _certain_from(claimant: Claimant, node: NodeState, need_milli: int) -> int | None:
    """The first instant from which so much of a node is certain, with the cores and memory that are asked for."""
    at_s = _devices_certain_from(claimant, node, need_milli)
    if at_s is None or not is_bound(node, claimant.workload):
        return at_s
    leaves = {
        run.id: run.leave_by_s if run.leave_by_s is not None else run.contract_end_s or claimant.trial.now_s
        for run in node.runs.values()
        if run.leave_by_s is not None
        or not run.funded
        or (run.contract_end_s is not None and claimant.may_when_over(run))
    }
    host_s = certain_from_s(claimant.snapshot, node, claimant.workload, leaves)
    return None if host_s is None else max(at_s, host_s)


def _devices_certain_from(claimant: Claimant, node: NodeState, need_milli: int) -> int | None:
    now_s = claimant.trial.now_s
    need_milli = max(need_milli, DEVICE_MILLI)  # a fraction is certain where a whole device is
    room_milli = node.whole_free_milli()
    for promise in node.reservations:
        if promise.workload != claimant.workload.id:
            room_milli -= promise.holdings[node.name]
    if room_milli >= need_milli:
        return now_s
    later = claimant.reach.on(node)
    if claimant.leaf.tenant and (beaten := leaves_in_cell(claimant.snapshot, node, claimant.leaf.tenant)):
        later = claimant.reach.on_with(node, beaten)
    if node.leaving_milli:
        leaving = [(node.runs[name].leave_by_s or now_s, amount_milli) for name, amount_milli in node.left_for_nobody()]
        later = sorted([*later, *leaving])
    for at_s, amount_milli in later:
        room_milli += amount_milli
        if room_milli >= need_milli:
            return max(now_s, at_s)
    return None


class Outlook:
    """Whether enough is certain for the holder of a promise before the promised instant.

    It follows the log of changed nodes. Until the promised instant, what it says of a node does not depend on time.
    """

    __slots__ = ("_early_milli", "_is_enough", "_others", "_promise", "_reach", "_seen", "_spread", "_version")

    def __init__(self, trial: Trial, workload: Workload) -> None:
        """Nothing was looked at yet."""
        self._promise = trial.snapshot.reservations[workload.id]
        self._spread = workload.spread
        self._reach = trial.reaches.of(workload)
        self._version = self._reach.version
        self._others = _promises_but(trial, self._promise)
        self._early_milli: dict[str, int] = {}
        self._is_enough = False
        self._seen = 0

    def holds(self, trial: Trial, workload: Workload) -> bool:
        """Whether promises, and what the holder may take over, are still those that this was made for."""
        reach = trial.reaches.of(workload)
        return (
            self._promise is trial.snapshot.reservations[workload.id]
            and self._spread == workload.spread
            and self._reach is reach
            and self._version == reach.version
            and self._others == _promises_but(trial, self._promise)
        )

    def is_earlier(self, trial: Trial, workload: Workload) -> bool:
        """Whether there is enough."""
        snapshot = trial.snapshot
        settle(snapshot)
        if self._seen == len(snapshot.nodes.changes):
            return self._is_enough
        claimant = Claimant(trial, workload)
        is_whole = is_whole_nodes(snapshot, workload.size_milli)
        changed = snapshot.nodes.changes[self._seen :] if self._seen else snapshot.nodes.by_name.values()
        for node in set(changed):
            self._early_milli.pop(node.name, None)
            if workload.node in (None, node.name) and _is_possible(trial, node, workload):
                at_s = _certain_from(claimant, node, node.capacity_milli if is_whole else workload.size_milli)
                if at_s is not None and at_s < self._promise.at_s:
                    self._early_milli[node.name] = node.capacity_milli
        self._seen = len(snapshot.nodes.changes)
        self._is_enough = self._most_early_milli(snapshot, workload) >= workload.size_milli
        return self._is_enough

    def _most_early_milli(self, snapshot: Snapshot, workload: Workload) -> int:
        """What is certain before, where the workload looks: in all, or, while it is bound to one, in any one rack."""
        relaxes_s = workload.relaxes_s
        relaxes_before = relaxes_s is not None and relaxes_s < self._promise.at_s
        if relaxes_before or not is_bound_to_rack(snapshot, workload):
            return sum(self._early_milli.values())
        racks_milli: dict[str, int] = {}
        for name, milli in self._early_milli.items():
            rack = snapshot.nodes.by_name[name].rack
            racks_milli[rack] = racks_milli.get(rack, 0) + milli
        return max(racks_milli.values(), default=0)


def may_be_earlier(trial: Trial, workload: Workload) -> bool:
    """Whether what was promised to a workload, for an instant to come, might be certain earlier by now."""
    snapshot = trial.snapshot
    if snapshot.nodes.have_windows:
        return True
    if workload.node is not None and snapshot.tree.tenants:  # what is matched without that node decides
        return True
    outlook: Outlook | None = snapshot.outlooks.get(workload.id)
    if outlook is None or not outlook.holds(trial, workload):
        outlook = snapshot.outlooks[workload.id] = Outlook(trial, workload)
    return outlook.is_earlier(trial, workload)


def _promises_but(trial: Trial, promise: Reservation) -> list[Reservation]:
    return [each for each in trial.snapshot.reservations.values() if each is not promise]


def _counted_on(claimant: Claimant, nodes: list[NodeState], at_s: int) -> tuple[str, ...]:
    """The runs on these nodes whose devices are certain by then."""
    counted = {
        run.id
        for node in nodes
        for run in node.runs.values()
        if run.leave_by_s is None and _is_certain(claimant, run, at_s)
    }
    return tuple(sorted(counted))


def _is_certain(claimant: Claimant, run: HeldRun, at_s: int) -> bool:
    if not run.funded:
        return True
    return run.contract_end_s is not None and run.contract_end_s <= at_s and claimant.may_when_over(run)


def is_unfit(trial: Trial, promise: Reservation) -> bool:
    """Whether a node of a promise is fit no longer, which ends it."""
    if not trial.snapshot.nodes.restless:
        return False
    for name in promise.holdings:
        node = trial.snapshot.nodes.by_name.get(name)
        if node is None or not node.may_start(trial.now_s):
            return True
    return False
