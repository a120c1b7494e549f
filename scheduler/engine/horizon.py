"""What every leaf could have, and from when on, worked out for all of them at once (semantics.md sections 4 and 5).

Rule (b) compares siblings level by level. So leaves stand in one line: depth first, the sibling that has been served
least before the others. Whom a leaf may take over from are those behind it in the line, and what it could have on a
node, or the earliest instant at which enough of a node is certain for it, is an extremum over what is behind it. One
look at every run answers for all leaves and all sizes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .cluster import HeldRun, NodeState
from .placing import meets_window
from .snapshot import Snapshot
from .tree import TreeNode
from .values import DEVICE_MILLI, Workload

NEVER_S = 1 << 62


class Item(NamedTuple):
    """Devices on a node that somebody holds: from which place in the line on they may be taken over, and from when."""

    place: int
    at_s: int
    amount_milli: int


class Amounts(NamedTuple):
    """What a leaf could have at one urgency, by telling runs to leave now, and by contracts at some instant.

    `now_milli` and `ever_milli` are the most on any one node, `whole_now_milli` and `whole_ever_milli` what the nodes
    come to that could be had whole. `ever` leaves out what was promised to anybody.
    """

    now_milli: int
    ever_milli: int
    whole_now_milli: int
    whole_ever_milli: int


class Line:
    """The leaves that hold or ask for something with a contract, in line."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Line them up by the figures of this instant."""
        self.place: dict[str, int] = {}
        self.tied: set[str] = set()
        """Leaves with an equal behind them that holds devices: for these the line does not say whom they may take."""
        holding = {leaf_id for leaf_id, runs in snapshot.runs_of.items() if runs}
        asking = {leaf_id for leaf_id, queue in snapshot.queues.items() if queue.funded}
        self._now_s = snapshot.now_s
        self._with_runs = _and_above(snapshot, holding)
        self._of_interest = self._with_runs | _and_above(snapshot, asking)
        self._visit(snapshot.tree.root, is_tied=False)
        self.end = len(self.place)
        """The place of whatever anybody may take over."""

    def _visit(self, node: TreeNode, *, is_tied: bool) -> None:
        if not node.children:
            self.place[node.id] = len(self.place)
            if is_tied:
                self.tied.add(node.id)
            return
        children = [child for child in node.children if child.id in self._of_interest]
        if len(children) == 1:
            self._visit(children[0], is_tied=is_tied)
            return
        node.level.bring_to(self._now_s)
        ranks = node.level.ranks
        children.sort(key=lambda child: ranks[child.id])
        last_holder: dict[int, int] = {}  # by rank
        for index, child in enumerate(children):
            if child.id in self._with_runs:
                last_holder[ranks[child.id]] = index
        for index, child in enumerate(children):
            self._visit(child, is_tied=is_tied or last_holder.get(ranks[child.id], -1) > index)


def _and_above(snapshot: Snapshot, leaf_ids: Iterable[str]) -> set[str]:
    return {node.id for leaf_id in leaf_ids for node in snapshot.tree.nodes[leaf_id].path}


