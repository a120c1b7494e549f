"""Whether a pass could decide anything, seen at a glance: most passes of a busy cluster cannot.

What is asked here may err towards "perhaps"; then the pass is made in full. What it rests on is remembered on the
snapshot from pass to pass, beside the log of changed nodes; without that memory the answer is the same, only later.
"""

from __future__ import annotations

from typing import NamedTuple

from .admission import reason_to_hold
from .cluster import DEVICE_MILLI, Nodes, NodeState
from .placing import is_whole_nodes
from .preemption import is_out_of_reach
from .queues import Group
from .reach import Reach
from .reservations import is_any_certain, is_unfit, may_be_earlier
from .snapshot import Snapshot
from .tree import Level
from .trial import Trial
from .values import Reservation, Workload


class Failure(NamedTuple):
    """None of a group could be placed: with this reach and these promises, and with the nodes as the log had them."""

    reach: Reach
    version: int
    promises: list[Reservation]
    seen: int


def note_failure(trial: Trial, workload: Workload) -> None:
    """Remember that a funded workload could not be placed, where that says the same of all its group."""
    snapshot = trial.snapshot
    group = snapshot.queues[workload.leaf].group(workload)
    if workload.id in group.members and workload.min_runtime_s == group.shortest_contract_s():
        reach = trial.reaches.of(workload)
        promises = list(snapshot.reservations.values())
        group.failure = Failure(reach, reach.version, promises, len(snapshot.nodes.changes))


def is_quiet(trial: Trial) -> bool:
    """Whether a pass would change nothing, and only tell people why they wait."""
    return not (
        _must_hold_or_release(trial.snapshot)
        or _must_empty_nodes(trial)
        or any(_is_settled(trial, workload_id) for workload_id in trial.snapshot.claims)
        or may_move_funded(trial)
        or may_start_unallocated(trial.snapshot)
    )


class Calm(NamedTuple):
    """Nobody funded could be placed or promised anything.

    With these promises and comparisons, as often as somebody had joined the queue, and with the nodes as the log had
    them; `least_milli` was the least that anybody asked for.
    """

    promises: list[Reservation]
    comparisons: dict[Level, int]
    joined: int
    seen: int
    least_milli: int


def may_move_funded(trial: Trial) -> bool:
    """Whether anybody funded might be placed, promised something, or promised it earlier."""
    snapshot = trial.snapshot
    if not _is_still_calm(trial):
        for queue in snapshot.queues.values():
            for group in queue.funded_groups.values():
                if _may_start(trial, group):
                    return True
        snapshot.calm = _calm(snapshot)
    return any(_may_move(trial, promise) for promise in snapshot.reservations.values())


def _calm(snapshot: Snapshot) -> Calm:
    levels = {
        node.account.level
        for leaf_id, queue in snapshot.queues.items()
        if queue.funded
        for node in snapshot.tree.nodes[leaf_id].path
    }
    sizes = [group.size_milli for queue in snapshot.queues.values() for group in queue.funded_groups.values()]
    return Calm(
        promises=list(snapshot.reservations.values()),
        comparisons={level: level.bring_to(snapshot.now_s) for level in levels},
        joined=snapshot.stirred.joined,
        seen=len(snapshot.nodes.changes),
        least_milli=min(sizes, default=0),
    )


def _is_still_calm(trial: Trial) -> bool:
    """Whether nothing has happened since that could let anybody move: nobody came, and no node has room for anybody."""
    snapshot, now_s = trial.snapshot, trial.now_s
    calm: Calm | None = snapshot.calm
    if calm is None or calm.joined != snapshot.stirred.joined:
        return False
    if calm.promises != list(snapshot.reservations.values()):
        return False
    if len(calm.promises) < trial.policy.reservations:  # then what is certain later counts too
        return calm.seen == len(snapshot.nodes.changes) and _compare_alike(calm, now_s)
    if any(_has_room(node, calm.least_milli) for node in snapshot.nodes.changes[calm.seen :]):
        return False
    return _compare_alike(calm, now_s)


