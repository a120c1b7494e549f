"""Whether a pass could decide anything, seen at a glance: most passes of a busy cluster cannot.

What is asked here may err towards "perhaps"; then the pass is made in full. What it rests on is remembered on the
snapshot from pass to pass, beside the log of changed nodes; without that memory the answer is the same, only later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .admission import reason_to_hold
from .classes import is_reserve_kept_from
from .cluster import Nodes, NodeState
from .placing import is_whole_nodes
from .preemption import Claimant, has_room_on, is_out_of_reach
from .private import is_on_others_cell, is_tenants, settle
from .queues import Group
from .reach import Reach
from .reservations import is_any_certain, is_unfit, may_be_earlier
from .snapshot import Snapshot
from .trial import Trial
from .values import DEVICE_MILLI, Claim, Reservation, Workload

FEW_GROUPS = 12
"""So many are looked at outright: to find out which of them need it would take as long."""
MOST_CHANGED = 12
"""Where more nodes than that have changed, all that waits is looked at, and not where they matter."""


class Failure(NamedTuple):
    """None of a group could be placed: with this reach, and with the nodes as the log had them."""

    reach: Reach
    version: int
    seen: int


def note_failure(trial: Trial, workload: Workload) -> None:
    """Remember that a funded workload could not be placed, where that says the same of all its group."""
    snapshot = trial.snapshot
    group = snapshot.queues[workload.leaf].group(workload)
    if workload.id in group.members and workload.min_runtime_s == group.shortest().min_runtime_s:
        settle(snapshot)
        reach = trial.reaches.of(workload)
        group.failure = Failure(reach, reach.version, len(snapshot.nodes.changes))


def has_to_act(snapshot: Snapshot) -> bool:
    """Whether there is something to do, whoever waits: to hold, release, stop or settle (steps 1 to 3 of a pass)."""
    return (
        _must_hold_or_release(snapshot)
        or snapshot.nodes.must_empty(snapshot.now_s)
        or any(_is_settled(snapshot, claim) for claim in snapshot.claims.values())
    )


class Calm(NamedTuple):
    """Nobody funded could be placed or promised anything.

    With these promises, as siblings compared then (`Reaches.standing`), when so many had joined the queue, with the
    nodes as the log had them, and with those who had been placed (`without`) out of the queue.
    """

    promises: list[Reservation]
    standing: int
    joined: int
    seen: int
    without: tuple[str, ...]


class Movers:
    """Who of the funded might be placed, promised something, or promised it earlier, as things stand in a pass.

    What was found out is kept until the trial changes.
    """

    __slots__ = ("_asked_at", "_is_any", "_may", "_perhaps", "_trial")

    def __init__(self, trial: Trial) -> None:
        """Nothing was asked yet."""
        self._trial = trial
        self._asked_at: tuple[int, int] | None = None  # the trial's changes and promises
        self._is_any = False
        self._perhaps: frozenset[Group] | None = None  # nobody of other groups might be placed; None: not known
        self._may: dict[Group, bool] = {}

    def are_any(self) -> bool:
        """Whether anybody might."""
        state = self._trial.changes, self._trial.promises
        if state != self._asked_at:
            self._asked_at = state
            self._may.clear()
            self._is_any = self._look()
        return self._is_any

    def are_any_in(self, leaf_id: str) -> bool:
        """Whether anybody of a leaf might; to be asked while there are any."""
        return any(map(self.are_any_of, self._trial.snapshot.queues[leaf_id].funded_groups.values()))

    def are_any_of(self, group: Group) -> bool:
        """Whether anybody of a group might, likewise."""
        found = self._may.get(group)
        if found is None:
            is_perhaps = self._perhaps is None or group in self._perhaps
            is_found = is_perhaps and _first_to_start(self._trial, [group]) is not None
            found = self._may[group] = is_found or self._is_promise_moved(group)
        return found

    def _look(self) -> bool:
        snapshot = self._trial.snapshot
        self._perhaps = None
        if not snapshot.stirred.funded:
            return False
        are_few = len(snapshot.stirred.funded) <= FEW_GROUPS
        groups = None if are_few else _unsettled(self._trial)
        if groups is None:
            groups = list(reversed(snapshot.stirred.funded))  # who came last likely may, the others had their turn
        first = _first_to_start(self._trial, groups)
        if first is not None:
            self._perhaps = frozenset(groups[first:])
            self._may[groups[first]] = True
            return True
        self._perhaps = frozenset()
        snapshot.calm = None if are_few else _calm(self._trial, groups)
        return any(_may_move(self._trial, promise) for promise in snapshot.reservations.values())

    def _is_promise_moved(self, group: Group) -> bool:
        members, promises = group.members, self._trial.snapshot.reservations
        return any(_may_move(self._trial, promise) for name, promise in promises.items() if name in members)


def _calm(trial: Trial, looked_at: Iterable[Group]) -> Calm:
    snapshot = trial.snapshot
    settle(snapshot)
    for group in looked_at:
        reach = trial.reaches.of_group(group)
        group.calm = reach, reach.version
    return Calm(
        promises=list(snapshot.reservations.values()),
        standing=trial.reaches.standing(),
        joined=snapshot.stirred.joined,
        seen=len(snapshot.nodes.changes),
        without=tuple(trial.placed),
    )


def _unsettled(trial: Trial) -> list[Group] | None:
    """The funded groups of which it is not known that they cannot move; None if it is known of none.

    Whoever could not before still cannot, but where somebody came, where a node that changed has room for them, or
    where siblings compare in another way so that they may take over from others.
    """
    snapshot = trial.snapshot
    calm: Calm | None = snapshot.calm
    if calm is None or calm.promises != list(snapshot.reservations.values()):
        return None
    are_back = any(name in snapshot.queued and name not in snapshot.claims for name in calm.without)
    if are_back and tuple(trial.placed[: len(calm.without)]) != calm.without:
        return None
    has_cells = bool(snapshot.tree.tenants)
    is_standing = trial.reaches.standing() == calm.standing
    if has_cells and not is_standing:  # cells decide too
        return None
    settle(snapshot)
    changed = set(snapshot.nodes.changes[calm.seen :])
    if changed and snapshot.classes is not None and snapshot.classes.reserve_milli:  # one node may free another
        return None
    is_new = calm.joined != snapshot.stirred.joined
    if len(changed) > MOST_CHANGED:
        return None
    is_promise_free = len(calm.promises) < trial.policy.reservations  # then what is certain later counts too
    room = _Room.on(changed, with_contracts=is_promise_free)
    if is_standing and not is_new and not room.most_milli and not room.leaves and not (changed and has_cells):
        return []
    found: list[Group] = []
    for queue in snapshot.queues.values():
        if not queue.funded_groups:
            continue
        groups = list(queue.funded_groups.values())
        if room.leaves and room.is_reached_by(trial, groups[0]):
            found += groups
        else:
            found += [
                group
                for group in groups
                if group.joined > calm.joined
                or room.may_do(group)
                or (has_cells and group.is_particular and group.any().node is not None)  # matched without its node
                or not (is_standing or _is_calm(trial, group))
            ]
    return found


def _is_calm(trial: Trial, group: Group) -> bool:
    """Whether a group may take over from the same leaves as when it was last seen that it cannot move."""
    reach = trial.reaches.of_group(group)
    return group.calm == (reach, reach.version)


class _Room(NamedTuple):
    """What might be had on any one of some nodes, whether one of them might be had whole, and what counts beside.

    `leaves` are those whose runs there have contracts that will end, where that is asked for.
    """

    most_milli: int
    is_any_whole: bool
    leaves: frozenset[str]

    @classmethod
    def on(cls, changed: Iterable[NodeState], *, with_contracts: bool) -> _Room:
        most_milli = 0
        is_any_whole = False
        leaves: frozenset[str] = frozenset()
        for node in changed:
            if node.indexed_milli is None:
                continue
            room_milli = node.capacity_milli - node.held_milli + node.leaving_milli + node.soft_milli
            most_milli = max(most_milli, room_milli)
            is_any_whole = is_any_whole or room_milli >= node.capacity_milli
            if with_contracts:
                leaves |= node.summary().leaves
        return cls(most_milli, is_any_whole, leaves)

    def may_do(self, group: Group) -> bool:
        """Whether it might be enough for a group that can take over from none of the leaves."""
        return group.size_milli <= self.most_milli or self.is_any_whole or (group.may_spread and self.most_milli > 0)

    def is_reached_by(self, trial: Trial, group: Group) -> bool:
        """Whether the leaf of a group might take over from one of the leaves, itself among them."""
        workload = group.any()
        if workload.leaf in self.leaves or is_tenants(trial.snapshot, workload):  # who has cells, from anybody in them
            return True
        return not trial.reaches.of(workload).beaten.isdisjoint(self.leaves)


def may_start_unallocated(snapshot: Snapshot) -> bool:
    """Whether anybody unallocated might fit on what is free."""
    nodes = snapshot.nodes
    if not nodes.by_free:
        return False
    largest_milli = max(nodes.by_free)
    if any(size_milli <= nodes.free_milli for size_milli in snapshot.stirred.spreading):
        return True
    return any(_may_fit_free(nodes, largest_milli, size_milli) for size_milli in snapshot.stirred.sizes)


def _must_hold_or_release(snapshot: Snapshot) -> bool:
    bare = snapshot.tree.bare_leaves
    for leaf_id in snapshot.queues.keys() & bare if bare else ():
        if snapshot.queues[leaf_id].funded or snapshot.tree.nodes[leaf_id].is_closed:
            return True
    return any(reason_to_hold(snapshot, workload) is None for workload in snapshot.held.values())


def _is_settled(snapshot: Snapshot, claim: Claim) -> bool:
    """Whether the victims of a plan have left, or a node of it is fit no longer."""
    runs, nodes = snapshot.runs, snapshot.nodes
    for run_id in claim.waits_for:
        if run_id in runs:
            break
    else:
        return True
    return bool(nodes.restless) and not all(nodes.by_name[name].may_start(snapshot.now_s) for name in claim.holdings)


def _may_move(trial: Trial, promise: Reservation) -> bool:
    """Whether a promise is due, has ended, or might be for an earlier instant by now."""
    if promise.at_s <= trial.now_s or is_unfit(trial, promise):
        return True
    return may_be_earlier(trial, trial.snapshot.queued[promise.workload])


def _first_to_start(trial: Trial, groups: Sequence[Group]) -> int | None:
    """The index of the first of some funded groups that might be placed now, or be promised something."""
    snapshot, reaches = trial.snapshot, trial.reaches
    nodes = snapshot.nodes
    largest_milli = max(nodes.by_free, default=0)
    is_promise_free = len(snapshot.reservations) < trial.policy.reservations
    has_cells = bool(snapshot.tree.tenants)
    for index, group in enumerate(groups):
        size_milli = group.size_milli
        if group.failure is None and largest_milli and _may_fit_free(nodes, largest_milli, size_milli):
            return index
        if group.failure is None and group.may_spread and nodes.free_milli >= size_milli:
            return index
        if group.is_particular or size_milli < DEVICE_MILLI:
            workload = group.any()
            if not is_out_of_reach(trial, workload) and not _fails_still(trial, group):
                return index
            if is_promise_free and is_any_certain(trial, workload):
                return index
            continue
        reach = reaches.of_group(group)
        is_within_reach = reach.has_now(snapshot, size_milli) or (has_cells and _is_on_others_cell(snapshot, group))
        if is_within_reach and not _fails_still(trial, group):
            return index
        if is_promise_free and reach.has_ever(snapshot, size_milli):
            return index
    return None


def _is_on_others_cell(snapshot: Snapshot, group: Group) -> bool:
    """Whether something was promised to one of a group where its reach does not go, as it is others' cell."""
    holders = snapshot.reservations.keys() & group.members.keys()
    return any(is_on_others_cell(snapshot, group.members[name]) for name in holders)