class Horizon:
    """Answers for one instant, for the state of nodes, promises and figures that it was made from."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Look at every node once."""
        self._snapshot = snapshot
        self._now_s = snapshot.now_s
        self.line = Line(snapshot)
        self.sides = {leaf_id: snapshot.tree.nodes[leaf_id].beaten_sides(self._now_s) for leaf_id in self._asking()}
        """Whom each leaf that asks for something could take over from, as `beaten_sides` says it."""
        self.seen = len(snapshot.nodes.changes)
        """How far in the log of changed nodes it has looked."""
        largest_milli = snapshot.nodes.largest_milli
        sizes = {group.size_milli for group in snapshot.stirred.funded}
        self._needs = sorted({max(size, DEVICE_MILLI) for size in sizes if size <= largest_milli})
        self._most_whole_milli = max((size for size in sizes if size > largest_milli), default=0)
        end = self.line.end
        self._now = [0] * (end + 1)
        self._ever = [0] * (end + 1)
        self._whole_now = [0] * (end + 1)
        self._whole_ever = [0] * (end + 1)
        self._at: list[list[int]] = [[NEVER_S] * (end + 1) for _ in self._needs]
        self._whole_at: list[list[tuple[int, int]]] = [[] for _ in range(end + 1)]
        self._windowed: list[NodeState] = []
        self._promised: dict[str, int] = {}  # kept, as promises may be put aside while it is asked
        for promise in snapshot.reservations.values():
            for name, amount_milli in promise.holdings.items():
                self._promised[name] = self._promised.get(name, 0) + amount_milli
        for node in snapshot.nodes.by_name.values():
            if node.indexed_milli is not None:
                self._look_at(node)
        self._add_up()
        self._known: dict[tuple[str, int], View] = {}

    def _asking(self) -> Iterator[str]:
        return (leaf_id for leaf_id, queue in self._snapshot.queues.items() if queue.funded)

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _items(self, node: NodeState, own: TreeNode | None = None, urgency: int = 0) -> list[Item]:
        """What is held on a node and may be taken over, from the end of the line on.

        Runs of the leaf `own` with a lower urgency count as anybody's.
        """
        now_s, place, end, name = self._now_s, self.line.place, self.line.end, node.name
        items = []
        for run in node.runs.values():
            if run.leave_by_s is not None or (amount_milli := run.holdings[name]) < DEVICE_MILLI:
                continue
            if not run.funded:
                items.append(Item(end, now_s, amount_milli))
            elif run.contract_end_s is not None:
                at_place = end if run.leaf is own and run.urgency < urgency else place[run.leaf.id]
                items.append(Item(at_place, max(now_s, run.contract_end_s), amount_milli))
        for runs in node.shared.values():
            shared = [self._item(run, own, urgency) for run in runs]
            known = [item for item in shared if item is not None]
            if len(known) == len(runs):
                at_place, at_s = min(item.place for item in known), max(item.at_s for item in known)
                items.append(Item(at_place, at_s, DEVICE_MILLI))
        items.sort(reverse=True)
        return items

    def _item(self, run: HeldRun, own: TreeNode | None, urgency: int) -> Item | None:
        if run.leave_by_s is not None:
            return None
        if not run.funded:
            return Item(self.line.end, self._now_s, run.size_milli)
        if run.contract_end_s is None:
            return None
        is_own = run.leaf is own and run.urgency < urgency
        at_place = self.line.end if is_own else self.line.place[run.leaf.id]
        return Item(at_place, max(self._now_s, run.contract_end_s), run.size_milli)

    def _look_at(self, node: NodeState) -> None:
        now_s, capacity_milli = self._now_s, node.capacity_milli
        free_milli = node.whole_free_milli()
        now_milli = free_milli + node.leaving_milli
        certain_milli = free_milli - self._promised.get(node.name, 0)
        ever_milli = certain_milli + node.leaving_milli
        later = sorted(_leaving(node, now_s))
        is_windowed = bool(node.windows)
        items = self._items(node)
        place = self.line.end
        index, number = 0, len(items)
        while True:
            while index < number and items[index].place == place:
                item = items[index]
                ever_milli += item.amount_milli
                now_milli += item.amount_milli * (item.at_s <= now_s)
                insort(later, (item.at_s, item.amount_milli))
                index += 1
            self._now[place] = max(self._now[place], now_milli)
            self._ever[place] = max(self._ever[place], ever_milli)
            if not is_windowed:
                self._note_instants(place, certain_milli, later)
            if index == number:
                break
            place = items[index].place
        # All of a node may be taken over from where the last of its runs may.
        self._whole_now[place] += capacity_milli * (now_milli == capacity_milli)
        self._whole_ever[place] += capacity_milli * (ever_milli == capacity_milli)
        if is_windowed:
            self._windowed.append(node)
        elif ever_milli == capacity_milli:
            self._whole_at[place].append((later[-1][0] if later else now_s, capacity_milli))

    def _note_instants(self, place: int, room_milli: int, later: list[tuple[int, int]]) -> None:
        """From when on so much of a node is certain, for every size that somebody asks for."""
        needs, at = self._needs, self._at
        at_s, upcoming = self._now_s, iter(later)
        for index, need_milli in enumerate(needs):
            while room_milli < need_milli:
                found = next(upcoming, None)
                if found is None:
                    return
                at_s = found[0]
                room_milli += found[1]
            if at_s < at[index][place]:
                at[index][place] = at_s

    def _add_up(self) -> None:
        """Let every place say what all the places from it on come to."""
        soonest: list[tuple[int, int]] = []  # (instant, capacity) of the nodes that are certain whole
        for place in reversed(range(self.line.end + 1)):
            if place < self.line.end:
                for most in (self._now, self._ever):
                    most[place] = max(most[place], most[place + 1])
                for whole in (self._whole_now, self._whole_ever):
                    whole[place] += whole[place + 1]
                for at in self._at:
                    at[place] = min(at[place], at[place + 1])
                if not self._whole_at[place]:
                    self._whole_at[place] = self._whole_at[place + 1]
                    continue
            for each in self._whole_at[place]:
                insort(soonest, each)
            self._whole_at[place] = _enough(soonest, self._most_whole_milli)

    # --- answers --------------------------------------------------------------------------------------------------

    def covers(self, leaf_id: str) -> bool:
        """Whether it has answers for a leaf."""
        return leaf_id in self.sides and leaf_id not in self.line.tied

    def knows(self, size_milli: int) -> bool:
        """Whether it has instants for workloads of that size: those that waited when it was made."""
        if size_milli > self._snapshot.nodes.largest_milli:
            return size_milli <= self._most_whole_milli
        return max(size_milli, DEVICE_MILLI) in self._needs

    def amounts(self, leaf_id: str, urgency: int) -> Amounts:
        """What a leaf that it covers could have, at an urgency."""
        return self._view(leaf_id, urgency).amounts

    def _view(self, leaf_id: str, urgency: int) -> View:
        key = leaf_id, urgency
        if key not in self._known:
            self._known[key] = self._view_from(leaf_id, urgency)
        return self._known[key]

    def _view_from(self, leaf_id: str, urgency: int) -> View:
        """What is behind the leaf in the line, and runs of its own with a lower urgency."""
        behind = self.line.place[leaf_id] + 1
        own = self._snapshot.tree.nodes[leaf_id]
        with_own = {
            name: self._snapshot.nodes.by_name[name]
            for run in self._snapshot.runs_of.get(leaf_id, {}).values()
            if run.urgency < urgency and run.leave_by_s is None
            for name in run.holdings
        }
        now_milli, ever_milli = self._now[behind], self._ever[behind]
        whole_now_milli, whole_ever_milli = self._whole_now[behind], self._whole_ever[behind]
        closer = []
        for node in with_own.values():
            if node.indexed_milli is None:
                continue
            on_it = self._on(node, behind, own, urgency)
            closer.append(on_it)
            now_milli, ever_milli = max(now_milli, on_it.now_milli), max(ever_milli, on_it.ever_milli)
            # Without the leaf's own runs the node could not be had whole, so it was not counted yet.
            whole_now_milli += node.capacity_milli * (on_it.now_milli == node.capacity_milli)
            whole_ever_milli += node.capacity_milli * (on_it.ever_milli == node.capacity_milli)
        closer += [self._on(node, behind, own, urgency) for node in self._windowed if node.name not in with_own]
        return View(behind, Amounts(now_milli, ever_milli, whole_now_milli, whole_ever_milli), closer)

    def _on(self, node: NodeState, behind: int, own: TreeNode, urgency: int) -> OneNode:
        free_milli = node.whole_free_milli()
        items = [item for item in self._items(node, own, urgency) if item.place >= behind]
        now_milli = free_milli + node.leaving_milli
        now_milli += sum(item.amount_milli for item in items if item.at_s <= self._now_s)
        certain_milli = free_milli - self._promised.get(node.name, 0)
        later = _leaving(node, self._now_s) + [(item.at_s, item.amount_milli) for item in items]
        later.sort()
        return OneNode(node, now_milli, certain_milli, later)

    def certain_at_s(self, workload: Workload) -> int | None:
        """The first instant at which enough for a workload is certain; None if there is none.

        Of a leaf that it covers and an amount that it knows; of one that holds no promise and is not pinned.
        """
        view = self._view(workload.leaf, workload.urgency)
        if workload.size_milli > self._snapshot.nodes.largest_milli:
            return self._whole_certain_at_s(view, workload)
        need_milli = max(workload.size_milli, DEVICE_MILLI)
        instants = [self._at[bisect_left(self._needs, need_milli)][view.behind]]
        for each in view.closer:
            at_s = each.certain_from_s(need_milli, self._now_s)
            if at_s is not None and not meets_window(each.node, at_s, at_s + workload.min_runtime_s):
                instants.append(at_s)
        first_s = min(instants)
        return None if first_s == NEVER_S else first_s

    def _whole_certain_at_s(self, view: View, workload: Workload) -> int | None:
        ready = list(self._whole_at[view.behind])
        for each in view.closer:
            capacity_milli = each.node.capacity_milli
            at_s = each.certain_from_s(capacity_milli, self._now_s)
            if at_s is not None and not meets_window(each.node, at_s, at_s + workload.min_runtime_s):
                ready.append((at_s, capacity_milli))
        ready.sort()
        missing_milli = workload.size_milli
        for at_s, capacity_milli in ready:
            missing_milli -= capacity_milli
            if missing_milli <= 0:
                return at_s
        return None


