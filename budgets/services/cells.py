"""Rows of cells, and their entries in the ledger.

Whether cells fit a cluster is asked where its nodes are known (`scheduler.services.cells`); here nobody is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from budgets.models import BudgetNode, CellGrant, Cluster, Person
from budgets.services import checks, ledger

Counts = dict[str, int]
"""How many cells, by each level."""


def nothing() -> Counts:
    """No cells of any level."""
    return dict.fromkeys(CellGrant.Level.values, 0)


def put(*, node: BudgetNode, cluster: Cluster, counts: Mapping[str, int], by: Person | None, reason: str) -> None:
    """Store how many cells of each level are a node's own, with an entry. The caller holds the locks and the right."""
    before = nothing() | dict(CellGrant.objects.filter(node=node, cluster=cluster).values_list("level", "count"))
    after = nothing() | dict(counts)
    if after == before:
        return
    for level, count in after.items():
        rows = CellGrant.objects.filter(node=node, cluster=cluster, level=level)
        if not count:
            rows.delete()
        elif not rows.update(count=count):
            CellGrant.objects.create(node=node, cluster=cluster, level=level, count=count)
    ledger.record(verb="cells.changed", node=node, cluster=cluster, by=by, before=before, after=after, reason=reason)


def end_cells(*, nodes: Iterable[BudgetNode], by: Person | None, reason: str) -> None:
    """Withdraw all cells of these nodes, on every cluster.

    Part of closing and of moving nodes; the caller holds the locks and the right.
    """
    held = CellGrant.objects.filter(node__in=list(nodes)).select_related("node", "cluster")
    for node, cluster in {(row.node, row.cluster): None for row in held}:
        put(node=node, cluster=cluster, counts={}, by=by, reason=checks.reason(reason, by))
