"""Which cells a tenant's workload leaves alone, so that its racks stay whole: buddy allocation.

Work goes to the smallest cell that holds it. A workload of up to a node goes to a node cell with room beside what is
the tenant's own; if there is none, to a rack cell that is in use; and only then to a whole one. A gang that needs a
rack goes to a rack cell, or to a rack that would become the cell in place of a whole one: elsewhere it would leave
none when it ends. So such a gang does not wait for what its own tenant has on single nodes, if node cells would have
held that.

Where the cell has to be left first by unallocated runs, or by others' whose contracts are over, these are told to
leave; but not where a whole rack that is broken up has another in its place. All this is a preference: where cores,
memory, classes or maintenance leave only what would be spared, that is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .cluster import NodeState
from .placing import is_bound_to_rack, is_whole_nodes
from .private import matching_of, standing_of
from .snapshot import Snapshot
from .values import Workload


class Attempt(NamedTuple):
    """One way to look for a place: off the nodes `spared`, and, if `may_take`, by telling others to leave as well."""

    spared: frozenset[str]
    may_take: bool


ANYWHERE = Attempt(frozenset(), may_take=True)


def attempts(snapshot: Snapshot, workload: Workload) -> list[Attempt]:
    """The ways to look for a workload's place, the best first; the last is anywhere."""
    tenant = snapshot.tree.nodes[workload.leaf].tenant if snapshot.tree.tenants else None
    if tenant is None or not workload.min_runtime_s or workload.node is not None:
        return [ANYWHERE]
    if tenant not in matching_of(snapshot).racks.values():
        return [ANYWHERE]
    if not is_whole_nodes(snapshot, workload.size_milli):
        return [*_for_small(snapshot, workload, tenant), ANYWHERE]
    return [*_for_rack(snapshot, tenant), ANYWHERE] if is_bound_to_rack(snapshot, workload) else [ANYWHERE]


def _for_small(snapshot: Snapshot, workload: Workload, tenant: str) -> list[Attempt]:
    """Off rack cells if a node cell has room, else off whole ones if another has."""
    matching, by_name = matching_of(snapshot), snapshot.nodes.by_name
    cells = [by_name[name] for name, owner in matching.clean.items() if owner == tenant]
    in_racks = [node for node in cells if matching.racks.get(node.rack) == tenant]
    used_racks = {node.rack for node in in_racks if standing_of(snapshot, node).is_used_by(tenant)}
    racks = _names(in_racks)
    used = _names(node for node in in_racks if node.rack in used_racks)

    def has_room(among: Iterable[NodeState]) -> bool:
        """Whether there is a cell among these with room beside what is the tenant's own."""
        return any(node.capacity_milli - _own_milli(snapshot, node, tenant) >= workload.size_milli for node in among)

    found: list[Attempt] = []
    if has_room(node for node in cells if node.name not in racks):
        if matching.spare_racks:
            found += [Attempt(racks, may_take=False), Attempt(used, may_take=False)]
        found.append(Attempt(racks, may_take=True))
    if has_room(by_name[name] for name in used):
        whole = racks - used
        if matching.spare_racks:
            found += [Attempt(whole, may_take=False), Attempt(frozenset(), may_take=False)]
        found.append(Attempt(whole, may_take=True))
    return found


def _for_rack(snapshot: Snapshot, tenant: str) -> list[Attempt]:
    """On free nodes of rack cells and of racks that would become cells, else by clearing a rack cell."""
    matching, nodes = matching_of(snapshot), snapshot.nodes.by_name.values()
    own = {rack for rack, owner in matching.racks.items() if owner == tenant}
    off_cells = _names(node for node in nodes if node.rack not in own)
    off_spare = _names(node for node in nodes if node.rack not in own | matching.spare_racks)
    return [Attempt(off_spare, may_take=False), Attempt(off_cells, may_take=True)]


def _names(nodes: Iterable[NodeState]) -> frozenset[str]:
    return frozenset(node.name for node in nodes)


def _own_milli(snapshot: Snapshot, node: NodeState, tenant: str) -> int:
    """What of a node a tenant's funded work holds, is to hold by a plan, or was promised."""
    runs_milli = sum(
        run.holdings[node.name]
        for run in node.runs.values()
        if run.funded and run.leave_by_s is None and run.leaf.tenant == tenant
    )
    planned = [(claim.workload, claim.holdings) for claim in node.claims]
    planned += [(promise.workload, promise.holdings) for promise in node.reservations]
    return runs_milli + sum(
        holdings[node.name]
        for workload_id, holdings in planned
        if snapshot.tree.nodes[snapshot.queued[workload_id].leaf].tenant == tenant
    )
