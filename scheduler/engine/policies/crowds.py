"""How many workloads contend inside each leaf, waiting, held or with devices, and have so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Crowd(NamedTuple):
    """A leaf at the beginning of a round: how many were there, and the workload-seconds until then.

    The seconds are counted from any instant; those of an `Arrival` are counted from the same.
    """

    number: int
    total_s: int


NOBODY = Crowd(0, 0)


class Crowds:
    """The crowds of all leaves, kept as workloads come and go. A round begins at each multiple of `round_s`."""

    def __init__(self, round_s: int, now_s: int, at_round: Mapping[str, Crowd]) -> None:
        """Nobody is there yet. `at_round` is what there was at the beginning of the round that goes on."""
        self.round_s = round_s
        self.at_round = dict(at_round)
        self._number: dict[str, int] = {}
        self._total_s = {leaf: crowd.total_s for leaf, crowd in at_round.items()}
        self._counted_to_s = dict.fromkeys(at_round, now_s)

    def next_round_s(self, now_s: int) -> int:
        """When the next round begins."""
        return now_s // self.round_s * self.round_s + self.round_s

    def come(self, leaf: str, number: int, now_s: int) -> None:
        """So many more are there from now on; where `number` is negative, fewer."""
        self._number[leaf] = self._count_to(leaf, now_s) + number

    def total_s(self, leaf: str, now_s: int) -> int:
        """The workload-seconds of a leaf until now."""
        self._count_to(leaf, now_s)
        return self._total_s.get(leaf, 0)

    def begin_round(self, now_s: int) -> None:
        """A round begins now."""
        for leaf in self._number:
            self.at_round[leaf] = Crowd(self._count_to(leaf, now_s), self._total_s[leaf])

    def _count_to(self, leaf: str, now_s: int) -> int:
        """Count the seconds until now, and say how many are there."""
        number = self._number.get(leaf, 0)
        elapsed_s = now_s - self._counted_to_s.get(leaf, now_s)
        self._total_s[leaf] = self._total_s.get(leaf, 0) + number * elapsed_s
        self._counted_to_s[leaf] = now_s
        return number
