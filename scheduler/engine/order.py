"""Who is next: the walk down the tree (semantics.md section 3). One of the engine's three seams.

A walk names one workload after the other (`next`), and is told what became of it: it waits (`pass_over`), or it was
placed (`count`), which changed the figures of its path. It is lazy: nothing is sorted that nobody looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heapreplace
from typing import Any

from .queues import QueueEntry
from .snapshot import Snapshot
from .tree import TreeNode
from .values import FUNDED, UNALLOCATED, Workload

Key = tuple[Any, "Step"]
"""Where a node stands among its siblings, then (as steps compare) the next workload's first submission and id."""
NO_ENTRIES: list[QueueEntry] = []


class Ground:
    """What a walk goes over: what waits of one kind, `FUNDED` or `UNALLOCATED`, at the snapshot's instant.

    Steps know it and not their walk, so that neither outlives a pass: what holds each other waits for the collector.
    """

    __slots__ = ("_kind", "_now_s", "_snapshot", "key_of")

    def __init__(self, snapshot: Snapshot, kind: int, key_of: Callable[[TreeNode, int], Any]) -> None:
        """`key_of` says where a node stands among its siblings at an instant (policies/siblings.py)."""
        self._snapshot = snapshot
        self._kind = kind
        self._now_s = snapshot.now_s
        self.key_of = key_of

    def entries_of(self, leaf: TreeNode) -> list[QueueEntry]:
        """What waits in a leaf, in its order."""
        queue = self._snapshot.queues.get(leaf.id)
        if queue is None:
            return []
        return queue.funded if self._kind == FUNDED else queue.unallocated

    def children_of(self, node: TreeNode) -> list[Key]:
        """The children below which something waits, as a heap."""
        key_of, now_s = self.key_of, self._now_s
        keys = [(key_of(child, now_s), Step(child, self)) for child in node.asking[self._kind].values()]
        heapify(keys)
        return keys

    def key(self, step: Step) -> Key:
        """The key of a node whose figures may have changed."""
        return self.key_of(step.node, self._now_s), step


class Step:
    """A node on the walk. An inner node keeps its children with demand in a heap, a leaf the rest of its queue."""

    __slots__ = ("_ground", "children", "entries", "node", "position")

    def __init__(self, node: TreeNode, ground: Ground) -> None:
        """A node of which nothing was looked at yet."""
        self.node = node
        self._ground = ground
        self.children: list[Key] | None = None
        self.entries: list[QueueEntry] = NO_ENTRIES
        self.position = 0

    def opened(self) -> list[Key]:
        """Its children with demand, as a heap; empty for a leaf, which has `entries` from then on."""
        if self.children is None:
            if self.node.children:
                self.children = self._ground.children_of(self.node)
            else:
                self.children, self.entries = [], self._ground.entries_of(self.node)
        return self.children

    def next_entry(self) -> QueueEntry:
        """What the walk would find below this node, below which something is left."""
        step = self
        while children := step.opened():
            step = children[0][1]
        return step.entries[step.position]

    def __lt__(self, other: Step) -> bool:
        """Whether it goes first where both have been served alike."""
        return self.next_entry()[1:3] < other.next_entry()[1:3]


