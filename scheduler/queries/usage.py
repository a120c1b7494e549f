"""Usage against entitlement over time: the books of a budget node on one cluster (semantics.md section 10).

Read from the hourly cache. Amounts are thousandths of the unit times seconds. Hours are balanced one by one, then added
up, so the books of a day or of four weeks balance as well, to the unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from operator import add, attrgetter
from typing import Any

from django.db import connection

from budgets import queries as budget_queries
from budgets.models import BudgetNode, Cluster
from scheduler.models import UsageHour

HOUR = timedelta(hours=1)


class Step(StrEnum):
    """How long a point of a series is. A day is the organisation's."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Books:
    """entitled = within + not_delivered + not_asked + in_repair; borrowed and uncharged stand beside it.

    Attributes:
        within_milli_s: delivered, up to the entitlement.
        not_delivered_milli_s: owed (there was demand, and healthy devices to meet it) and not given.
        not_asked_milli_s: nobody asked.
        in_repair_milli_s: its part of the devices that were not healthy.
        borrowed_milli_s: delivered above the entitlement.
        uncharged_milli_s: held by unallocated runs.
        demand_milli_s: asked for by funded workloads.
        owed_milli_s: the smaller of demand and what it was entitled to of the healthy devices.
    """

    entitled_milli_s: int = 0
    within_milli_s: int = 0
    not_delivered_milli_s: int = 0
    not_asked_milli_s: int = 0
    in_repair_milli_s: int = 0
    borrowed_milli_s: int = 0
    uncharged_milli_s: int = 0
    demand_milli_s: int = 0
    owed_milli_s: int = 0

    @property
    def charged_milli_s(self) -> int:
        """All that was delivered and charged."""
        return self.within_milli_s + self.borrowed_milli_s

    @property
    def delivery(self) -> float | None:
        """How much of what was owed was given, 0 to 1; None where nothing was owed."""
        return min(self.charged_milli_s, self.owed_milli_s) / self.owed_milli_s if self.owed_milli_s else None

    def __add__(self, other: Books) -> Books:
        """Both together."""
        return Books(*map(add, _AMOUNTS(self), _AMOUNTS(other)))


_AMOUNTS = attrgetter(*(field.name for field in fields(Books)))
"""All amounts of books, in order."""


@dataclass(frozen=True, slots=True)
class Point:
    """The books from `start` to `end`; `hours` is how many of its hours are in the cache."""

    start: datetime
    end: datetime
    hours: int
    books: Books


@dataclass(frozen=True, slots=True)
class Series:
    """The points that are known, in order of time, and their sum."""

    step: Step
    points: Sequence[Point]
    total: Books


def balance(*, charged: int, uncharged: int, demand: int, entitled: int, available: int) -> Books:
    """The books of one hour. `available` is the entitlement to the devices that were healthy, at most `entitled`.

    What is left of the entitlement when the delivered is taken off goes, in this order, to what was owed and not
    given, to what was in repair, and to what nobody asked for. (What was lent by others while own devices were in
    repair is not counted as lost.)
    """
    within = min(charged, entitled)
    owed = min(available, demand)
    not_delivered = max(0, owed - charged)
    in_repair = min(entitled - available, entitled - within - not_delivered)
    return Books(
        entitled_milli_s=entitled,
        within_milli_s=within,
        not_delivered_milli_s=not_delivered,
        not_asked_milli_s=entitled - within - not_delivered - in_repair,
        in_repair_milli_s=in_repair,
        borrowed_milli_s=charged - within,
        uncharged_milli_s=uncharged,
        demand_milli_s=demand,
        owed_milli_s=owed,
    )


