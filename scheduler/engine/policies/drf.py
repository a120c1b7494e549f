"""Dominant Resource Fairness among siblings (Ghodsi et al., NSDI 2011): devices, cores and memory.

What counts is the largest part that a subtree holds of any one of them, by its entitlement. Who cannot be placed is
left waiting and the next is looked at, so that nothing stays free that somebody could use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import Any

from ..values import FUNDED, UNALLOCATED, Resources, Workload
from .siblings import Sibling

NAMES = ("devices", "cores", "memory")


class Dominant:
    """The order. `total` is what the cluster has; of what no node declares anything, 0, which does not count."""

    by_holdings = True
    ahead = "has a smaller dominant share"
    ahead_many = "have smaller dominant shares"
    took = "had a smaller dominant share than"

    def __init__(self, total: Resources) -> None:
        """For a cluster that has so much."""
        self._total = total
        self._common = lcm(*(amount for amount in total if amount))
        self._each = tuple(self._common // amount if amount else 0 for amount in total)

    def portion(self, node: Sibling) -> int:
        """Its shares."""
        return node.shares

    def _dominant(self, held: Sequence[int]) -> int:
        """The dominant share, in parts of what the totals have in common."""
        return max(held[0] * self._each[0], held[1] * self._each[1], held[2] * self._each[2])

    def dominant_share(self, held: Sequence[int]) -> tuple[str, Fraction]:
        """Of which resource it holds the largest part, and the part."""
        parts = [amount * each for amount, each in zip(held, self._each, strict=True)]
        most = max(parts)
        return NAMES[parts.index(most)], Fraction(most, self._common)

    def funded_key(self, node: Sibling, now_s: int) -> int:
        """By what its funded runs, and plans, hold."""
        return self._dominant(node.account.held[FUNDED]) * node.weight

    def funded_key_with(self, node: Sibling, now_s: int, workload: Workload, margin: Fraction) -> Fraction:
        """With so many times what a workload asks for."""
        asked = (workload.size_milli, workload.cpu_milli, workload.memory_mib)
        parts = [
            (held + margin * more) * each
            for held, more, each in zip(node.account.held[FUNDED], asked, self._each, strict=True)
        ]
        return Fraction(max(parts)) * node.weight

    def unallocated_key(self, node: Sibling, now_s: int) -> int:
        """By what its unallocated runs hold."""
        return self._dominant(node.account.held[UNALLOCATED]) * node.weight

    def had(self, node: Sibling, now_s: int) -> int:
        """The dominant share."""
        return self._dominant(node.account.held[FUNDED])

    def uncharged(self, node: Sibling, now_s: int) -> int:
        """The dominant share of its unallocated runs."""
        return self._dominant(node.account.held[UNALLOCATED])

    def numbers(self, node: Sibling) -> Mapping[str, Any]:
        """What it holds, of which it holds the largest part, and what part that is."""
        held = node.account.held[FUNDED]
        name, part = self.dominant_share(held)
        return {
            "held_milli": held[0],
            "held_uncharged_milli": node.account.held[UNALLOCATED][0],
            "cpu_milli": held[1],
            "memory_mib": held[2],
            "dominant": name,
            "dominant_share": list(part.as_integer_ratio()),
            "totals": list(self._total),
        }
