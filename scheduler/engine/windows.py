"""What was held inside the sliding lookback window, as a function of time (semantics.md sections 1 and 3).

Between two changes the total is linear: it grows with what is held now and shrinks with what was held one lookback ago.
So a window is a number, two rates and the changes that the trailing edge has still to pass; reading it costs nothing
that grows with the number of runs.
"""

from __future__ import annotations

from bisect import insort
from collections import deque

FOR_EVER_S = 1 << 62
"""An instant that does not come."""


class Window:
    """Device time in [now - lookback, now), clipped to the second at both ends.

    Amounts are `_milli`, totals `_milli_s`. Changes are made at the instant to which the window was last brought
    (`bring_to`), so they come in order of time.
    """

    __slots__ = ("_edges", "_now_s", "_rate", "_tail_rate", "_total", "lookback_s")

    def __init__(self, lookback_s: int, now_s: int) -> None:
        """An empty window that ends at `now_s`."""
        self.lookback_s = lookback_s
        self._now_s = now_s
        self._total = 0
        self._rate = 0  # held now
        self._tail_rate = 0  # held one lookback ago
        self._edges: deque[tuple[int, int]] = deque()  # (instant, change of what was held), still inside the window

    def bring_to(self, now_s: int) -> int:
        """Move both ends of the window forward to `now_s` and return the total there."""
        elapsed_s = now_s - self._now_s
        if elapsed_s:
            edges = self._edges
            horizon_s = now_s - self.lookback_s
            self._total += (self._rate - self._tail_rate) * elapsed_s
            while edges and edges[0][0] < horizon_s:
                at_s, change = edges.popleft()
                self._total -= change * (horizon_s - at_s)
                self._tail_rate += change
            self._now_s = now_s
        return self._total

    def slope(self) -> int:
        """By how much the total grows in a second, until the instant that `linear_until_s` gives."""
        return self._rate - self._tail_rate

    def linear_until_s(self) -> int:
        """The last instant up to which, without another change, the total grows by the same in every second."""
        return self._edges[0][0] + self.lookback_s if self._edges else FOR_EVER_S

    def hold(self, amount_milli: int) -> None:
        """From now on so much more (or, negative, less) is held."""
        self._rate += amount_milli
        self._edges.append((self._now_s, amount_milli))

    def hold_since(self, amount_milli: int, since_s: int) -> None:
        """So much is held, and has been since `since_s`, which may lie before the window."""
        horizon_s = self._now_s - self.lookback_s
        self._rate += amount_milli
        self._total += amount_milli * (self._now_s - max(since_s, horizon_s))
        self._edge(since_s, amount_milli)

    def add_past(self, amount_milli: int, from_s: int, until_s: int) -> None:
        """So much was held in [from_s, until_s), which has ended by now."""
        horizon_s = self._now_s - self.lookback_s
        self._total += amount_milli * max(0, until_s - max(from_s, horizon_s))
        self._edge(from_s, amount_milli)
        self._edge(until_s, -amount_milli)

    def add_lump(self, total_milli_s: float) -> None:
        """Count device time whose instants are not known: right now, and never forgotten."""
        self._total += int(total_milli_s)

    def _edge(self, at_s: int, change_milli: int) -> None:
        edges = self._edges
        if at_s < self._now_s - self.lookback_s:
            self._tail_rate += change_milli
        elif not edges or edges[-1][0] <= at_s:
            edges.append((at_s, change_milli))
        else:
            insort(edges, (at_s, change_milli))