def series(node: BudgetNode, cluster: Cluster, start: datetime, end: datetime, step: Step | str = Step.HOUR) -> Series:
    """The books of a node over the hours that begin in [start, end), by hour or by the organisation's days.

    Hours that are not in the cache (before the cluster's history, or after the last roll-up) make no points.
    One query.
    """
    step = Step(step)
    rows = UsageHour.objects.filter(node=node, cluster=cluster, hour__gte=start, hour__lt=end).order_by("hour")
    hours = [
        (
            hour,
            balance(charged=charged, uncharged=uncharged, demand=demand, entitled=entitled, available=available),
        )
        for hour, charged, uncharged, demand, entitled, available in rows.values_list(
            "hour", "charged_milli_s", "uncharged_milli_s", "demand_milli_s", "entitled_milli_s", "available_milli_s"
        )
    ]
    points: list[Point] = []
    for hour, books in hours:
        begin = hour if step is Step.HOUR else max(start, budget_queries.midnight(budget_queries.day_of(hour)))
        if points and points[-1].start == begin:
            last = points[-1]
            points[-1] = Point(begin, hour + HOUR, last.hours + 1, last.books + books)
        else:
            points.append(Point(begin, hour + HOUR, 1, books))
    return Series(step, points, sum((books for _, books in hours), Books()))


BALANCED = """
balanced AS (
    SELECT node, cluster, hour, entitled, within, not_delivered,
        entitled - within - not_delivered - in_repair AS not_asked, in_repair, charged - within AS borrowed, uncharged,
        demand, owed, charged, available
    FROM (
        SELECT h.*, least(entitled - available, entitled - within - not_delivered) AS in_repair FROM (
            SELECT u.node_id AS node, u.cluster_id AS cluster, u.hour, u.entitled_milli_s AS entitled,
                u.uncharged_milli_s AS uncharged,
                u.demand_milli_s AS demand, u.charged_milli_s AS charged, u.available_milli_s AS available,
                least(u.charged_milli_s, u.entitled_milli_s) AS within,
                least(u.available_milli_s, u.demand_milli_s) AS owed,
                greatest(0, least(u.available_milli_s, u.demand_milli_s) - u.charged_milli_s) AS not_delivered
            FROM scheduler_usagehour u
            WHERE u.cluster_id = %(cluster)s AND u.node_id = ANY(%(nodes)s)
                AND u.hour >= %(start)s AND u.hour < %(end)s
        ) h
    ) i
)"""
"""`balance` of every cached hour of these nodes, in the database: one rule, said twice, and compared by a test."""

TOTALS_SQL = f"""
WITH {BALANCED}
SELECT node, sum(entitled)::bigint, sum(within)::bigint, sum(not_delivered)::bigint, sum(not_asked)::bigint,
    sum(in_repair)::bigint, sum(borrowed)::bigint, sum(uncharged)::bigint, sum(demand)::bigint, sum(owed)::bigint
FROM balanced GROUP BY node"""

EACH_SQL = TOTALS_SQL.replace("u.cluster_id = %(cluster)s", "u.cluster_id = ANY(%(clusters)s)")
EACH_SQL = EACH_SQL.replace("SELECT node, sum(", "SELECT node, cluster, sum(").replace("BY node", "BY node, cluster")
"""The same of several clusters at once."""

EACH_STEP_SQL = TOTALS_SQL.replace(
    "SELECT node, sum(", "SELECT width_bucket(hour, %(starts)s::timestamptz[]) - 1, node, sum("
)
EACH_STEP_SQL = EACH_STEP_SQL.replace("BY node", "BY 1, 2")
"""The same of each step."""


def totals(nodes: Sequence[BudgetNode], cluster: Cluster, start: datetime, end: datetime) -> dict[int, Books]:
    """The books of many nodes over the hours that begin in [start, end), by node id. One query."""
    found = {node.pk: Books() for node in nodes}
    with connection.cursor() as cursor:
        cursor.execute(TOTALS_SQL, {"cluster": cluster.pk, "nodes": list(found), "start": start, "end": end})
        found |= {node_id: Books(*values) for node_id, *values in cursor}
    return found


