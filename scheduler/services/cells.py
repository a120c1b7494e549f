"""Cells of budget nodes: whole nodes and racks that are theirs alone on a cluster, beside their shares."""

from __future__ import annotations

from budgets.models import CellGrant, Cluster

Counts = dict[str, int]
"""How many cells by level, "node" and "rack"; a level that is not there has none."""


def on(cluster: Cluster) -> dict[int, Counts]:
    """The cells of all nodes of a cluster that have any, by the node's id."""
    found: dict[int, Counts] = {}
    rows = CellGrant.objects.filter(cluster=cluster).values_list("node_id", "level", "count")
    for pk, level, count in rows.order_by("node_id", "level"):
        found.setdefault(pk, {})[level] = count
    return found
