"""Which of equal nodes a gang takes: in few racks, and in them close together on the network (semantics.md section 6).

A node may say below which leaf it is, the switch that it is wired to, and in which rail, the leaves that reach each
other without the spine or in one hop of it. Both only choose inside what racks leave open: of racks that hold a gang,
one where a single leaf does goes first, then one where a single rail does; in a rack likewise. Where no node says
anything, they decide nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter

from .cluster import NodeState

INNER = ("rail", "leaf")
"""The levels inside a rack, from the widest; "" is unsaid."""


def closest(nodes: Sequence[NodeState], size_milli: int, used: Collection[NodeState], turn: int = 0) -> list[NodeState]:
    """Enough of these nodes, which are in order of preference, over as few further racks as possible.

    Args:
        nodes: equals, which are enough.
        size_milli: what is needed of them.
        used: nodes that the gang takes beside them.
        turn: domains that differ by their names alone are tried from so many names later on, around.
    """
    says = any(node.leaf or node.rail for node in nodes)
    return _fewest(nodes, size_milli, used, turn, ("rack", *INNER) if says else ("rack",))


def _fewest(
    nodes: Sequence[NodeState], size_milli: int, used: Collection[NodeState], turn: int, levels: Sequence[str]
) -> list[NodeState]:
    if not levels:
        return _first(nodes, size_milli)
    level, *inner = levels
    name_of = attrgetter(level)
    domains: dict[str, list[NodeState]] = {}
    for node in nodes:
        domains.setdefault(name_of(node), []).append(node)
    if len(domains) == 1:
        return _fewest(nodes, size_milli, used, turn, inner)
    room = {name: sum(node.capacity_milli for node in members) for name, members in domains.items()}
    used_names = {name_of(node) for node in used}
    is_unsaid = {name: level in INNER and not name for name in domains}
    rank = {name: (index - turn) % len(domains) for index, name in enumerate(sorted(domains))}
    chosen: list[NodeState] = []
    missing_milli = size_milli
    while missing_milli > 0:
        enough = [name for name in room if room[name] >= missing_milli]
        if enough:  # the one that this leaves least of, so that large ones stay whole
            far = {name: _spread(domains[name], missing_milli, inner) for name in enough}
            domain = min(
                enough, key=lambda name: (is_unsaid[name], name not in used_names, far[name], room[name], rank[name])
            )
            chosen += _fewest(domains[domain], missing_milli, used, turn, inner)
            break
        domain = min(room, key=lambda name: (is_unsaid[name], name not in used_names, -room[name], rank[name]))
        chosen += domains[domain]
        missing_milli -= room.pop(domain)
    return chosen


def _first(nodes: Sequence[NodeState], size_milli: int) -> list[NodeState]:
    chosen: list[NodeState] = []
    for node in nodes:
        if size_milli <= 0:
            break
        chosen.append(node)
        size_milli -= node.capacity_milli
    return chosen


def _spread(nodes: Sequence[NodeState], size_milli: int, levels: Sequence[str]) -> int:
    """How far apart so much of these nodes would be: 0 in the smallest domain, one more for each that is too small."""
    for far, level in enumerate(reversed(levels)):
        name_of = attrgetter(level)
        room: dict[str, int] = {}
        for node in nodes:
            if name := name_of(node):
                room[name] = room.get(name, 0) + node.capacity_milli
        if any(each >= size_milli for each in room.values()):
            return far
    return len(levels)
