"""What an order inside a leaf is: how urgent each of its workloads is, among those of one priority."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..values import Service, Workload


class Standing(NamedTuple):
    """Where a workload stands in its leaf.

    Attributes:
        level: 0 to `values.LEVELS` - 1. The higher goes first, and may take over from lower ones whose contracts are
            over.
        turn: of one level, the lower goes first; nobody takes over by it.
        changes_at_s: when time alone will give a run another standing; None for never. One that waits keeps its own.
    """

    level: int
    turn: int = 0
    changes_at_s: int | None = None


class LeafOrder(Protocol):
    """An order inside leaves.

    Attributes:
        why: how a sentence goes on that says why one may take over from another: "it ... ".
    """

    why: str

    def waiting(self, workload: Workload, now_s: int) -> Standing:
        """Where one stands that waits, from now until it starts."""

    def running(self, size_milli: int, service: Service, running_s: int | None, now_s: int) -> Standing:
        """Where one stands that holds so much, from now on.

        Args:
            size_milli: what it holds.
            service: what its workload had attained before this run, and what else is known of it.
            running_s: since when it executes; None while it starts up.
            now_s: the instant.
        """
