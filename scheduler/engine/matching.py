"""Which nodes and racks are matched to the cells that tenants were granted, for all of them at once (private.py).

A node is clean for a tenant if no contract, plan or promise of anybody else is on it; a rack, if all its nodes are.
`match` matches as many cells as there can be to clean racks and nodes, racks first. That is exact, since racks that
count have as many nodes each: a tenant's cells take the racks first that hold most of its own, which leaves most to
others; whatever is clean for everybody may be anybody's.

Where cells are missing, they get targets: what will be clean soonest, to be left alone until it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from .grants import in_all
from .values import CellCounts

Whose = str | None
"""A tenant, by its budget node's id; None is everybody else."""


class Standing(NamedTuple):
    """One node on which something may start, as cells see it.

    Attributes:
        name, rack: of the node; "" is no rack.
        counts: whether it is large enough to be a cell (grants.py).
        bound: whose contracts, plans or promises are on it.
        over: whose funded runs are on it with their contracts over.
        until_s: when the last of what is bound will be over.
        has_window: whether maintenance is planned on it.
        open_milli: what there could be had on it by telling runs to leave.
    """

    name: str
    rack: str = ""
    counts: bool = True
    bound: frozenset[Whose] = frozenset()
    over: frozenset[Whose] = frozenset()
    until_s: int = 0
    has_window: bool = False
    open_milli: int = 0

    def is_clean_for(self, tenant: str) -> bool:
        """Whether nothing of anybody else is bound to it."""
        return self.bound <= {tenant}


class Matching(NamedTuple):
    """Whose cells nodes are. A node may be one's cell and, once its use has moved elsewhere, another's target.

    Attributes:
        clean: by node, the tenant of which it is a cell.
        targets: by node, the tenant whose missing cell it is to become.
        missing: by tenant, its cells for which nothing is clean; tenants with none are left out.
    """

    clean: Mapping[str, str]
    targets: Mapping[str, str]
    missing: Mapping[str, CellCounts]

    def keeps_from(self, node: str, tenant: Whose) -> bool:
        """Whether funded work of a tenant, or (None) of somebody without cells, has to stay off a node."""
        owner = self.clean.get(node)
        if owner is None:
            owner = self.targets.get(node)
        return owner is not None and owner != tenant

    def is_cell_of(self, node: str, tenant: Whose) -> bool:
        """Whether a node is a tenant's cell, or will be."""
        return tenant is not None and tenant in (self.clean.get(node), self.targets.get(node))

    def moved(self, other: Matching) -> set[str]:
        """The nodes of which another matching says something else."""
        differs = (self.clean.items() ^ other.clean.items()) | (self.targets.items() ^ other.targets.items())
        return {name for name, _ in differs}

    def missing_in_all(self) -> CellCounts:
        """How many cells of each level have nothing clean; compared from racks on (`is_worse`)."""
        return in_all(self.missing.values())


def is_worse(missing: CellCounts, before: CellCounts) -> bool:
    """Whether more is missing than before: more racks, or as many and more nodes."""
    return (missing.rack, missing.node) > (before.rack, before.node)


def match(
    tenants: Mapping[str, CellCounts], nodes: Sequence[Standing], racks: Collection[str], without: str | None = None
) -> Matching:
    """Match all cells.

    Args:
        tenants: the cells of each.
        nodes: those on which something may start.
        racks: those that count and whose nodes are all among `nodes`.
        without: a node that is left out where others do as well.
    """
    return _Matcher(tenants, nodes, racks, without).matching()


