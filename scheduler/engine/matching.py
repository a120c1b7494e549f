"""Which nodes and racks are matched to the cells that tenants were granted, for all of them at once (private.py).

A node is clean for a tenant if no contract, plan or promise of anybody else is on it; a rack, if all its nodes are.
`match` matches as many cells as there can be to clean racks and nodes, racks first. That is exact, since racks that
count have as many nodes each: a tenant's cells take the racks first that hold most of its own, which leaves most to
others; whatever is clean for everybody may be anybody's.

A rack is *whole* for a tenant if nothing funded of its own is on it. Of matchings that are as good, one is taken that
leaves a tenant most whole racks, as buddy allocation does: what it has on single nodes counts as its node cells, as far
as these go, and its rack cells are racks in which one of its workloads has several nodes, then whole ones. A rack of
which it has single nodes is its rack cell only if these are more than its node cells, or if others need the whole ones.
Where that leaves more missing, it is let go.

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
        gangs: those of them all (bound or over) who have a workload on it that has further nodes of its rack.
        until_s: when the last of what is bound will be over.
        has_window: whether maintenance is planned on it.
        open_milli: what there could be had on it by telling runs to leave.
    """

    name: str
    rack: str = ""
    counts: bool = True
    bound: frozenset[Whose] = frozenset()
    over: frozenset[Whose] = frozenset()
    gangs: frozenset[Whose] = frozenset()
    until_s: int = 0
    has_window: bool = False
    open_milli: int = 0

    def is_clean_for(self, tenant: str) -> bool:
        """Whether nothing of anybody else is bound to it."""
        return self.bound <= {tenant}

    def is_used_by(self, tenant: Whose) -> bool:
        """Whether something funded of a tenant's is on it, or planned or promised there."""
        return tenant in self.bound or tenant in self.over


class Matching(NamedTuple):
    """Whose cells nodes are. A node may be one's cell and, once its use has moved elsewhere, another's target.

    Attributes:
        clean: by node, the tenant of which it is a cell.
        targets: by node, the tenant whose missing cell it is to become.
        missing: by tenant, its cells for which nothing is clean; tenants with none are left out.
        racks: by rack that is a cell, the tenant of which it is one.
        spare_racks: those that are clean for everybody and nobody's rack cell.
    """

    clean: Mapping[str, str]
    targets: Mapping[str, str]
    missing: Mapping[str, CellCounts]
    racks: Mapping[str, str]
    spare_racks: frozenset[str]

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
    found = _Matcher(tenants, nodes, racks, without, keeps_whole=True).matching()
    if not found.missing:
        return found
    most = _Matcher(tenants, nodes, racks, without, keeps_whole=False).matching()
    return most if is_worse(found.missing_in_all(), most.missing_in_all()) else found


