"""Who has been served less than whom, and so may take over from whom: rules (b) and (c) of section 4.

Every comparison of rule (b) is one between siblings, so a pass ranks the children of a node once. What a leaf can reach
on each node is kept from pass to pass, and worked out anew only for nodes that changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from .cluster import DEVICE_MILLI, HeldRun, NodeState
from .snapshot import Snapshot
from .tree import TreeNode, may_swap, sides
from .values import Workload

ALWAYS_S = -(1 << 62)
"""From when on an unallocated run may be taken over."""
SERVED_MOST = 1 << 62
"""The rank of a side without shares."""
ReachKey = tuple[str, int, int, int]
"""Leaf, priority, and (where a margin counts) size and contract."""


class Standings:
    """The ranks of siblings by what they have been served, on the figures of one pass."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Nothing was compared yet."""
        self._snapshot = snapshot
        self._ranks: dict[str, dict[str, int]] = {}
        self._sides: dict[str, tuple[frozenset[str], ...]] = {}  # by leaf

    def forget(self, leaf: TreeNode) -> None:
        """The figures of a leaf and of all above it have changed."""
        for node in leaf.path:
            assert node.parent is not None
            self._ranks.pop(node.parent.id, None)
        self._sides.clear()

    def ranks(self, parent: TreeNode) -> dict[str, int]:
        """Rank by child, from 0 for the least served; equals share one."""
        found = self._ranks.get(parent.id)
        if found is None:
            now_s = self._snapshot.now_s
            entitled = [child for child in parent.children if child.weight]
            served = sorted([(child.account.served(now_s) * child.weight, child.id) for child in entitled])
            found = {}
            rank, last = -1, None
            for amount, name in served:
                rank += amount != last
                last = amount
                found[name] = rank
            if len(found) < len(parent.children):
                found.update((child.id, SERVED_MOST) for child in parent.children if not child.weight)
            self._ranks[parent.id] = found
        return found

    def known(self) -> dict[str, dict[str, int]]:
        """All ranks asked for so far."""
        return self._ranks

    def beaten_sides(self, leaf: TreeNode) -> tuple[frozenset[str], ...]:
        """By level, the siblings of the leaf's path that have been served strictly more."""
        found = self._sides.get(leaf.id)
        if found is None:
            found = self._sides[leaf.id] = tuple([self._beaten_by(node) for node in leaf.path])
        return found

    def _beaten_by(self, node: TreeNode) -> frozenset[str]:
        """What was worked out for the same ranks before serves again: sides that are the same are one object then."""
        assert node.parent is not None
        ranks = self.ranks(node.parent)
        kept, beaten = self._snapshot.ranks.get(node.parent.id, (None, {}))
        if kept is not ranks and kept != ranks:
            beaten = {}
            self._snapshot.ranks[node.parent.id] = ranks, beaten
        if node.id not in beaten:
            own = ranks[node.id]
            beaten[node.id] = frozenset([name for name, rank in ranks.items() if rank > own])
        return beaten[node.id]


