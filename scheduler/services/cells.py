"""Cells of budget nodes: whole nodes and racks that are theirs alone on a cluster, beside their shares.

Whoever decides a node's share decides its cells. They are for all below it, so no node above or below one with cells
has others. They have to fit the cluster's nodes when they are granted; where nodes go or break down later, nothing is
withdrawn by itself, and it is said what is not there (`faults_of`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.db import transaction
from django.db.models import Count, F
from django.utils.translation import gettext, ngettext

from budgets.errors import ConflictError, InputError
from budgets.models import BudgetNode, CellGrant, Cluster, Person
from budgets.services import cells as rows
from budgets.services import checks
from scheduler.engine import NO_CELLS, CellCounts, Layout, layout_of, unmatched
from scheduler.engine import Node as Host
from scheduler.models import WHOLE_DEVICE_MILLI, Node

MOST = 10_000
"""Cells of one level that can be asked for."""
NAMED = 4
"""So many budget nodes a sentence names."""
LEVELS = ("rack", "node")
"""From the larger to the smaller: what is short of racks is said so, and not in nodes."""


class Holder(NamedTuple):
    """A budget node with cells. `path` are the ids from the root down to it."""

    pk: int
    code: str
    path: Sequence[int]
    cells: CellCounts


Holders = Mapping[int, Holder]
"""By the node's id."""


class Fault(NamedTuple):
    """Cells of one level that `holders` have and that are not there.

    For `short` of them the cluster has too few nodes, fit or not, since nodes have gone or moved. So many more,
    `unfit`, could not be cleared today, whoever left, since nodes have broken down or are to be emptied.
    """

    level: str
    short: int
    unfit: int
    holders: Sequence[Holder]

    @property
    def missing(self) -> int:
        """How many can't be had today."""
        return self.short + self.unfit


class Floor(NamedTuple):
    """A cluster's nodes with what they have, the names of those that are not fit or are to be emptied, and what of them
    all can be granted, fit or not.
    """

    hosts: Sequence[Host]
    unfit: frozenset[str]
    layout: Layout


# --- what is granted, and what there is -------------------------------------------------------------------------------


def on(cluster: Cluster) -> dict[int, rows.Counts]:
    """The cells of all nodes of a cluster that have any, by the node's id; a level that is not there has none. One
    query.
    """
    return {
        pk: {level: count for level, count in holder.cells._asdict().items() if count}
        for pk, holder in holders_on(cluster).items()
    }


def of_node(node: BudgetNode, cluster: Cluster) -> CellCounts:
    """One node's. One query."""
    return NO_CELLS._replace(**dict(CellGrant.objects.filter(node=node, cluster=cluster).values_list("level", "count")))


def holders_on(cluster: Cluster) -> dict[int, Holder]:
    """All nodes that have cells on a cluster, by their ids. One query."""
    found: dict[int, Holder] = {}
    grants = CellGrant.objects.filter(cluster=cluster).order_by("node_id", "level")
    for pk, code, path, level, count in grants.values_list("node_id", "node__code", "node__path", "level", "count"):
        cells = found[pk].cells if pk in found else NO_CELLS
        found[pk] = Holder(pk, code, path, cells._replace(**{level: count}))
    return found


def floor_of(cluster: Cluster) -> Floor:
    """The cluster's nodes; those that are retired do not count. One query."""
    known = Node.objects.filter(cluster=cluster, retired_at=None).annotate(count=Count("devices")).order_by("name")
    hosts, unfit = [], set()
    for name, rack, count, health, drain_at in known.values_list(
        "name", "rack__name", "count", "health", "drain_asked_at"
    ):
        hosts.append(Host(name, count * WHOLE_DEVICE_MILLI, rack=rack or ""))
        if health != Node.Health.HEALTHY or drain_at is not None:
            unfit.add(name)
    return Floor(hosts, frozenset(unfit), layout_of(hosts))


def above_or_below(path: Sequence[int], holders: Holders) -> Holder | None:
    """The first other node with cells above a node with this path, or below it."""
    for each in sorted(holders.values(), key=lambda holder: (len(holder.path), holder.code)):
        if each.pk != path[-1] and (each.pk in path or path[-1] in each.path):
            return each
    return None


# --- granting ---------------------------------------------------------------------------------------------------------


