"""Which of equal nodes a gang takes: in few racks, and in them close together on the network (semantics.md section 6).

A node may say below which leaf it is, the switch that it is wired to, and in which rail, the leaves that reach each
other without the spine or in one hop of it. Both only choose inside what racks leave open: of racks that hold a gang,
one where a single leaf does goes first, then one where a single rail does; in a rack likewise. Where no node says
anything, they decide nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import NamedTuple

from .cluster import NodeState

INNER = ("rail", "leaf")
"""The levels inside a rack, from the widest; "" is unsaid."""


def closest(
    nodes: Sequence[NodeState],
    size_milli: int,
    used: Collection[NodeState],
    turn: int = 0,
    each_milli: int | None = None,
) -> list[NodeState]:
    """Enough of these nodes, which are in order of preference, over as few further racks as possible.

    Args:
        nodes: equals, which are enough.
        size_milli: what is needed of them.
        used: nodes that the gang takes beside them.
        turn: domains that differ by their names alone are tried from so many names later on, around.
        each_milli: what it takes of each; None is the whole node.
    """
    says = any(node.leaf or node.rail for node in nodes)
    return _Closest(used, turn, each_milli).fewest(nodes, size_milli, ("rack", *INNER) if says else ("rack",))


class _Closest(NamedTuple):
    """What does not change on the way into the smaller domains; as `closest` has it."""

    used: Collection[NodeState]
    turn: int
    each_milli: int | None

    def milli(self, node: NodeState) -> int:
        """What a node gives."""
        return node.capacity_milli if self.each_milli is None else self.each_milli

    def fewest(self, nodes: Sequence[NodeState], size_milli: int, levels: Sequence[str]) -> list[NodeState]:
        """Enough of the nodes, over as few domains of the first level as possible, and inside these likewise."""
        if not levels:
            return self._first(nodes, size_milli)
        level, *inner = levels
        name_of = attrgetter(level)
        domains: dict[str, list[NodeState]] = {}
        for node in nodes:
            domains.setdefault(name_of(node), []).append(node)
        if len(domains) == 1:
            return self.fewest(nodes, size_milli, inner)
        room = {name: sum(self.milli(node) for node in members) for name, members in domains.items()}
        used_names = {name_of(node) for node in self.used}
        is_unsaid = {name: level in INNER and not name for name in domains}
        rank = {name: (index - self.turn) % len(domains) for index, name in enumerate(sorted(domains))}
        chosen: list[NodeState] = []
        missing_milli = size_milli
        largest_first = iter(
            sorted(room, key=lambda name: (is_unsaid[name], name not in used_names, -room[name], rank[name]))
        )
        while missing_milli > 0:
            if max(room.values()) >= missing_milli:  # the one that this leaves least of, so that large ones stay whole
                enough = [name for name in room if room[name] >= missing_milli]
                far = {name: self._spread(domains[name], missing_milli, inner) for name in enough}
                domain = min(
                    enough,
                    key=lambda name: (is_unsaid[name], name not in used_names, far[name], room[name], rank[name]),
                )
                chosen += self.fewest(domains[domain], missing_milli, inner)
                break
            domain = next(largest_first)
            chosen += domains[domain]
            missing_milli -= room.pop(domain)
        return chosen

    def _first(self, nodes: Sequence[NodeState], size_milli: int) -> list[NodeState]:
        chosen: list[NodeState] = []
        for node in nodes:
            if size_milli <= 0:
                break
            chosen.append(node)
            size_milli -= self.milli(node)
        return chosen

    def _spread(self, nodes: Sequence[NodeState], size_milli: int, levels: Sequence[str]) -> int:
        """How far apart so much of these nodes is: 0 in the smallest domain, one more for each that is too small."""
        for far, level in enumerate(reversed(levels)):
            name_of = attrgetter(level)
            room: dict[str, int] = {}
            for node in nodes:
                if name := name_of(node):
                    room[name] = room.get(name, 0) + self.milli(node)
            if any(each >= size_milli for each in room.values()):
                return far
        return len(levels)
