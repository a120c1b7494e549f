"""Who is next: the walk down the tree (semantics.md section 3). One of the engine's three seams.

A walk names one workload after the other (`next`), and is told what became of it: it waits (`pass_over`), or it was
placed (`count`), which changed the figures of its path. It is lazy: nothing is sorted that nobody looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heapreplace

from .queues import LeafQueue, QueueEntry
from .snapshot import Snapshot
from .tree import TreeNode
from .values import Workload

Key = tuple[int, int, str, "Step"]
"""Served by shares, then the next workload's first submission and id."""


class Step:
    """A node on the walk. An inner node keeps its children with demand in a heap, a leaf the rest of its queue."""

    __slots__ = ("children", "entries", "node", "position", "with_demand")

    def __init__(self, node: TreeNode) -> None:
        """A node without demand yet."""
        self.node = node
        self.with_demand: list[Step] = []
        self.children: list[Key] = []
        self.entries: list[QueueEntry] = []
        self.position = 0

    def next_entry(self) -> QueueEntry | None:
        """What the walk would find below this node."""
        step = self
        while step.children:
            step = step.children[0][3]
        return step.entries[step.position] if step.position < len(step.entries) else None


class Walk:
    """A walk down the tree over what waits.

    `queue_of` picks the funded or the unallocated part of a leaf's queue, `served` the figure that is divided by
    shares. Leaves without entitlement are no part of it.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        queue_of: Callable[[LeafQueue], list[QueueEntry]],
        served: Callable[[TreeNode, int], int],
    ) -> None:
        """Stand at the root."""
        self._served = served
        self._now_s = snapshot.now_s
        self._trail: list[Step] = []
        self._is_settled = False  # whether the trail leads to the next workload
        self._is_ahead = False  # whether it does so by served figures alone
        steps = {snapshot.tree.root.id: Step(snapshot.tree.root)}
        for leaf_id, queue in snapshot.queues.items():
            entries = queue_of(queue)
            leaf = snapshot.tree.nodes[leaf_id]
            if entries and snapshot.is_fundable(leaf):
                _step_for(leaf, steps).entries = entries
        self._root = steps[snapshot.tree.root.id]
        self._order_children(self._root)

    def _order_children(self, step: Step) -> None:
        for child in step.with_demand:
            self._order_children(child)
            step.children.append(self._key(child))
        heapify(step.children)

    def _key(self, step: Step) -> Key:
        entry = step.next_entry()
        assert entry is not None, f"{step.node.id} is on the walk without demand"
        return self._served(step.node, self._now_s) * step.node.weight, entry[1], entry[2], step

    def next(self) -> Workload | None:
        """The workload that goes first now, or None when all were looked at."""
        trail = self._trail
        if not self._is_settled:
            step = self._root
            trail.clear()
            self._is_ahead = True
            while step.children:
                trail.append(step)
                self._is_ahead = self._is_ahead and _is_first_ahead(step.children)
                step = step.children[0][3]
            trail.append(step)
            self._is_settled = True
        step = trail[-1]
        return step.entries[step.position][3] if step.position < len(step.entries) else None

    def pass_over(self) -> None:
        """Leave the present workload waiting. Where its leaf goes first whatever comes next in it, nothing moves."""
        leaf = self._trail[-1]
        if self._is_ahead and leaf.position + 1 < len(leaf.entries):
            leaf.position += 1
        else:
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
            heap = self._trail[-1].children
            if step.children or step.position < len(step.entries):
                heapreplace(heap, self._key(step))
            else:
                heappop(heap)


def _is_first_ahead(heap: list[Key]) -> bool:
    """Whether the first of a heap is first by served alone, so that its next workload's age does not matter."""
    served = heap[0][0]
    return all(other[0] > served for other in heap[1:3])


def _step_for(node: TreeNode, steps: dict[str, Step]) -> Step:
    """The step of a node, made and hung below its parent's the first time."""
    if node.id not in steps:
        steps[node.id] = Step(node)
        if node.parent is not None:
            _step_for(node.parent, steps).with_demand.append(steps[node.id])
    return steps[node.id]


def funded_walk(snapshot: Snapshot) -> Walk:
    """Funded workloads, by used and committed over shares, level by level."""
    return Walk(snapshot, lambda queue: queue.funded, lambda node, now_s: node.account.served(now_s))


def unallocated_walk(snapshot: Snapshot) -> Walk:
    """Unallocated workloads of leaves with an entitlement, by uncharged use over shares, level by level."""
    return Walk(snapshot, lambda queue: queue.unallocated, lambda node, now_s: node.account.served_uncharged(now_s))


class ShareLessWalk:
    """Unallocated workloads of leaves without entitlement: after all others, by uncharged use, then submission."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Look at the leaves that have demand."""
        self._now_s = snapshot.now_s
        self._heap: list[Key] = []
        for leaf_id, queue in snapshot.queues.items():
            leaf = snapshot.tree.nodes[leaf_id]
            if queue.unallocated and not snapshot.is_fundable(leaf):
                step = Step(leaf)
                step.entries = queue.unallocated.copy()
                self._heap.append(self._key(step))
        heapify(self._heap)

    def _key(self, step: Step) -> Key:
        entry = step.entries[step.position]
        return step.node.account.served_uncharged(self._now_s), entry[1], entry[2], step

    def next(self) -> Workload | None:
        """The workload that goes first now, or None when all were looked at."""
        if not self._heap:
            return None
        step = self._heap[0][3]
        return step.entries[step.position][3]

    def pass_over(self) -> None:
        """Leave the present workload waiting."""
        self.count()

    def count(self) -> None:
        """Leave the present workload behind, which was placed; the figures of its leaf are read anew."""
        step = self._heap[0][3]
        step.position += 1
        if step.position < len(step.entries):
            heapreplace(self._heap, self._key(step))
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