class Walk:
    """A walk down the tree over what waits of one kind.

    Leaves without entitlement are no part of it. A node is looked into only when the walk comes there.
    """

    def __init__(self, root: TreeNode, ground: Ground) -> None:
        """Stand at the root."""
        self._ground = ground
        self._trail: list[Step] = []
        self._is_settled = False  # whether the trail leads to the next workload
        self._is_ahead = False  # whether it does so by the figures alone
        self._root = Step(root, ground)

    def next(self) -> Workload | None:
        """The workload that goes first now, or None when all were looked at."""
        trail = self._trail
        if not self._is_settled:
            step = self._root
            trail.clear()
            self._is_ahead = True
            while children := step.opened():
                trail.append(step)
                self._is_ahead = self._is_ahead and _is_first_ahead(children)
                step = children[0][1]
            trail.append(step)
            self._is_settled = True
        step = trail[-1]
        return step.entries[step.position][3] if step.position < len(step.entries) else None

    def pass_over(self, too: Callable[[Workload], bool] | None = None) -> None:
        """Leave the present workload waiting, and those of its leaf right after it of which `too` says so.

        Where its leaf goes first whatever comes next in it, nothing moves.
        """
        if not self._is_ahead:
            self.count()
            return
        leaf = self._trail[-1]
        entries, position = leaf.entries, leaf.position + 1
        while too is not None and position < len(entries) and too(entries[position][3]):
            position += 1
        if position < len(entries):
            leaf.position = position
        else:
            leaf.position = position - 1
            self.count()

    def pass_over_leaf(self) -> bool:
        """Leave all that waits in the present leaf waiting, if it comes next whoever of it is passed over."""
        if self._is_ahead:
            leaf = self._trail[-1]
            leaf.position = len(leaf.entries) - 1
            self.count()
        return self._is_ahead

    def count(self) -> None:
        """Leave the present workload behind, which was placed; figures of its path are read anew."""
        self._is_settled = False
        self._trail[-1].position += 1
        while len(self._trail) > 1:
            step = self._trail.pop()
            heap = self._trail[-1].opened()
            if step.opened() or step.position < len(step.entries):
                heapreplace(heap, self._ground.key(step))
            else:
                heappop(heap)


def _is_first_ahead(heap: list[Key]) -> bool:
    """Whether the first of a heap is first by its figures alone, so that its next workload's age does not matter."""
    first, number = heap[0][0], len(heap)
    return number == 1 or bool(heap[1][0] > first and (number == 2 or heap[2][0] > first))


def funded_walk(snapshot: Snapshot) -> Walk:
    """Funded workloads, level by level: by used and committed over shares, or by what the policy names instead."""
    return Walk(snapshot.tree.root, Ground(snapshot, FUNDED, snapshot.tree.order.funded_key))


def unallocated_walk(snapshot: Snapshot) -> Walk:
    """Unallocated workloads of leaves with an entitlement, likewise, by uncharged use over shares."""
    return Walk(snapshot.tree.root, Ground(snapshot, UNALLOCATED, snapshot.tree.order.unallocated_key))


class ShareLessWalk:
    """Unallocated workloads of leaves without entitlement: after all others, by uncharged use, then submission."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Look at the leaves that have demand."""
        self._now_s = snapshot.now_s
        self._heap: list[tuple[int, int, str, TreeNode, list[QueueEntry], int]] = []
        for leaf_id in snapshot.queues.keys() & snapshot.tree.bare_leaves:
            queue = snapshot.queues[leaf_id]
            leaf = snapshot.tree.nodes[leaf_id]
            if queue.unallocated and not leaf.is_entitled:
                self._heap.append(self._key(leaf, queue.unallocated.copy(), 0))
        heapify(self._heap)

    def _key(
        self, leaf: TreeNode, entries: list[QueueEntry], position: int
    ) -> tuple[int, int, str, TreeNode, list[QueueEntry], int]:
        entry = entries[position]
        return leaf.account.served_uncharged(self._now_s), entry[1], entry[2], leaf, entries, position

    def next(self) -> Workload | None:
        """The workload that goes first now, or None when all were looked at."""
        if not self._heap:
            return None
        *_, entries, position = self._heap[0]
        return entries[position][3]

    def pass_over(self, too: Callable[[Workload], bool] | None = None) -> None:
        """Leave the present workload waiting."""
        self.count()

    def count(self) -> None:
        """Leave the present workload behind, which was placed; the figures of its leaf are read anew."""
        *_, leaf, entries, position = self._heap[0]
        if position + 1 < len(entries):
            heapreplace(self._heap, self._key(leaf, entries, position + 1))
        else:
            heappop(self._heap)


def whole_order(snapshot: Snapshot) -> list[Workload]:
    """The queue in the order in which a pass would look at it if nothing could start."""
    found = []
    for walk in (funded_walk(snapshot), unallocated_walk(snapshot), ShareLessWalk(snapshot)):
        while (workload := walk.next()) is not None:
            found.append(workload)
            walk.pass_over()
    return found
