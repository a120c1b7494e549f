"""What plain schedulers place on: free devices by node, thought of apart from the world (semantics.md section 6)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

from scheduler.engine import Candidate, Packing, Snapshot, choose_whole_nodes

from .watch import Watch


class Room:
    """Free amounts by node, some of them taken while a pass thinks. Nodes where nothing may start are not in it."""

    def __init__(self, snapshot: Snapshot, free_milli: Mapping[str, int], watch: Watch) -> None:
        """Start from so much free."""
        self._nodes = snapshot.nodes.by_name
        self._watch, self._packing = watch, snapshot.packing
        self._given = free_milli
        self._changed: dict[str, int] = {}  # amounts that are not as given any longer
        self._by_free: dict[int, list[str]] = {}  # the names, in order, of the nodes with so much free
        for name in sorted(free_milli):
            if free_milli[name] > 0:
                self._by_free.setdefault(free_milli[name], []).append(name)
        self._is_own = True  # whether the index may be written to
        self.total_milli = sum(amount * len(names) for amount, names in self._by_free.items())

    @classmethod
    def free_now(cls, snapshot: Snapshot, watch: Watch) -> Room:
        """What is free at the snapshot's instant, on nodes where something may start, and not held for a plan."""
        room = object.__new__(cls)
        room._nodes, room._watch, room._packing = snapshot.nodes.by_name, watch, snapshot.packing
        room._given, room._changed = watch.free_milli, {}
        room._by_free, room._is_own = snapshot.nodes.by_free, False
        room.total_milli = snapshot.nodes.free_milli
        return room

    @classmethod
    def all_of(cls, snapshot: Snapshot, watch: Watch) -> Room:
        """All devices on nodes where something may start, held or not."""
        fit = {name: size for name, size in watch.capacity_milli.items() if name not in watch.unfit}
        return cls(snapshot, fit, watch)

    def copy(self) -> Room:
        """The same, to think further in."""
        other = object.__new__(Room)
        other._nodes, other._watch, other._packing = self._nodes, self._watch, self._packing
        other._given, other._changed = self._given, dict(self._changed)
        other._by_free, other._is_own = self._by_free, False
        self._is_own = False
        other.total_milli = self.total_milli
        return other

    def free(self, name: str) -> int:
        """What is free on a node."""
        amount = self._changed.get(name)
        return self._given.get(name, 0) if amount is None else amount

    def amounts(self) -> dict[str, int]:
        """What is free, by the names of the nodes where anything is."""
        return {name: amount for amount, names in self._by_free.items() for name in names}

    def fits(self, size_milli: int, pin: str | None) -> bool:
        """Whether there is room for a whole gang: on one node, or on whole nodes."""
        if pin is not None:
            return self.free(pin) >= size_milli
        if size_milli > self.total_milli:
            return False
        if size_milli <= self._watch.largest_milli:
            return max(self._by_free) >= size_milli
        if self._watch.is_uniform:
            return len(self._by_free.get(self._watch.largest_milli, ())) * self._watch.largest_milli >= size_milli
        return sum(self._watch.capacity_milli[name] for name in self._empty()) >= size_milli

    def place(self, size_milli: int, pin: str | None) -> Mapping[str, int] | None:
        """Room for a whole gang: one node, or whole nodes over the fewest racks; None if there is none."""
        if not self.fits(size_milli, pin):
            return None
        if pin is not None:
            return {pin: size_milli}
        if size_milli <= self._watch.largest_milli:
            return {self._one_node(size_milli): size_milli}
        chosen = choose_whole_nodes([Candidate((), (), self._nodes[name]) for name in self._empty()], size_milli)
        return None if chosen is None else {node.name: node.capacity_milli for node in chosen}

    def _one_node(self, size_milli: int) -> str:
        """Of the nodes with so much room, that on which the scenario's packing puts it."""
        enough = [free for free in self._by_free if free >= size_milli]
        if self._packing is Packing.FIRST_FIT:
            return min(self._by_free[free][0] for free in enough)
        return self._by_free[max(enough) if self._packing is Packing.WORST_FIT else min(enough)][0]

    def _empty(self) -> list[str]:
        capacity_milli = self._watch.capacity_milli
        return [name for amount, names in self._by_free.items() for name in names if capacity_milli[name] == amount]

    def has(self, holdings: Mapping[str, int]) -> bool:
        """Whether exactly these are free."""
        return all(self.free(name) >= amount for name, amount in holdings.items())

    def take(self, holdings: Mapping[str, int]) -> None:
        """They are free no longer."""
        for name, amount in holdings.items():
            self._set(name, self.free(name) - amount)

    def take_free_part(self, holdings: Mapping[str, int]) -> None:
        """Take what is free of these; the rest is held by runs that are to leave."""
        for name, amount in holdings.items():
            self._set(name, max(0, self.free(name) - amount))

    def give(self, holdings: Mapping[str, int]) -> None:
        """They are free (again)."""
        for name, amount in holdings.items():
            self._set(name, self.free(name) + amount)

    def _set(self, name: str, amount: int) -> None:
        before = self.free(name)
        if amount == before:
            return
        if not self._is_own:
            self._by_free = {free: names.copy() for free, names in self._by_free.items()}
            self._is_own = True
        if before:
            names = self._by_free[before]
            del names[bisect_left(names, name)]
            if not names:
                del self._by_free[before]
        if amount:
            insort(self._by_free.setdefault(amount, []), name)
        self._changed[name] = amount
        self.total_milli += amount - before