def _may_fit_free(nodes: Nodes, largest_milli: int, size_milli: int) -> bool:
    """Whether so much might fit on what is free, of which `largest_milli` are on one node."""
    return size_milli <= largest_milli or (size_milli > nodes.largest_milli and size_milli <= nodes.empty_milli)


def _fails_still(trial: Trial, group: Group) -> bool:
    """Whether a group that could not be placed before still cannot: nothing has changed that matters to it.

    Time alone takes from what it may have on a node. So it matters where a node changed, which is also when something
    there is promised or is not any longer, and where it may take over from others than then.
    """
    snapshot = trial.snapshot
    failure = group.failure
    if not isinstance(failure, Failure) or not snapshot.reservations.keys().isdisjoint(group.members):
        return False
    settle(snapshot)
    reach = trial.reaches.of_group(group)
    if failure.reach is not reach:
        return False
    nodes, size_milli = snapshot.nodes, group.size_milli
    changed = set(nodes.changes[failure.seen :])
    changed.update([nodes.by_name[name] for name in reach.shifted_since(failure.version)])
    is_kept = is_reserve_kept_from(snapshot, group.any())  # what is free elsewhere decides too
    if size_milli < DEVICE_MILLI or is_kept or group.may_spread or snapshot.tree.tenants:
        return not changed and failure.version == reach.version
    claimant = Claimant(trial, group.shortest())
    if any(has_room_on(claimant, node) for node in changed):
        if not is_whole_nodes(snapshot, size_milli):
            return False
        whole = [node for node in nodes.by_name.values() if has_room_on(claimant, node)]
        if sum(node.capacity_milli for node in whole) >= size_milli:
            return False
    group.failure = Failure(reach, reach.version, len(nodes.changes))
    return True
