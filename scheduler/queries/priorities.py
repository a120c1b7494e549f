"""Priorities inside a team: whether they still order anything.

A priority compares workloads of one leaf with each other and means nothing outside it (semantics.md section 3). Where
nearly all of a leaf have the same high one, it orders nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from budgets.models import BudgetNode, Cluster

JUDGED_FROM = 5
"""Fewer workloads than that are no pattern."""
ALL_PERCENT = 90
"""So many of a leaf's workloads with a raised priority are "all"."""


@dataclass(frozen=True, slots=True)
class Rank:
    """The workloads of one leaf with one priority: how many wait, run, and were submitted in the window."""

    priority: int
    waiting: int
    running: int
    submitted: int
    held_milli_s: int


@dataclass(frozen=True, slots=True)
class LeafPriorities:
    """One leaf: its priorities from high to low. Raised is what is above 0, the priority of who says nothing."""

    leaf: BudgetNode
    ranks: Sequence[Rank]

    @property
    def submitted(self) -> int:
        """Workloads of the window."""
        return sum(rank.submitted for rank in self.ranks)

    @property
    def raised(self) -> int:
        """Of them, with a priority above 0."""
        return sum(rank.submitted for rank in self.ranks if rank.priority > 0)

    @property
    def all_raised(self) -> bool:
        """Whether nearly all are raised, so that raising means nothing."""
        return self.submitted >= JUDGED_FROM and 100 * self.raised >= ALL_PERCENT * self.submitted


@dataclass(frozen=True, slots=True)
class PersonPriorities:
    """How one person of the node uses priorities: workloads of the window, and of them raised."""

    person_id: int
    name: str
    submitted: int
    raised: int


RANKS_SQL = """
SELECT w.leaf_id, w.priority, count(*) FILTER (WHERE w.state IN ('queued', 'held')),
    count(*) FILTER (WHERE w.state IN ('starting', 'running', 'leaving', 'unreachable')),
    count(*) FILTER (WHERE w.submitted_at >= %(start)s AND w.submitted_at < %(end)s AND w.state <> 'refused'),
    coalesce(sum(h.milli_s), 0)::bigint
FROM scheduler_workload w JOIN budgets_budgetnode n ON n.id = w.leaf_id
LEFT JOIN LATERAL (
    SELECT sum(r.size_milli * extract(epoch FROM least(coalesce(r.ended_at, %(now)s), %(end)s)
        - greatest(r.started_at, %(start)s)))::bigint AS milli_s
    FROM scheduler_run r
    WHERE r.workload_id = w.id AND r.started_at < %(end)s AND (r.ended_at IS NULL OR r.ended_at > %(start)s)
) h ON true
WHERE w.cluster_id = %(cluster)s AND n.path @> ARRAY[%(node)s]::bigint[]
    AND (w.ended_at IS NULL OR w.ended_at > %(start)s) AND w.submitted_at < %(end)s
GROUP BY 1, 2 ORDER BY 1, 2 DESC"""

PEOPLE_SQL = """
SELECT w.owner_id, coalesce(nullif(p.display_name, ''), p.username), count(*), count(*) FILTER (WHERE w.priority > 0)
FROM scheduler_workload w JOIN budgets_budgetnode n ON n.id = w.leaf_id JOIN budgets_person p ON p.id = w.owner_id
WHERE w.cluster_id = %(cluster)s AND n.path @> ARRAY[%(node)s]::bigint[] AND w.state <> 'refused'
    AND w.submitted_at >= %(start)s AND w.submitted_at < %(end)s AND (%(all)s OR w.owner_id = %(person)s)
GROUP BY 1, 2 ORDER BY 4 DESC, 3 DESC, 2 LIMIT 50"""


def by_leaf(node: BudgetNode, cluster: Cluster, start: datetime, end: datetime, now: datetime) -> list[LeafPriorities]:
    """The priorities of every leaf at or below `node` that had work in [start, end). Two queries."""
    ranks: dict[int, list[Rank]] = {}
    values: dict[str, Any] = {"cluster": cluster.pk, "node": node.pk, "start": start, "end": end, "now": now}
    with connection.cursor() as cursor:
        cursor.execute(RANKS_SQL, values)
        for leaf_id, *figures in cursor:
            ranks.setdefault(leaf_id, []).append(Rank(*figures))
    leaves: Mapping[int, BudgetNode] = BudgetNode.objects.in_bulk(list(ranks))
    ordered = sorted(ranks, key=lambda pk: leaves[pk].path)
    return [LeafPriorities(leaves[pk], ranks[pk]) for pk in ordered]


def by_person(
    node: BudgetNode, cluster: Cluster, start: datetime, end: datetime, *, only: int | None
) -> list[PersonPriorities]:
    """How people used priorities in [start, end); at most 50 of them, who raised most first. One query.

    Args:
        node, cluster, start, end: where and when.
        only: one person's id, for those who may see no other's figures; None for all.
    """
    values: dict[str, Any] = {
        "cluster": cluster.pk, "node": node.pk, "start": start, "end": end, "all": only is None, "person": only,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(PEOPLE_SQL, values)
        return [PersonPriorities(*row) for row in cursor]