def set_cells(
    *,
    node: BudgetNode,
    cluster: Cluster,
    cells: CellCounts,
    by: Person | None,
    reason: str = "",
    version: int | None = None,
) -> None:
    """Let a node have these cells on a cluster, and no others, from the next pass on. None of any level withdraws them.

    Who may set the node's share may do it, and as with shares nobody raises what they have a part in. `version` is the
    parent's. What runs on the nodes goes on by its contract, and promises stand. What gives back is never refused for
    want of nodes.

    Raises:
        InputError: `cells.rack` or `cells.node`: no whole number of 0 to 10,000; or so many are not there. `cells`: the
            organisation itself, a closed node, one above or below another one with cells, or a cluster whose Slurm
            decides. ConflictError: the parent was changed since `version`.
        NotAllowed: it isn't theirs to decide.
    """
    if node.parent_id is None:
        raise InputError("cells", gettext("the organisation has the whole cluster"))
    with transaction.atomic():
        parent = checks.locked(BudgetNode(pk=node.parent_id), version)
        checks.allowed(by, "share.change", parent)
        row = parent.children.filter(pk=node.pk).first()
        if row is None:
            raise ConflictError(gettext("{node} was moved meanwhile; look at it again").format(node=node.code))
        _check_counts(cells)
        why = checks.reason(reason, by)
        # Grants of one cluster go one after the other, whoever's children they are for: what is left is counted once.
        Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
        before = holders_on(cluster)
        old = before[row.pk].cells if row.pk in before else NO_CELLS
        if cells == old:
            return
        after = {pk: each for pk, each in before.items() if pk != row.pk}
        if cells != NO_CELLS:
            _check_place(row, cluster, before)
            after[row.pk] = Holder(row.pk, row.code, row.path, cells)
        if by is not None and (cells.node > old.node or cells.rack > old.rack):
            checks.not_own(by, [row])
        _refuse_what_does_not_fit(cluster, before, after)
        rows.put(node=row, cluster=cluster, counts=cells._asdict(), by=by, reason=why)
        BudgetNode.objects.filter(pk=parent.pk).update(version=F("version") + 1)
        checks.announce([cluster.pk])


def _check_counts(cells: CellCounts) -> None:
    for level, count in cells._asdict().items():
        if type(count) is not int or not 0 <= count <= MOST:
            message = gettext("must be a whole number from 0 to {most:,}")
            raise InputError(f"cells.{level}", message.format(most=MOST))


def _check_place(node: BudgetNode, cluster: Cluster, holders: Holders) -> None:
    if node.is_closed:
        raise InputError("cells", gettext("{child} is closed").format(child=node.code))
    if cluster.executor == Cluster.Executor.ADVISED:
        message = gettext("on {cluster} Slurm decides, which knows of no cells")
        raise InputError("cells", message.format(cluster=cluster.name))
    other = above_or_below(node.path, holders)
    if other is not None:
        message = gettext("{other} has cells, which are for all below it: {node} can't have others")
        above, below = (other.code, node.code) if other.pk in node.path else (node.code, other.code)
        if below == other.code:
            message = gettext("{node}, below {other}, has cells of its own: withdraw these first")
        raise InputError("cells", message.format(other=above, node=below))


def _refuse_what_does_not_fit(cluster: Cluster, before: Holders, after: Holders) -> None:
    floor = floor_of(cluster)
    known = {each.level: each.short for each in faults(floor, before)}
    for fault in faults(floor, after):
        if fault.short > known.get(fault.level, 0):
            message = gettext("{cluster}: {amount} short of what {names} would have")
            raise InputError(f"cells.{fault.level}", message.format(**_said(fault, fault.short, cluster)))


# --- what does not fit, also later ------------------------------------------------------------------------------------


def faults(floor: Floor, holders: Holders) -> list[Fault]:
    """What is granted and not there, for good or today: racks before nodes."""
    grants = [each.cells for each in holders.values()]
    short, today = unmatched(floor.layout, grants), unmatched(floor.layout.without(floor.unfit), grants)
    in_order = sorted(holders.values(), key=lambda holder: holder.code)
    return [
        Fault(
            level,
            getattr(short, level),
            max(0, getattr(today, level) - getattr(short, level)),
            in_order if level == "node" else [each for each in in_order if each.cells.rack],
        )
        for level in LEVELS
        if getattr(short, level) or getattr(today, level)
    ]


def faults_of(cluster: Cluster) -> list[Fault]:
    """What is granted on a cluster and not there. No query but one where nobody has cells."""
    holders = holders_on(cluster)
    return faults(floor_of(cluster), holders) if holders else []


def clusters_with_cells() -> list[Cluster]:
    """The clusters on which anybody has any. One query."""
    return list(Cluster.objects.filter(pk__in=CellGrant.objects.values("cluster")))


def sentences(fault: Fault, cluster: Cluster) -> list[str]:
    """A fault that stands, as one says it: what is short, and what is unfit."""
    found = []
    if fault.short:
        message = gettext("{cluster}: {amount} short of what is granted to {names}")
        found.append(message.format(**_said(fault, fault.short, cluster)))
    if fault.unfit:
        message = gettext("{cluster}: {amount} of what is granted to {names} can't be had today: nodes are unfit")
        found.append(message.format(**_said(fault, fault.unfit, cluster)))
    return found


def _said(fault: Fault, count: int, cluster: Cluster) -> dict[str, str]:
    codes = [each.code for each in fault.holders]
    names = ", ".join(codes[:NAMED])
    if len(codes) > NAMED:
        names = gettext("{names} and {number} more").format(names=names, number=len(codes) - NAMED)
    return {"cluster": cluster.name, "amount": amount(fault.level, count), "names": names}


def amount(level: str, count: int) -> str:
    """So many cells of a level."""
    if level == CellGrant.Level.RACK:
        return ngettext("{count:,} rack", "{count:,} racks", count).format(count=count)
    return ngettext("{count:,} whole node", "{count:,} whole nodes", count).format(count=count)


def amounts(cells: CellCounts) -> str:
    """Cells of both levels, as one says them: 2 whole nodes and 1 rack; nothing of none."""
    parts = [amount(level, count) for level, count in cells._asdict().items() if count]
    return gettext("{first} and {last}").format(first=parts[0], last=parts[1]) if len(parts) == 2 else "".join(parts)
