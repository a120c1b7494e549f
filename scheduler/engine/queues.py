"""What waits in a leaf, in the leaf's own order (semantics.md section 3, rule 3)."""

from __future__ import annotations

from .values import Workload

QueueEntry = tuple[int, int, str, Workload]
"""Place inside a leaf: priority (negated), first submission, id (section 3, rule 3)."""


class LeafQueue:
    """What waits in one leaf, in the leaf's order: the funded, and the unallocated."""

    __slots__ = ("funded", "unallocated")

    def __init__(self) -> None:
        """Nothing waits."""
        self.funded: list[QueueEntry] = []
        self.unallocated: list[QueueEntry] = []

    def of(self, workload: Workload) -> list[QueueEntry]:
        """The one of the two queues that a workload belongs to."""
        return self.funded if workload.min_runtime_s else self.unallocated
