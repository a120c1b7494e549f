"""The figures of a cluster over a time (semantics.md section 10), from the hourly cache and first starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Sum

from budgets.models import BudgetNode, Cluster
from scheduler.models import ClusterHour, UtilizationHour, Workload
from scheduler.queries import usage


@dataclass(frozen=True, slots=True)
class Wait:
    """First start less submission, in whole seconds, of the `count` workloads of a class that first started then."""

    count: int
    median_s: int
    p90_s: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Ratios are 0 to 1, and None where there was nothing to divide by.

    Attributes:
        availability: healthy device time / all device time.
        occupancy: held / (healthy + held on draining or unreachable nodes).
        unallocated_share: uncharged / held.
        delivery: how much of what was owed to the root's children was given to them (impact).
        utilization: measured activity over the held time that was measured; None where nothing was.
        waits: by `Workload.Class`; classes of which none started are left out.
    """

    availability: float | None
    occupancy: float | None
    unallocated_share: float | None
    delivery: float | None
    utilization: float | None
    capacity_milli_s: int
    held_milli_s: int
    waits: Mapping[str, Wait]


def of_cluster(cluster: Cluster, start: datetime, end: datetime) -> Figures:
    """The figures over the hours that begin in [start, end). Five queries."""
    return of_clusters([cluster], start, end)[cluster.pk]


def of_clusters(clusters: Sequence[Cluster], start: datetime, end: datetime) -> dict[int, Figures]:
    """The figures of several clusters, by id. Five queries, however many they are."""
    hours = ClusterHour.objects.filter(cluster__in=clusters, hour__gte=start, hour__lt=end).values("cluster")
    names = {
        "capacity": "capacity",
        "healthy": "healthy",
        "held": "held",
        "unfit": "held_unfit",
        "uncharged": "uncharged",
    }
    sums = _by_cluster(hours.annotate(**{name: Sum(f"{column}_milli_s") for name, column in names.items()}))
    active = UtilizationHour.objects.filter(cluster__in=clusters, hour__gte=start, hour__lt=end).values("cluster")
    activity = _by_cluster(active.annotate(measured=Sum("measured_milli_s"), busy=Sum("busy_milli_s")))
    top = list(BudgetNode.objects.filter(parent__parent=None, parent__isnull=False))
    books = usage.totals_on_each(top, clusters, start, end)
    waits = _waits(clusters, start, end)
    found = {}
    for cluster in clusters:
        held, busy = sums[cluster.pk], activity[cluster.pk]
        own = [books[node.pk, cluster.pk] for node in top]
        delivered = sum(min(each.charged_milli_s, each.owed_milli_s) for each in own)
        found[cluster.pk] = Figures(
            availability=_ratio(held["healthy"], held["capacity"]),
            occupancy=_ratio(held["held"], held["healthy"] + held["unfit"]),
            unallocated_share=_ratio(held["uncharged"], held["held"]),
            delivery=_ratio(delivered, sum(each.owed_milli_s for each in own)),
            utilization=_ratio(busy["busy"], busy["measured"]),
            capacity_milli_s=held["capacity"],
            held_milli_s=held["held"],
            waits=waits.get(cluster.pk, {}),
        )
    return found


def _by_cluster(rows: Iterable[Mapping[str, Any]]) -> dict[int, dict[str, int]]:
    """Rows of sums by their cluster; of one without a row all are 0."""
    found: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        found[row["cluster"]].update(row)
    return found


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _waits(clusters: Sequence[Cluster], start: datetime, end: datetime) -> dict[int, dict[str, Wait]]:
    """By cluster and class, in the order of the classes."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT cluster_id, workload_class, count(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY wait_s),
                percentile_disc(0.9) WITHIN GROUP (ORDER BY wait_s)
            FROM (
                SELECT cluster_id, workload_class,
                    extract(epoch FROM first_started_at - submitted_at)::bigint AS wait_s
                FROM scheduler_workload
                WHERE cluster_id = ANY(%(clusters)s) AND first_started_at >= %(start)s AND first_started_at < %(end)s
            ) waits GROUP BY cluster_id, workload_class
            """,
            {"clusters": [cluster.pk for cluster in clusters], "start": start, "end": end},
        )
        found = {(cluster, name): Wait(count, median, p90) for cluster, name, count, median, p90 in cursor}
    return {
        cluster.pk: {name: found[cluster.pk, name] for name in Workload.Class.values if (cluster.pk, name) in found}
        for cluster in clusters
    }
