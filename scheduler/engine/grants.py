"""Cells that budget nodes hold beside their shares: whole nodes and whole racks (HiveD's virtual private clusters).

What is granted has to fit the cluster, which is asked here when it is granted, and of nobody's state: `unmatched` says
what there is too little for, `still_grantable` what there would be enough for. What the engine does with cells is in
private.py; the buddy cells of the paper itself, of any number of levels, are in policies/cells.py.

Cells of a level are alike. A node counts if it is at least as large as is usual in the cluster, a rack if it has just
as many of these as is usual among racks. Of sizes that are as common the larger is usual.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from .values import NO_CELLS, CellCounts


class Host(Protocol):
    """What is asked of a node: `capacity_milli` in thousandths of a device; `rack` is "" where it is in none."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def capacity_milli(self) -> int:
        """What it has, also while it is unfit."""

    @property
    def rack(self) -> str:
        """Where it stands."""


class Layout(NamedTuple):
    """What of a cluster can be granted.

    Attributes:
        nodes: the names of the nodes that count, by rack ("" for those in none).
        racks: the names of the racks that count.
        rack_nodes: how many nodes that count each of these has; 0 where there are none.
    """

    nodes: Mapping[str, tuple[str, ...]]
    racks: tuple[str, ...]
    rack_nodes: int

    @property
    def number_of_nodes(self) -> int:
        """How many nodes count, in racks that count and elsewhere."""
        return sum(len(names) for names in self.nodes.values())

    @property
    def names(self) -> frozenset[str]:
        """Of these nodes."""
        return frozenset().union(*self.nodes.values())

    def without(self, names: Collection[str]) -> Layout:
        """What of it is left while these nodes can't be had: a rack only if it has all of its own."""
        nodes = {rack: tuple(name for name in members if name not in names) for rack, members in self.nodes.items()}
        return Layout(nodes, tuple(rack for rack in self.racks if nodes[rack] == self.nodes[rack]), self.rack_nodes)


def layout_of(hosts: Iterable[Host]) -> Layout:
    """What of these nodes can be granted: all nodes of a cluster, fit or not."""
    known = sorted(hosts, key=lambda each: each.name)
    usual_milli = _most_common([host.capacity_milli for host in known])
    nodes: dict[str, tuple[str, ...]] = {}
    for host in known:
        if host.capacity_milli >= usual_milli:
            nodes[host.rack] = (*nodes.get(host.rack, ()), host.name)
    rack_nodes = _most_common([len(names) for rack, names in nodes.items() if rack])
    racks = tuple(sorted(rack for rack, names in nodes.items() if rack and len(names) == rack_nodes))
    return Layout(nodes, racks, rack_nodes)


def _most_common(sizes: Iterable[int]) -> int:
    """Of sizes that are as common, the largest; 0 of none."""
    numbers = Counter(sizes)
    return max(numbers, key=lambda size: (numbers[size], size), default=0)


def in_all(grants: Iterable[CellCounts]) -> CellCounts:
    """What several grants come to."""
    counts = list(grants)
    return CellCounts(sum(each.node for each in counts), sum(each.rack for each in counts))


def unmatched(layout: Layout, grants: Iterable[CellCounts]) -> CellCounts:
    """How many cells of each level there are not, where racks are given out first; none is what may be granted."""
    wanted = in_all(grants)
    racks = min(wanted.rack, len(layout.racks))
    left = layout.number_of_nodes - racks * layout.rack_nodes
    return CellCounts(node=max(0, wanted.node - left), rack=wanted.rack - racks)


def still_grantable(layout: Layout, grants: Iterable[CellCounts]) -> CellCounts:
    """How many more cells of each level could be granted beside these, if all that is left went to that level."""
    wanted = in_all(grants)
    racks = max(0, len(layout.racks) - wanted.rack)
    nodes = max(0, layout.number_of_nodes - min(wanted.rack, len(layout.racks)) * layout.rack_nodes - wanted.node)
    return CellCounts(node=nodes, rack=min(racks, nodes // layout.rack_nodes) if layout.rack_nodes else 0)


def fitting(layout: Layout, grants: Mapping[str, CellCounts]) -> dict[str, CellCounts]:
    """As much of grants as there is: racks before nodes, and first what is granted to the names that come first."""
    found = dict.fromkeys(sorted(grants), NO_CELLS)
    for name in found:
        rack = min(grants[name].rack, still_grantable(layout, found.values()).rack)
        found[name] = CellCounts(rack=rack)
    for name in found:
        node = min(grants[name].node, still_grantable(layout, found.values()).node)
        found[name] = found[name]._replace(node=node)
    return found