class _Matcher:
    """The steps of `match`: racks, nodes, then targets for what is missing. Tenants in the order of their ids."""

    def __init__(
        self,
        tenants: Mapping[str, CellCounts],
        nodes: Sequence[Standing],
        racks: Collection[str],
        without: str | None,
    ) -> None:
        self._tenants = dict(sorted(tenants.items()))
        self._nodes = nodes
        self._without = without
        self._racks: dict[str, list[Standing]] = {name: [] for name in sorted(racks)}
        for node in nodes:
            if node.rack in self._racks:
                self._racks[node.rack].append(node)
        self._clean: dict[str, str] = {}
        self._targets: dict[str, str] = {}
        self._missing: dict[str, CellCounts] = {}

    def matching(self) -> Matching:
        """All steps."""
        racks = self._match_racks()
        nodes = self._match_nodes()
        for tenant in self._tenants:
            if racks[tenant] or nodes[tenant]:
                self._missing[tenant] = CellCounts(nodes[tenant], racks[tenant])
        if self._missing:
            self._choose_targets()
        return Matching(self._clean, self._targets, self._missing)

    # --- racks ----------------------------------------------------------------------------------------------------

    def _match_racks(self) -> dict[str, int]:
        """Match rack cells, and return how many of each tenant are missing."""
        bound = {name: frozenset().union(*(node.bound for node in nodes)) for name, nodes in self._racks.items()}
        missing = {tenant: counts.rack for tenant, counts in self._tenants.items()}
        for tenant in self._tenants:
            own = [name for name in self._racks if bound[name] == {tenant}]
            own.sort(key=lambda name: (-self._number_bound(name), self._holds_left_out(name)))
            for name in own[: missing[tenant]]:
                self._take_rack(name, tenant, self._clean)
                missing[tenant] -= 1
        for tenant in self._tenants:
            blank = [name for name in self._racks if not bound[name]]
            blank.sort(key=lambda name: self._blank_rack_key(name, tenant))
            for name in blank[: missing[tenant]]:
                self._take_rack(name, tenant, self._clean)
                missing[tenant] -= 1
        return missing

    def _number_bound(self, rack: str) -> int:
        return sum(1 for node in self._racks[rack] if node.counts and node.bound)

    def _holds_left_out(self, rack: str) -> bool:
        return any(node.name == self._without for node in self._racks[rack])

    def _blank_rack_key(self, rack: str, tenant: str) -> tuple[object, ...]:
        """Its own first, then where fewest funded runs would have to leave, then where least could be had."""
        nodes = self._racks[rack]
        return (
            self._holds_left_out(rack),
            any(node.has_window for node in nodes),
            not any(tenant in node.over for node in nodes),
            sum(1 for node in nodes if node.over - {tenant}),
            sum(node.open_milli for node in nodes),
            rack,
        )

    def _take_rack(self, rack: str, tenant: str, taken: dict[str, str]) -> None:
        for node in self._racks.pop(rack):
            taken[node.name] = tenant

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _match_nodes(self) -> dict[str, int]:
        """Match node cells on what racks have left, and return how many of each tenant are missing."""
        left = [node for node in self._nodes if node.counts and node.name not in self._clean]
        missing = {tenant: counts.node for tenant, counts in self._tenants.items()}
        for tenant in self._tenants:
            own = [node for node in left if node.bound == {tenant}]
            own.sort(key=lambda node: (node.name == self._without, node.open_milli, node.name))
            self._take_nodes(own, tenant, missing)
        broken = {node.rack for node in left if node.bound}
        for tenant in self._tenants:
            blank = [node for node in left if not node.bound and node.name not in self._clean]
            blank.sort(key=lambda node: self._blank_key(node, tenant, broken))
            self._take_nodes(blank, tenant, missing)
        return missing

    def _take_nodes(self, nodes: Sequence[Standing], tenant: str, missing: dict[str, int]) -> None:
        for node in nodes[: missing[tenant]]:
            self._clean[node.name] = tenant
            missing[tenant] -= 1

    def _blank_key(self, node: Standing, tenant: str, broken: Collection[str]) -> tuple[object, ...]:
        """Its own first, then where nobody funded would have to leave; racks that are in use before whole ones."""
        return (
            node.name == self._without,
            node.has_window,
            tenant not in node.over,
            len(node.over - {tenant, None}),
            len(node.over - {tenant}),
            node.rack not in broken,
            node.open_milli,
            node.name,
        )

    # --- targets --------------------------------------------------------------------------------------------------

    def _choose_targets(self) -> None:
        """What is to become of what is missing: racks that are nearest to clean, then nodes that will be so soonest.

        A rack may hold cells of other tenants that are not in use: these get targets elsewhere.
        """
        moving = {tenant: counts.node for tenant, counts in self._missing.items()}
        for tenant, counts in self._missing.items():
            for _ in range(min(counts.rack, len(self._racks))):
                rack = min(self._racks, key=lambda name: self._target_rack_key(name, tenant))
                for node in self._racks[rack]:
                    displaced = self._clean.get(node.name)
                    if displaced is not None:
                        moving[displaced] = moving.get(displaced, 0) + 1
                self._take_rack(rack, tenant, self._targets)
        left = [
            node
            for node in self._nodes
            if node.counts and node.name not in self._clean and node.name not in self._targets
        ]
        for tenant, number in sorted(moving.items()):
            left.sort(key=lambda node: (not node.is_clean_for(tenant), node.until_s, node.name))
            for node in left[:number]:
                self._targets[node.name] = tenant
            del left[:number]

    def _target_rack_key(self, rack: str, tenant: str) -> tuple[object, ...]:
        nodes = self._racks[rack]
        others = [node for node in nodes if not node.is_clean_for(tenant)]
        unused = [node for node in nodes if self._clean.get(node.name, tenant) != tenant]
        return (len(others) + len(unused), max((node.until_s for node in others), default=0), rack)
