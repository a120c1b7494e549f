"""What plain schedulers place on: free devices by node, thought of apart from the world (semantics.md section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from scheduler.engine import Candidate, Snapshot, choose_whole_nodes


class Hardware(NamedTuple):
    """What of a cluster never changes: its nodes' capacities in thousandths, by name, and the largest of them."""

    capacity_milli: Mapping[str, int]
    largest_milli: int

    @classmethod
    def of(cls, snapshot: Snapshot) -> Hardware:
        """That of a snapshot's nodes."""
        nodes = snapshot.nodes
        return cls({name: node.capacity_milli for name, node in nodes.by_name.items()}, nodes.largest_milli)

    def empty_room(self, snapshot: Snapshot) -> Room:
        """All devices, as if every node were fit and nothing ran."""
        return Room(snapshot, self.capacity_milli, self)


class Room:
    """Free amounts by node, some of them taken while a pass thinks. Nodes where nothing may start are not in it."""

    def __init__(self, snapshot: Snapshot, free_milli: Mapping[str, int], hardware: Hardware) -> None:
        """Start from so much free."""
        self._nodes = snapshot.nodes.by_name
        self._hardware = hardware
        self.free_milli = {name: amount for name, amount in free_milli.items() if amount > 0}
        self.total_milli = sum(self.free_milli.values())
        self._least_failed: dict[bool, int] = {}

    @classmethod
    def free_now(cls, snapshot: Snapshot, hardware: Hardware) -> Room:
        """What is free at the snapshot's instant, on nodes where something may start, and not held for a plan."""
        by_free = snapshot.nodes.by_free
        return cls(snapshot, {name: free for free, names in by_free.items() for name in names}, hardware)

    @classmethod
    def all_of(cls, snapshot: Snapshot, hardware: Hardware) -> Room:
        """All devices on nodes where something may start, held or not."""
        fit = {name: node.capacity_milli for name, node in snapshot.nodes.by_name.items()}
        for name, node in snapshot.nodes.restless.items():
            if not node.may_start(snapshot.now_s):
                del fit[name]
        return cls(snapshot, fit, hardware)

    def copy(self) -> Room:
        """The same, to think further in."""
        other = object.__new__(Room)
        other._nodes, other._hardware = self._nodes, self._hardware
        other.free_milli, other.total_milli = dict(self.free_milli), self.total_milli
        other._least_failed = dict(self._least_failed)
        return other

    def within(self, most_milli: Mapping[str, int]) -> Room:
        """The same, with at most so much on each node."""
        other = self.copy()
        other.free_milli = {
            name: min(free, most_milli[name]) for name, free in self.free_milli.items() if most_milli.get(name, 0) > 0
        }
        other.total_milli = sum(other.free_milli.values())
        return other

    def place(self, size_milli: int, pin: str | None) -> Mapping[str, int] | None:
        """Room for a whole gang: best fit on one node, or whole nodes over the fewest racks; None if there is none."""
        if pin is not None:
            return {pin: size_milli} if self.free_milli.get(pin, 0) >= size_milli else None
        if size_milli > self.total_milli:
            return None
        is_gang = size_milli > self._hardware.largest_milli
        if size_milli >= self._least_failed.get(is_gang, size_milli + 1):
            return None
        found = self._whole_nodes(size_milli) if is_gang else self._best_fit(size_milli)
        if found is None:
            self._least_failed[is_gang] = size_milli
        return found

    def _best_fit(self, size_milli: int) -> Mapping[str, int] | None:
        fitting = [(free, name) for name, free in self.free_milli.items() if free >= size_milli]
        return {min(fitting)[1]: size_milli} if fitting else None

    def _whole_nodes(self, size_milli: int) -> Mapping[str, int] | None:
        capacity_milli = self._hardware.capacity_milli
        empty = [
            Candidate((), (), self._nodes[name])
            for name, free in self.free_milli.items()
            if free == capacity_milli[name]
        ]
        chosen = choose_whole_nodes(empty, size_milli)
        return None if chosen is None else {node.name: node.capacity_milli for node in chosen}

    def has(self, holdings: Mapping[str, int]) -> bool:
        """Whether exactly these are free."""
        return all(self.free_milli.get(name, 0) >= amount for name, amount in holdings.items())

    def take(self, holdings: Mapping[str, int]) -> None:
        """They are free no longer."""
        for name, amount in holdings.items():
            self.free_milli[name] -= amount
            self.total_milli -= amount

    def take_free_part(self, holdings: Mapping[str, int]) -> None:
        """Take what is free of these; the rest is held by runs that are to leave."""
        self.take(
            {name: min(size, self.free_milli[name]) for name, size in holdings.items() if name in self.free_milli}
        )

    def give(self, holdings: Mapping[str, int]) -> None:
        """They are free (again)."""
        self._least_failed.clear()
        for name, amount in holdings.items():
            self.free_milli[name] = self.free_milli.get(name, 0) + amount
            self.total_milli += amount