STEPS_SQL = """
SELECT node_id, width_bucket(hour, %(starts)s::timestamptz[]) - 1, sum(charged_milli_s)::bigint,
    sum(entitled_milli_s)::bigint
FROM scheduler_usagehour
WHERE cluster_id = %(cluster)s AND node_id = ANY(%(nodes)s) AND hour >= %(start)s AND hour < %(end)s GROUP BY 1, 2"""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What was delivered in a step, and what the node was entitled to in it."""

    charged_milli_s: int = 0
    entitled_milli_s: int = 0


def by_step(
    nodes: Sequence[BudgetNode], cluster: Cluster, starts: Sequence[datetime], end: datetime
) -> dict[int, list[Delivered]]:
    """What was delivered to each node in each step that begins at one of `starts`, by node id. One query."""
    found = {node.pk: [Delivered()] * len(starts) for node in nodes}
    values: dict[str, Any] = {
        "cluster": cluster.pk, "nodes": list(found), "starts": list(starts), "start": starts[0], "end": end,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(STEPS_SQL, values)
        for node_id, place, charged, entitled in cursor:
            found[node_id][place] = Delivered(charged, entitled)
    return found


CHARGED_SQL = STEPS_SQL.replace("SELECT node_id,", "SELECT CASE WHEN node_id = ANY(%(apart)s) THEN node_id END,")
"""The same of some nodes one by one, and of the others together."""


def charged_by_step(
    apart: Sequence[BudgetNode],
    together: Sequence[BudgetNode],
    cluster: Cluster,
    starts: Sequence[datetime],
    end: datetime,
) -> tuple[dict[int, list[int]], list[int]]:
    """What was delivered in each step that begins at one of `starts`, in thousandths of the unit times seconds: to each
    node `apart`, by node id, and to those `together`. One query.
    """
    found = {node.pk: [0] * len(starts) for node in apart}
    rest = [0] * len(starts)
    values: dict[str, Any] = {
        "cluster": cluster.pk, "nodes": [node.pk for node in (*apart, *together)], "apart": list(found),
        "starts": list(starts), "start": starts[0], "end": end,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(CHARGED_SQL, values)
        for node_id, place, charged, _ in cursor:
            (rest if node_id is None else found[node_id])[place] = charged
    return found, rest


def totals_in_each(
    nodes: Iterable[int], cluster: Cluster, starts: Sequence[datetime], end: datetime
) -> list[tuple[int, int, Books]]:
    """`totals` of each step that begins at one of `starts`, as (place of the step, node id, books), in no order; of
    steps of which nothing is known there is none. One query.
    """
    values: dict[str, Any] = {
        "cluster": cluster.pk, "nodes": list(nodes), "starts": list(starts), "start": starts[0], "end": end,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(EACH_STEP_SQL, values)
        return [(place, node_id, Books(*sums)) for place, node_id, *sums in cursor]


def totals_on_each(
    nodes: Sequence[BudgetNode], clusters: Sequence[Cluster], start: datetime, end: datetime
) -> dict[tuple[int, int], Books]:
    """`totals` on several clusters, by (node id, cluster id). One query."""
    found = {(node.pk, cluster.pk): Books() for node in nodes for cluster in clusters}
    ids, cluster_ids = [node.pk for node in nodes], [cluster.pk for cluster in clusters]
    with connection.cursor() as cursor:
        cursor.execute(EACH_SQL, {"clusters": cluster_ids, "nodes": ids, "start": start, "end": end})
        found |= {(node_id, cluster_id): Books(*values) for node_id, cluster_id, *values in cursor}
    return found


def balance_of(row: UsageHour) -> Books:
    """The books of one cached hour."""
    return balance(
        charged=row.charged_milli_s,
        uncharged=row.uncharged_milli_s,
        demand=row.demand_milli_s,
        entitled=row.entitled_milli_s,
        available=row.available_milli_s,
    )
