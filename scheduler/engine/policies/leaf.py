"""What an order inside a leaf is: how urgent each of its workloads is, among those of one priority."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..values import Service, Workload
from .crowds import NOBODY, Crowd
from .locality import TOGETHER_MILLI


class Standing(NamedTuple):
    """Where a workload stands in its leaf.

    Attributes:
        level: 0 to `values.LEVELS` - 1. The higher goes first, and may take over from lower ones whose contracts are
            over.
        turn: of one level, the lower goes first; nobody takes over by it.
        changes_at_s: when time alone will give it another standing, but for rounds; None for never.
    """

    level: int
    turn: int = 0
    changes_at_s: int | None = None


class LeafOrder(Protocol):
    """An order inside leaves. One that inherits from this has no rounds, and forgives nothing.

    Attributes:
        why: how a sentence goes on that says why one may take over from another: "it ... ".
        round_s: where it is set, everybody's standing is that of the last multiple of so many seconds, and is asked for
            again at each; what came since then counts as it was at that instant.
    """

    why: str
    round_s: int | None = None

    def waiting(self, workload: Workload, now_s: int, crowd: Crowd = NOBODY) -> Standing:
        """Where one stands that waits, from now on. `crowd` is its leaf's at the last round."""

    def running(
        self,
        size_milli: int,
        service: Service,
        running_s: int | None,
        now_s: int,
        crowd: Crowd = NOBODY,
        slowdown_milli: int = TOGETHER_MILLI,
    ) -> Standing:
        """Where one stands that holds so much, from now on.

        Args:
            size_milli: what it holds.
            service: what its workload had attained before this run, and what else is known of it.
            running_s: since when it executes; None while it starts up.
            now_s: the instant.
            crowd: its leaf's at the last round.
            slowdown_milli: how many times the time its work takes where it is (locality.py), in thousandths.
        """

    def forgives(self, service: Service, now_s: int) -> bool:
        """Whether what one that waits has executed so far counts no more, if it starts now."""
        return False