class OneNode(NamedTuple):
    """One node as a leaf sees it: what could be had now, what is certain now, and what later (instant, amount)."""

    node: NodeState
    now_milli: int
    certain_milli: int
    later: list[tuple[int, int]]

    @property
    def ever_milli(self) -> int:
        """What is certain at some instant."""
        return self.certain_milli + sum(amount_milli for _, amount_milli in self.later)

    def certain_from_s(self, need_milli: int, now_s: int) -> int | None:
        """The first instant from which so much is certain."""
        room_milli = self.certain_milli
        if room_milli >= need_milli:
            return now_s
        for at_s, amount_milli in self.later:
            room_milli += amount_milli
            if room_milli >= need_milli:
                return at_s
        return None


class View(NamedTuple):
    """A leaf's place in the line, at one urgency, and the nodes that it has to look at by itself."""

    behind: int
    amounts: Amounts
    closer: list[OneNode]


def _leaving(node: NodeState, now_s: int) -> list[tuple[int, int]]:
    """What nobody has claimed of the runs that are leaving a node: when it is free at the latest, and how much."""
    if not node.leaving_milli:
        return []
    return [
        (max(now_s, node.runs[run_id].leave_by_s or now_s), amount_milli)
        for run_id, amount_milli in node.left_for_nobody()
    ]


def _enough(soonest: list[tuple[int, int]], most_milli: int) -> list[tuple[int, int]]:
    """Of nodes in order of instants, those that are enough for the largest gang."""
    in_all_milli = 0
    for index, (_, capacity_milli) in enumerate(soonest):
        in_all_milli += capacity_milli
        if in_all_milli >= most_milli:
            return soonest[: index + 1]
    return soonest.copy()
