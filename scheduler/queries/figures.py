"""The figures of a cluster over a time (semantics.md section 10), from the hourly cache and first starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

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
    sums = ClusterHour.objects.filter(cluster=cluster, hour__gte=start, hour__lt=end).aggregate(
        capacity=Sum("capacity_milli_s", default=0),
        healthy=Sum("healthy_milli_s", default=0),
        held=Sum("held_milli_s", default=0),
        unfit=Sum("held_unfit_milli_s", default=0),
        uncharged=Sum("uncharged_milli_s", default=0),
    )
    activity = UtilizationHour.objects.filter(cluster=cluster, hour__gte=start, hour__lt=end).aggregate(
        measured=Sum("measured_milli_s", default=0), busy=Sum("busy_milli_s", default=0)
    )
    top = list(BudgetNode.objects.filter(parent__parent=None, parent__isnull=False))
    books = usage.totals(top, cluster, start, end).values()
    delivered = sum(min(each.charged_milli_s, each.owed_milli_s) for each in books)
    return Figures(
        availability=_ratio(sums["healthy"], sums["capacity"]),
        occupancy=_ratio(sums["held"], sums["healthy"] + sums["unfit"]),
        unallocated_share=_ratio(sums["uncharged"], sums["held"]),
        delivery=_ratio(delivered, sum(each.owed_milli_s for each in books)),
        utilization=_ratio(activity["busy"], activity["measured"]),
        capacity_milli_s=sums["capacity"],
        held_milli_s=sums["held"],
        waits=_waits(cluster, start, end),
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _waits(cluster: Cluster, start: datetime, end: datetime) -> dict[str, Wait]:
    """By class, in the order of the classes."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT workload_class, count(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY wait_s),
                percentile_disc(0.9) WITHIN GROUP (ORDER BY wait_s)
            FROM (
                SELECT workload_class, extract(epoch FROM first_started_at - submitted_at)::bigint AS wait_s
                FROM scheduler_workload
                WHERE cluster_id = %(cluster)s AND first_started_at >= %(start)s AND first_started_at < %(end)s
            ) waits GROUP BY workload_class
            """,
            {"cluster": cluster.pk, "start": start, "end": end},
        )
        found = {name: Wait(count, median, p90) for name, count, median, p90 in cursor}
    return {name: found[name] for name in Workload.Class.values if name in found}
