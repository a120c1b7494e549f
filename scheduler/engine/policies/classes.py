"""GPU classes with reserve and pack (Weng et al., MLaaS in the Wild, NSDI'22, on Alibaba's PAI).

A cluster says in which order its classes are, the fastest first, which of them are high-end, and how many of their
devices to keep free. Work that needs the fast ones ("high") tries these first; all other work ("low") is packed on the
weakest, and may have high-end devices only while more than the reserve are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Tier = frozenset[str]
"""Classes that are as good as each other."""


class Classes:
    """The classes of one cluster, as its policy ranks them.

    Attributes:
        high_end: those that a reserve is kept of.
        reserve_milli: so much of them stays free for high work, in thousandths of a device.
        nodes: the names of the nodes of high-end classes.
        free: what of these was free, and the length of the log of changed nodes that it was found with.
    """

    __slots__ = ("_order", "_tiers", "free", "high_end", "nodes", "reserve_milli")

    def __init__(
        self, order: Sequence[str], high_end: Iterable[str], reserve_milli: int, class_of: dict[str, str]
    ) -> None:
        """Rank the classes of nodes, given by name; one that the order does not name is the slowest."""
        self._order = {name: place for place, name in enumerate(order)}
        self.high_end = frozenset(high_end)
        self.reserve_milli = reserve_milli
        self.nodes = [name for name, gpu_class in class_of.items() if gpu_class in self.high_end]
        self.free: tuple[int, int] = 0, -1
        known = set(class_of.values())
        self._tiers = {is_high: self._ranked(known, is_high=is_high) for is_high in (False, True)}

    def _ranked(self, known: Iterable[str], *, is_high: bool) -> list[Tier]:
        places: dict[tuple[bool, int], set[str]] = {}
        for name in known:
            place = self._order.get(name, len(self._order))
            is_last = (name in self.high_end) != is_high
            places.setdefault((is_last, place if is_high else -place), set()).add(name)
        return [frozenset(places[key]) for key in sorted(places)]

    def tiers(self, *, is_high: bool) -> list[Tier]:
        """The classes that a workload tries, in that order: high-end ones first if it is high, else last."""
        return self._tiers[is_high]

    def rank(self, gpu_class: str, *, is_high: bool) -> int:
        """The place of a class in that order."""
        return next(place for place, tier in enumerate(self._tiers[is_high]) if gpu_class in tier)