def _has_room(node: NodeState, need_milli: int) -> bool:
    """Whether so much, or all of a node, could be had there by anybody."""
    if node.indexed_milli is None:
        return False
    room_milli = node.capacity_milli - node.held_milli + node.leaving_milli + node.soft_milli
    return room_milli >= min(need_milli, node.capacity_milli)


def _compare_alike(calm: Calm, now_s: int) -> bool:
    return all(level.bring_to(now_s) == version for level, version in calm.comparisons.items())


def may_move_in(trial: Trial, leaf_id: str) -> bool:
    """The same of one leaf."""
    snapshot = trial.snapshot
    return any(_may_start(trial, group) for group in snapshot.queues[leaf_id].funded_groups.values()) or any(
        snapshot.queued[promise.workload].leaf == leaf_id and _may_move(trial, promise)
        for promise in snapshot.reservations.values()
    )


def may_start_unallocated(snapshot: Snapshot) -> bool:
    """Whether anybody unallocated might fit on what is free."""
    nodes = snapshot.nodes
    if not nodes.by_free:
        return False
    largest_milli = max(nodes.by_free)
    return any(_may_fit_free(nodes, largest_milli, size_milli) for size_milli in snapshot.stirred.sizes)


def _must_hold_or_release(snapshot: Snapshot) -> bool:
    for leaf_id in snapshot.queues.keys() & snapshot.tree.bare_leaves:
        if snapshot.queues[leaf_id].funded or snapshot.tree.nodes[leaf_id].is_closed:
            return True
    return any(reason_to_hold(snapshot, workload) is None for workload in snapshot.held.values())


def _must_empty_nodes(trial: Trial) -> bool:
    return any(node.soft_milli and node.must_empty(trial.now_s) for node in trial.snapshot.nodes.restless.values())


def _is_settled(trial: Trial, workload_id: str) -> bool:
    """Whether the victims of a plan have left, or a node of it is fit no longer."""
    snapshot = trial.snapshot
    claim = snapshot.claims[workload_id]
    if not any(run_id in snapshot.runs for run_id in claim.waits_for):
        return True
    nodes = snapshot.nodes
    return bool(nodes.restless) and not all(nodes.by_name[name].may_start(trial.now_s) for name in claim.holdings)


def _may_move(trial: Trial, promise: Reservation) -> bool:
    """Whether a promise is due, has ended, or might be for an earlier instant by now."""
    if promise.at_s <= trial.now_s or is_unfit(trial, promise):
        return True
    return may_be_earlier(trial, trial.snapshot.queued[promise.workload])


def _may_start(trial: Trial, group: Group) -> bool:
    """Whether one of a funded group might be placed now, or be promised something."""
    snapshot = trial.snapshot
    nodes = snapshot.nodes
    workload = group.any()
    if group.failure is None and nodes.by_free and _may_fit_free(nodes, max(nodes.by_free), group.size_milli):
        return True
    if len(snapshot.reservations) < trial.policy.reservations and is_any_certain(trial, workload):
        return True
    return not is_out_of_reach(trial, workload) and not _fails_still(trial, group, workload)


def _may_fit_free(nodes: Nodes, largest_milli: int, size_milli: int) -> bool:
    """Whether so much might fit on what is free, of which `largest_milli` are on one node."""
    return size_milli <= largest_milli or (size_milli > nodes.largest_milli and size_milli <= nodes.empty_milli)


def _fails_still(trial: Trial, group: Group, workload: Workload) -> bool:
    """Whether a group that could not be placed before still cannot: nothing has changed that matters to it."""
    snapshot = trial.snapshot
    failure = group.failure
    if not isinstance(failure, Failure) or not snapshot.reservations.keys().isdisjoint(group.members):
        return False
    reach = trial.reaches.of(workload)
    if failure[:3] != (reach, reach.version, list(snapshot.reservations.values())):
        return False
    changed = snapshot.nodes.changes[failure.seen :]
    if workload.size_milli < DEVICE_MILLI or is_whole_nodes(snapshot, workload.size_milli):
        return not changed
    if any(reach.now_milli(snapshot, node) >= workload.size_milli for node in changed):
        return False
    group.failure = failure._replace(seen=len(snapshot.nodes.changes))
    return True