def comparisons(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """All ranks that matter to what waits with a contract. While they, and everything else, stay, no pass differs.

    Between two events time moves only figures, and figures count only by how siblings compare (without a swap margin).
    """
    standings = Standings(snapshot)
    for leaf_id, queue in snapshot.queues.items():
        if queue.funded:
            for node in snapshot.tree.nodes[leaf_id].path:
                assert node.parent is not None
                standings.ranks(node.parent)
    return standings.known()


class Reach:
    """What one leaf, at one priority, could take over on each node, and from when on.

    It follows the log of changed nodes, so that asking costs little where little has changed. `version` grows whenever
    the leaf may take over from others than before.
    """

    __slots__ = (
        "_by_node",
        "_ever",
        "_now",
        "_seen",
        "_stale",
        "_top_ever",
        "_top_now",
        "_whole_ever_milli",
        "_whole_now_milli",
        "beaten",
        "leaf",
        "priority",
        "sides",
        "version",
    )

    def __init__(self, leaf: TreeNode, priority: int) -> None:
        """Nobody can be taken over from yet."""
        self.leaf = leaf
        self.priority = priority
        self.beaten: frozenset[str] = frozenset()
        self.sides: object = None
        self.version = 0
        self._by_node: dict[str, tuple[int, list[tuple[int, int]]]] = {}
        self._now: dict[str, int] = {}
        self._ever: dict[str, int] = {}
        self._top_now: int | None = 0  # the largest of these, where it is known
        self._top_ever: int | None = 0
        self._whole_now_milli = 0  # capacity of the nodes that could be had whole now
        self._whole_ever_milli = 0  # capacity of the nodes that are certain whole at some instant
        self._seen = 0
        self._stale: dict[str, None] = {}

    def shift(self, snapshot: Snapshot, beaten: frozenset[str], sides: object) -> None:
        """It may take over from these leaves now: nodes with runs of those that make the difference are stale.

        `sides` is what that was worked out from.
        """
        for leaf_id in beaten ^ self.beaten:
            for run in snapshot.runs_of.get(leaf_id, {}).values():
                for name in run.holdings:
                    self._stale[name] = None
                    self._by_node.pop(name, None)
        self.beaten = beaten
        self.sides = sides
        self.version += 1

    def on(self, node: NodeState) -> list[tuple[int, int]]:
        """(instant, amount) of the runs of a node that may be taken over, in order of instants."""
        kept = self._by_node.get(node.name)
        if kept is not None and kept[0] == node.version:
            return kept[1]
        name, beaten, leaf = node.name, self.beaten, self.leaf
        found = []
        for run in node.runs.values():
            if run.leave_by_s is not None:
                continue
            amount_milli = run.holdings[name]
            if amount_milli < DEVICE_MILLI:
                continue
            if not run.funded:
                found.append((ALWAYS_S, amount_milli))
            elif run.contract_end_s is not None and (
                run.leaf.id in beaten if run.leaf is not leaf else run.priority < self.priority
            ):
                found.append((run.contract_end_s, amount_milli))
        for runs in node.shared.values():
            instants = [self._from(run) if run.leave_by_s is None else None for run in runs]
            known = [at_s for at_s in instants if at_s is not None]
            if len(known) == len(runs):
                found.append((max(known), DEVICE_MILLI))
        found.sort()
        self._by_node[name] = node.version, found
        return found

    def _from(self, run: HeldRun) -> int | None:
        """From when on a run may be taken over; None if never on today's figures."""
        if not run.funded:
            return ALWAYS_S
        is_beaten = run.priority < self.priority if run.leaf is self.leaf else run.leaf.id in self.beaten
        return run.contract_end_s if is_beaten else None

    def now_milli(self, snapshot: Snapshot, node: NodeState) -> int:
        """The most that could be had on one node, if something may start there, by telling runs to leave now."""
        self._follow(snapshot)
        return self._now[node.name]

    def most_now_milli(self, snapshot: Snapshot) -> int:
        """The most that could be had on any one node where something may start, by telling runs to leave now."""
        self._follow(snapshot)
        if self._top_now is None:
            self._top_now = max(self._now.values(), default=0)
        return self._top_now

    def whole_nodes_now_milli(self, snapshot: Snapshot) -> int:
        """What the nodes come to that could be had whole by telling runs to leave now."""
        self._follow(snapshot)
        return self._whole_now_milli

    def most_ever_milli(self, snapshot: Snapshot) -> int:
        """The most on any one node that contracts make certain at some instant, beside what is promised."""
        self._follow(snapshot)
        if self._top_ever is None:
            self._top_ever = max(self._ever.values(), default=0)
        return self._top_ever

    def whole_nodes_ever_milli(self, snapshot: Snapshot) -> int:
        """What the nodes come to that contracts make certain whole at some instant, beside what is promised."""
        self._follow(snapshot)
        return self._whole_ever_milli

    def _follow(self, snapshot: Snapshot) -> None:
        nodes = snapshot.nodes
        seen = self._seen
        if seen == len(nodes.changes) and not self._stale:
            return
        now_s = snapshot.now_s
        if not seen or len(nodes.changes) - seen > len(nodes.by_name):
            changed: Iterable[NodeState] = nodes.by_name.values()
        elif self._stale:
            changed = {*nodes.changes[seen:], *(nodes.by_name[name] for name in self._stale)}
        else:
            changed = set(nodes.changes[seen:])
        for node in changed:
            self._measure(node, now_s)
        self._seen = len(nodes.changes)
        self._stale.clear()

    def _measure(self, node: NodeState, now_s: int) -> None:
        now_milli = ever_milli = 0
        if node.indexed_milli is not None:
            now_milli = ever_milli = node.whole_free_milli() + node.leaving_milli
            for from_s, amount_milli in self.on(node):
                ever_milli += amount_milli
                if from_s <= now_s:
                    now_milli += amount_milli
            for promise in node.reservations:
                ever_milli -= promise.holdings[node.name]
        name, capacity_milli = node.name, node.capacity_milli
        was_milli = self._now.get(name, 0)
        if now_milli != was_milli or name not in self._now:
            self._now[name] = now_milli
            self._top_now = _new_top(self._top_now, was_milli, now_milli)
            self._whole_now_milli += capacity_milli * ((now_milli == capacity_milli) - (was_milli == capacity_milli))
        was_milli = self._ever.get(name, 0)
        if ever_milli != was_milli:
            self._ever[name] = ever_milli
            self._top_ever = _new_top(self._top_ever, was_milli, ever_milli)
            self._whole_ever_milli += capacity_milli * ((ever_milli == capacity_milli) - (was_milli == capacity_milli))


def _new_top(top: int | None, before: int, after: int) -> int | None:
    """The largest of several amounts after one of them has changed; None where all have to be looked at again."""
    if top is None or (before == top and after < before):
        return None
    return max(top, after)


class Reaches:
    """The reach of every leaf that asked, on the figures of one pass."""

    def __init__(self, snapshot: Snapshot, swap_margin: Fraction) -> None:
        """Start from what earlier passes on this snapshot have left."""
        self._snapshot = snapshot
        self._margin = swap_margin
        self._standings = Standings(snapshot)
        self._checked: dict[ReachKey, Reach] = {}
        self._most_served: dict[tuple[str, str], Fraction] = {}

    def forget(self, leaf: TreeNode) -> None:
        """The figures of a leaf and of all above it have changed."""
        self._standings.forget(leaf)
        self._checked.clear()
        self._most_served.clear()

    def served_by_side(self, leaf: TreeNode, victim: TreeNode) -> Fraction:
        """What a victim's side has been served by its entitlement, so that sides of different levels compare.

        A side without entitlement counts as served most.
        """
        key = (leaf.id, victim.id)
        if key not in self._most_served:
            side = victim if victim is leaf else sides(leaf, victim)[1]
            served = side.account.served(self._snapshot.now_s)
            found = served / side.entitlement if side.entitlement else Fraction(SERVED_MOST * SERVED_MOST + served)
            self._most_served[key] = found
        return self._most_served[key]

    def of(self, workload: Workload) -> Reach:
        """What a workload may take over."""
        size_milli, contract_s = (workload.size_milli, workload.min_runtime_s) if self._margin else (0, 0)
        key = (workload.leaf, workload.priority, size_milli, contract_s)
        reach = self._checked.get(key)
        if reach is None:
            reach = self._check(key, workload)
            self._checked[key] = reach
        return reach

    def margin_milli_s(self, workload: Workload) -> Fraction:
        """`swap_margin` times the workload's own contract."""
        return self._margin * workload.size_milli * workload.min_runtime_s

    def _check(self, key: ReachKey, workload: Workload) -> Reach:
        """The reach that is known from before if the comparisons still come out the same."""
        snapshot = self._snapshot
        leaf = snapshot.leaf(workload.leaf)
        known: Reach | None = snapshot.reaches.get(key)
        sides: object
        if known is None:
            known = snapshot.reaches[key] = Reach(leaf, workload.priority)
        if self._margin:
            margin_milli_s = self.margin_milli_s(workload)
            sides = beaten = frozenset(
                other.id
                for other in snapshot.tree.leaves()
                if other is not leaf and may_swap(leaf, other, margin_milli_s, snapshot.now_s)
            )
        else:
            sides = self._standings.beaten_sides(leaf)
            if known.sides == sides:
                return known
            beaten = _leaves_below(snapshot, (name for level in sides for name in level))
        if known.sides != sides:
            known.shift(snapshot, beaten, sides)
        return known


def _leaves_below(snapshot: Snapshot, sides: Iterable[str]) -> frozenset[str]:
    return frozenset(leaf for side in sides for leaf in snapshot.tree.nodes[side].leaf_ids)
