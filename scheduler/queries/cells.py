"""What pages say of cells: what a budget node has, since when, what of it is in use, and what could be granted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

from budgets import queries
from budgets.models import BudgetNode, Cluster, LedgerEntry
from scheduler.engine import NO_CELLS, CellCounts, Layout, still_grantable
from scheduler.engine import Node as Host
from scheduler.models import WHOLE_DEVICE_MILLI, Holding
from scheduler.services import cells
from scheduler.services.cells import Fault, Holder, Holders


@dataclass(frozen=True, slots=True)
class Told:
    """What there is to say of one node's cells on a cluster. `depth` is the node's own.

    `other` is the node above or below that has cells, so that this one can have none. `nodes` is how many nodes its
    cells come to, `used` those of them that it uses now, by name; both in thousandths of devices: `devices_milli` is
    what the cells come to, `entitled_milli` what its share does today. `grantable` is what could come to it beside what
    it has.
    """

    cells: CellCounts
    depth: int
    other: Holder | None
    grantable: CellCounts
    nodes: int
    used: Sequence[str]
    devices_milli: int
    entitled_milli: Fraction
    faults: Sequence[Fault]

    @property
    def is_other_below(self) -> bool:
        """Whether what has cells already is below this node."""
        return self.other is not None and len(self.other.path) > self.depth

    @property
    def is_over_entitlement(self) -> bool:
        """Whether the cells come to more than the share."""
        return self.devices_milli > self.entitled_milli


class Spoken(NamedTuple):
    """What of a whole cluster is granted: the nodes that it comes to of those that could be, to whom, and which nodes
    they use now, by name.
    """

    nodes: int
    of_nodes: int
    holders: Sequence[Holder]
    grantable: CellCounts
    bound: dict[str, Holder]
    faults: Sequence[Fault]


def told_with(node: BudgetNode, cluster: Cluster, entitlement: Fraction) -> Told:
    """Of one node, that is entitled to so much of the cluster today. Two queries; one more where it has cells."""
    holders, floor = cells.holders_on(cluster), cells.floor_of(cluster)
    layout, own = floor.layout, holders.get(node.pk)
    has = own.cells if own else NO_CELLS
    nodes = nodes_of(has, layout)
    bound = bound_on(cluster, holders, layout) if own else {}
    return Told(
        cells=has,
        depth=len(node.path),
        other=cells.above_or_below(node.path, holders),
        grantable=still_grantable(layout, [each.cells for each in holders.values()]),
        nodes=nodes,
        used=[name for name, whose in bound.items() if whose.pk == node.pk],
        devices_milli=nodes * usual_milli(layout, floor.hosts),
        entitled_milli=entitlement * sum(host.capacity_milli for host in floor.hosts),
        faults=[each for each in cells.faults(floor, holders) if own in each.holders],
    )


def told_of(node: BudgetNode, cluster: Cluster) -> Told:
    """The same, where it is not known yet what the node is entitled to."""
    return told_with(node, cluster, queries.entitlement_on(node, cluster, queries.today()))


def spoken_on(cluster: Cluster) -> Spoken | None:
    """Of a whole cluster; None where nobody has cells, by one query."""
    holders = cells.holders_on(cluster)
    if not holders:
        return None
    floor = cells.floor_of(cluster)
    layout = floor.layout
    return Spoken(
        nodes=sum(nodes_of(each.cells, layout) for each in holders.values()),
        of_nodes=layout.number_of_nodes,
        holders=sorted(holders.values(), key=lambda each: each.code),
        grantable=still_grantable(layout, [each.cells for each in holders.values()]),
        bound=bound_on(cluster, holders, layout),
        faults=cells.faults(floor, holders),
    )


def whose_now(cluster: Cluster) -> dict[str, str]:
    """Of each node that is somebody's cell now: by its name, the code of whose. One query where nobody has cells."""
    holders = cells.holders_on(cluster)
    if not holders:
        return {}
    return {name: each.code for name, each in bound_on(cluster, holders, cells.floor_of(cluster).layout).items()}


def bound_on(cluster: Cluster, holders: Holders, layout: Layout) -> dict[str, Holder]:
    """The nodes that are these holders' cells now, by name: of those that only one uses, funded, as many as it has
    cells, racks first, from where it uses most. What was told to leave counts as gone. One query.
    """
    held = Holding.objects.filter(node__cluster=cluster, released_at=None, run__funded=True, run__stop_asked_at=None)
    found: dict[str, set[int | None]] = {}
    for name, path in held.order_by("node__name").values_list("node__name", "run__leaf__path").distinct():
        found.setdefault(name, set()).add(next((pk for pk in path if pk in holders), None))
    alone = {name: whose.pop() for name, whose in found.items() if len(whose) == 1}
    bound: dict[str, Holder] = {}
    for pk, holder in holders.items():
        bound.update(dict.fromkeys(chosen([name for name in alone if alone[name] == pk], holder.cells, layout), holder))
    return dict(sorted(bound.items()))


def chosen(names: Sequence[str], has: CellCounts, layout: Layout) -> list[str]:
    """Those of the nodes in use that are cells."""
    left = set(names)
    in_racks = [left.intersection(layout.nodes[rack]) for rack in layout.racks]
    racks = sorted(filter(None, in_racks), key=lambda each: (-len(each), min(each)))[: has.rack]
    others = sorted(left.intersection(layout.names).difference(*racks))
    return [*(name for each in racks for name in sorted(each)), *others[: has.node]]


def last_entry(node: BudgetNode, cluster: Cluster, before: datetime | None = None) -> LedgerEntry | None:
    """Who decided last what cells a node has; or last before an instant."""
    entries = LedgerEntry.objects.filter(verb="cells.changed", node_id=node.pk, cluster_name=cluster.name)
    return (entries if before is None else entries.filter(at__lt=before)).first()


def nodes_of(has: CellCounts, layout: Layout) -> int:
    """How many nodes these cells come to."""
    return has.node + has.rack * layout.rack_nodes


def usual_milli(layout: Layout, hosts: Sequence[Host]) -> int:
    """What the smallest node that counts has; of larger ones no more is promised."""
    counting = layout.names
    return min((host.capacity_milli for host in hosts if host.name in counting), default=WHOLE_DEVICE_MILLI)
