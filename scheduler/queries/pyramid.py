"""The pyramid of a cluster (semantics.md section 10): availability, occupancy, impact, utilization, and what is behind.

Each figure stands on the one before: devices that are healthy, of these held, of what was owed given, of what was held
busy. Amounts are thousandths of the unit times seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from django.db import connection

from budgets.models import BudgetNode, Cluster
from scheduler.queries import usage, utilization
from scheduler.queries.spans import Steps
from scheduler.queries.utilization import Activity


@dataclass(frozen=True, slots=True)
class Layer:
    """What a cluster's devices were and did; ratios are 0 to 1, and None where there was nothing to divide by.

    Attributes:
        owed_milli_s: to the children of the root, each for itself.
        given_milli_s: of it delivered: the smaller of delivered and owed, each for itself.
    """

    capacity_milli_s: int = 0
    healthy_milli_s: int = 0
    held_milli_s: int = 0
    held_unfit_milli_s: int = 0
    uncharged_milli_s: int = 0
    owed_milli_s: int = 0
    given_milli_s: int = 0

    @property
    def availability(self) -> float | None:
        """Healthy / all."""
        return _ratio(self.healthy_milli_s, self.capacity_milli_s)

    @property
    def usable_milli_s(self) -> int:
        """Healthy, and held on nodes that were draining or unreachable."""
        return self.healthy_milli_s + self.held_unfit_milli_s

    @property
    def occupancy(self) -> float | None:
        """Held / usable."""
        return _ratio(self.held_milli_s, self.usable_milli_s)

    @property
    def impact(self) -> float | None:
        """Given / owed."""
        return _ratio(self.given_milli_s, self.owed_milli_s)

    @property
    def allocated_milli_s(self) -> int:
        """Held and charged to somebody."""
        return self.held_milli_s - self.uncharged_milli_s

    @property
    def unallocated_share(self) -> float | None:
        """Uncharged / held."""
        return _ratio(self.uncharged_milli_s, self.held_milli_s)

    @property
    def free_milli_s(self) -> int:
        """Usable and not held."""
        return max(0, self.usable_milli_s - self.held_milli_s)

    def __add__(self, other: Layer) -> Layer:
        """Both together; owed and given add up hour by hour or day by day, not over a longer time."""
        return Layer(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Layer)))


@dataclass(frozen=True, slots=True)
class Point:
    """One hour or day."""

    start: datetime
    end: datetime
    layer: Layer
    activity: Activity


@dataclass(frozen=True, slots=True)
class Pyramid:
    """The whole time, and its hours or days. The total's owed and given are of the whole time, node by node."""

    cluster: Cluster
    steps: Steps
    points: Sequence[Point]
    total: Layer
    activity: Activity


CLUSTER_SQL = """
SELECT width_bucket(hour, %(starts)s::timestamptz[]) - 1, sum(capacity_milli_s)::bigint, sum(healthy_milli_s)::bigint,
    sum(held_milli_s)::bigint, sum(held_unfit_milli_s)::bigint, sum(uncharged_milli_s)::bigint
FROM scheduler_clusterhour
WHERE cluster_id = %(cluster)s AND hour >= %(start)s AND hour < %(end)s GROUP BY 1"""

GIVEN_SQL = f"""
WITH {usage.BALANCED}, by_node AS (
    SELECT width_bucket(hour, %(starts)s::timestamptz[]) - 1 AS place, node, sum(owed) AS owed, sum(charged) AS charged
    FROM balanced GROUP BY 1, 2
)
SELECT place, sum(owed)::bigint, sum(least(owed, charged))::bigint FROM by_node GROUP BY place"""


def pyramid(cluster: Cluster, steps: Steps, now: datetime) -> Pyramid:
    """The figures over the hours that begin within the steps. Seven queries."""
    layers = [Layer()] * len(steps.starts)
    nodes = top_nodes()
    values: dict[str, Any] = {
        "cluster": cluster.pk,
        "nodes": [node.pk for node in nodes],
        "start": steps.start,
        "end": steps.end,
        "starts": list(steps.starts),
    }
    with connection.cursor() as cursor:
        cursor.execute(CLUSTER_SQL, values)
        for place, *amounts in cursor:
            layers[place] += Layer(*amounts)
        cursor.execute(GIVEN_SQL, values)
        for place, owed, given in cursor:
            layers[place] += Layer(owed_milli_s=owed, given_milli_s=given)
    activities = utilization.by_step(cluster, steps, now)
    points = [
        Point(start, end, layer, activity)
        for (start, end), layer, activity in zip(steps.bounds(), layers, activities, strict=True)
        if layer.capacity_milli_s or activity.held_milli_s
    ]
    books = usage.totals(nodes, cluster, steps.start, steps.end).values()
    whole = sum((point.layer for point in points), Layer())
    total = Layer(
        whole.capacity_milli_s,
        whole.healthy_milli_s,
        whole.held_milli_s,
        whole.held_unfit_milli_s,
        whole.uncharged_milli_s,
        sum(each.owed_milli_s for each in books),
        sum(min(each.charged_milli_s, each.owed_milli_s) for each in books),
    )
    return Pyramid(cluster, steps, points, total, sum((point.activity for point in points), Activity()))


def top_nodes() -> list[BudgetNode]:
    """The children of the root, between which impact is measured."""
    return list(BudgetNode.objects.filter(parent__parent=None, parent__isnull=False))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
