"""Fairness over a time: what the children of a node were owed and got, level by level, and who waited longest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from budgets.models import BudgetNode, Cluster
from scheduler.queries import usage
from scheduler.queries.usage import Books

LONGEST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Line:
    """A child of the node, with its books; `has_children` says whether there is a level below."""

    node: BudgetNode
    books: Books
    has_children: bool


@dataclass(frozen=True, slots=True)
class LongWait:
    """A workload that waited in the window: until its first start, or until now."""

    code: str
    leaf: str
    workload_class: str
    size_milli: int
    submitted_at: datetime
    started_at: datetime | None
    wait_s: int


@dataclass(frozen=True, slots=True)
class Fairness:
    """One level of the tree: its children, and the books of the node that they hang under."""

    parent: BudgetNode
    lines: Sequence[Line]
    own: Books

    @property
    def delivery(self) -> float | None:
        """Of this level: of what was owed to each child how much was given to it, 0 to 1; None where nothing was."""
        owed = sum(line.books.owed_milli_s for line in self.lines)
        given = sum(min(line.books.charged_milli_s, line.books.owed_milli_s) for line in self.lines)
        return given / owed if owed else None


def fairness(parent: BudgetNode, cluster: Cluster, start: datetime, end: datetime) -> Fairness:
    """The children of `parent` that were entitled to something or used something, by code. Three queries."""
    children = list(BudgetNode.objects.filter(parent=parent).order_by("code"))
    below = set(BudgetNode.objects.filter(parent__in=children).values_list("parent", flat=True))
    books = usage.totals([parent, *children], cluster, start, end)
    lines = [
        Line(child, books[child.pk], child.pk in below)
        for child in children
        if books[child.pk] != Books() or not child.is_closed
    ]
    return Fairness(parent, lines, books[parent.pk])


LONGEST_SQL = """
SELECT w.code, n.code, w.workload_class, w.size_milli, w.submitted_at, w.first_started_at,
    extract(epoch FROM coalesce(w.first_started_at, %(now)s) - w.submitted_at)::bigint AS wait_s
FROM scheduler_workload w JOIN budgets_budgetnode n ON n.id = w.leaf_id
WHERE w.cluster_id = %(cluster)s AND n.path @> ARRAY[%(node)s]::bigint[] AND w.min_runtime_s > 0 AND (
    (w.first_started_at >= %(start)s AND w.first_started_at < %(end)s)
    OR (w.state = 'queued' AND w.first_started_at IS NULL AND w.submitted_at < %(end)s))
ORDER BY wait_s DESC, w.code LIMIT %(limit)s"""


def waited_longest(node: BudgetNode, cluster: Cluster, start: datetime, end: datetime, now: datetime) -> list[LongWait]:
    """Funded workloads at or below `node` that first started in [start, end), or have not started yet, by how long they
    waited. One query.
    """
    values: dict[str, Any] = {
        "cluster": cluster.pk, "node": node.pk, "start": start, "end": end, "now": now, "limit": LONGEST_SHOWN,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(LONGEST_SQL, values)
        return [LongWait(*row) for row in cursor]