class _Matcher:
    """The steps of `match`: racks, nodes, then targets for what is missing. Tenants in the order of their ids."""

    def __init__(
        self,
        tenants: Mapping[str, CellCounts],
        nodes: Sequence[Standing],
        racks: Collection[str],
        without: str | None,
        *,
        keeps_whole: bool,
    ) -> None:
        self._keeps_whole = keeps_whole
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
        self._rack_cells: dict[str, str] = {}

    def matching(self) -> Matching:
        """All steps."""
        racks, spare_racks = self._match_racks()
        nodes = self._match_nodes()
        for tenant in self._tenants:
            if racks[tenant] or nodes[tenant]:
                self._missing[tenant] = CellCounts(nodes[tenant], racks[tenant])
        if self._missing:
            self._choose_targets()
        return Matching(self._clean, self._targets, self._missing, self._rack_cells, frozenset(spare_racks))

    # --- racks ----------------------------------------------------------------------------------------------------

    def _match_racks(self) -> tuple[dict[str, int], list[str]]:
        """Match rack cells; returns how many of each tenant are missing, and which clean racks are left.

        First the racks of its own that a tenant's use makes its rack cells, or all where whole ones are not kept; then
        more of them where what is clean for everybody is too little for all; then what is clean for everybody.
        """
        bound = {name: frozenset().union(*(node.bound for node in nodes)) for name, nodes in self._racks.items()}
        missing = {tenant: counts.rack for tenant, counts in self._tenants.items()}
        blank = [name for name in self._racks if not bound[name]]
        own = {tenant: [name for name in self._racks if bound[name] == {tenant}] for tenant in self._tenants}
        wanted = {tenant: self._wanted(tenant, [*names, *blank]) for tenant, names in own.items()}
        for tenant, names in own.items():
            names.sort(key=lambda name: (name not in wanted[tenant], *self._use_key(name, tenant)))
            while names and missing[tenant] and (names[0] in wanted[tenant] or not self._keeps_whole):
                self._take_rack_cell(names.pop(0), tenant, missing)
        for tenant, names in own.items():
            while names and missing[tenant] and sum(missing.values()) > len(blank):
                self._take_rack_cell(names.pop(0), tenant, missing)
        for tenant in self._tenants:
            blank.sort(key=lambda name: self._blank_rack_key(name, tenant, wanted[tenant]))
            while blank and missing[tenant]:
                self._take_rack_cell(blank.pop(0), tenant, missing)
        return missing, blank

    def _wanted(self, tenant: str, racks: Sequence[str]) -> set[str]:
        """Those of some racks that a tenant's own use makes its rack cells, clean as they are."""
        counts = self._tenants[tenant]
        if not counts.rack or not self._keeps_whole:
            return set()
        clean = (node for node in self._nodes if node.counts and node.is_clean_for(tenant))
        on_nodes = sum(1 for node in clean if node.is_used_by(tenant))
        found: set[str] = set()
        for name in sorted(racks, key=lambda name: self._use_key(name, tenant)):
            is_needed = self._has_gang(name, tenant) or on_nodes > counts.node
            number = self._number_used(name, tenant)
            if not number or not is_needed or len(found) == counts.rack:
                break
            found.add(name)
            on_nodes -= number
        return found

    def _use_key(self, rack: str, tenant: str) -> tuple[object, ...]:
        """Where a workload of the tenant's has several nodes first, if whole ones are kept; then where most of its own
        is, that others can't have.
        """
        return (
            self._keeps_whole and not self._has_gang(rack, tenant),
            -(self._number_used(rack, tenant) if self._keeps_whole else self._number_bound(rack)),
            self._holds_left_out(rack),
            rack,
        )

    def _has_gang(self, rack: str, tenant: str) -> bool:
        return any(tenant in node.gangs for node in self._racks[rack])

    def _number_used(self, rack: str, tenant: str) -> int:
        return sum(1 for node in self._racks[rack] if node.counts and node.is_used_by(tenant))

    def _number_bound(self, rack: str) -> int:
        return sum(1 for node in self._racks[rack] if node.counts and node.bound)

    def _holds_left_out(self, rack: str) -> bool:
        return any(node.name == self._without for node in self._racks[rack])

    def _blank_rack_key(self, rack: str, tenant: str, wanted: Collection[str]) -> tuple[object, ...]:
        """Those that its own use makes its own, then whole ones; where fewest funded runs would have to leave, then
        where least could be had.
        """
        nodes = self._racks[rack]
        return (
            self._holds_left_out(rack),
            any(node.has_window for node in nodes),
            rack not in wanted,
            sum(1 for node in nodes if tenant in node.over),
            sum(1 for node in nodes if node.over - {tenant}),
            sum(node.open_milli for node in nodes),
            rack,
        )

    def _take_rack_cell(self, rack: str, tenant: str, missing: dict[str, int]) -> None:
        self._rack_cells[rack] = tenant
        missing[tenant] -= 1
        self._take_rack(rack, tenant, self._clean)

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
