"""Squatting: devices that are held and do nothing, and what that costs the team whose budget holds them.

A run squats in an hour in which its nodes measured it for at least MEASURED_MIN_S and its devices were less than
IDLE_BELOW_PERCENT busy. Its cost is the device time of those hours that was measured and not used. What was not
measured is never counted as idle. Amounts are thousandths of the unit times seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from budgets.models import BudgetNode
from scheduler.queries.behind import Listed, Window

IDLE_BELOW_PERCENT = 5
MEASURED_MIN_S = 600


@dataclass(frozen=True, slots=True)
class TeamIdle:
    """What of a node's subtree was held, was measured, and stood idle by squatting; by how many workloads."""

    held_milli_s: int = 0
    measured_milli_s: int = 0
    idle_milli_s: int = 0
    workloads: int = 0

    @property
    def share(self) -> float | None:
        """Idle over measured; None where nothing was measured."""
        return self.idle_milli_s / self.measured_milli_s if self.measured_milli_s else None


@dataclass(frozen=True, slots=True)
class PersonIdle:
    """The same of one person's workloads."""

    person_id: int
    name: str
    idle_milli_s: int
    workloads: int


@dataclass(frozen=True, slots=True)
class Squat:
    """A workload that squatted: how long, what it cost, and whether it holds its devices still."""

    code: str
    leaf_id: int
    owner: str
    state: str
    size_milli: int
    idle_milli_s: int
    hours: int
    last_at: datetime


IDLE = f"""
idle AS (
    SELECT u.run_id, u.hour, u.measured_milli_s - u.busy_milli_s AS milli_s, r.workload_id, r.path, r.leaf_id
    FROM scheduler_utilizationhour u JOIN scheduler_run r ON r.id = u.run_id
    WHERE u.cluster_id = %(cluster)s AND u.hour >= %(start)s AND u.hour < %(end)s
        AND u.busy_milli_s * 100 < u.measured_milli_s * {IDLE_BELOW_PERCENT}
        AND u.measured_milli_s >= r.size_milli * {MEASURED_MIN_S}
)"""

TEAMS_SQL = f"""
WITH {IDLE}, measured AS (
    SELECT p.node, sum(x.milli_s)::bigint AS milli_s
    FROM (
        SELECT run_id, sum(measured_milli_s) AS milli_s FROM scheduler_utilizationhour
        WHERE cluster_id = %(cluster)s AND hour >= %(start)s AND hour < %(end)s GROUP BY run_id
    ) x JOIN scheduler_run r ON r.id = x.run_id CROSS JOIN unnest(r.path) p(node)
    WHERE p.node = ANY(%(nodes)s::bigint[]) GROUP BY p.node
), stood AS (
    SELECT p.node, sum(i.milli_s)::bigint AS milli_s, count(DISTINCT i.workload_id) AS workloads
    FROM idle i CROSS JOIN unnest(i.path) p(node) WHERE p.node = ANY(%(nodes)s::bigint[]) GROUP BY p.node
), held AS (
    SELECT u.node_id AS node, sum(u.charged_milli_s + u.uncharged_milli_s)::bigint AS milli_s
    FROM scheduler_usagehour u
    WHERE u.cluster_id = %(cluster)s AND u.node_id = ANY(%(nodes)s) AND u.hour >= %(start)s AND u.hour < %(end)s
    GROUP BY u.node_id
)
SELECT t.node, coalesce(h.milli_s, 0), coalesce(m.milli_s, 0), coalesce(s.milli_s, 0), coalesce(s.workloads, 0)
FROM unnest(%(nodes)s::bigint[]) t(node) LEFT JOIN held h ON h.node = t.node LEFT JOIN measured m ON m.node = t.node
LEFT JOIN stood s ON s.node = t.node"""

# Whose figures a person may see: their own, and those of people in nodes that they manage.
_THEIRS = "(w.owner_id = %(person)s OR n.path && %(managed)s::bigint[])"
_NAME = "coalesce(nullif(p.display_name, ''), p.username, '')"

WORKLOADS_SQL = f"""
WITH {IDLE}, stood AS (
    SELECT workload_id, sum(milli_s)::bigint AS milli_s, count(DISTINCT hour) AS hours, max(hour) AS last_at
    FROM idle GROUP BY workload_id
)
SELECT w.code, w.leaf_id, {_NAME}, w.state, w.size_milli, s.milli_s, s.hours, s.last_at, count(*) OVER ()
FROM stood s JOIN scheduler_workload w ON w.id = s.workload_id JOIN budgets_budgetnode n ON n.id = w.leaf_id
LEFT JOIN budgets_person p ON p.id = w.owner_id
WHERE {_THEIRS} AND n.path @> ARRAY[%(node)s]::bigint[]
ORDER BY s.milli_s DESC, w.code LIMIT %(limit)s OFFSET %(offset)s"""

PEOPLE_SQL = f"""
WITH {IDLE}
SELECT w.owner_id, {_NAME}, sum(i.milli_s)::bigint, count(DISTINCT w.id)
FROM idle i JOIN scheduler_workload w ON w.id = i.workload_id JOIN budgets_budgetnode n ON n.id = w.leaf_id
JOIN budgets_person p ON p.id = w.owner_id
WHERE {_THEIRS} AND n.path @> ARRAY[%(node)s]::bigint[]
GROUP BY 1, 2 ORDER BY 3 DESC, 2 LIMIT 50"""


def by_node(nodes: Sequence[BudgetNode], window: Window) -> Mapping[int, TeamIdle]:
    """What stood idle of each node's subtree: team figures, for everybody. One query."""
    values = window.values(1, nodes=[node.pk for node in nodes])
    with connection.cursor() as cursor:
        cursor.execute(TEAMS_SQL, values)
        return {pk: TeamIdle(*figures) for pk, *figures in cursor}


def workloads(
    node: BudgetNode, window: Window, page: int, *, person_id: int, managed: Collection[int]
) -> Listed[Squat]:
    """Workloads at or below `node` that squatted, the costliest first: the person's own, and those of the nodes that
    they manage. One query.
    """
    values = _theirs(node, window, page, person_id, managed)
    with connection.cursor() as cursor:
        cursor.execute(WORKLOADS_SQL, values)
        rows = cursor.fetchall()
    return Listed([Squat(*row[:-1]) for row in rows], rows[0][-1] if rows else 0)


def people(node: BudgetNode, window: Window, *, person_id: int, managed: Collection[int]) -> list[PersonIdle]:
    """The same by person, at most 50: nobody's figures but the person's own, and those of whom they manage.

    One query.
    """
    with connection.cursor() as cursor:
        cursor.execute(PEOPLE_SQL, _theirs(node, window, 1, person_id, managed))
        return [PersonIdle(*row) for row in cursor]


def _theirs(node: BudgetNode, window: Window, page: int, person_id: int, managed: Collection[int]) -> dict[str, Any]:
    return window.values(page, node=node.pk, person=person_id, managed=list(managed))
