"""What a budget review looks at: the books of many nodes, hour by hour, with what was moved since the period began.

Read from the hourly cache. Amounts are thousandths of the unit times seconds (semantics.md section 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction

from django.db import connection
from django.utils import timezone

from budgets.models import BudgetNode, Cluster
from budgets.queries import all_entitlement_steps, day_of
from budgets.services.review_snapshots import LineFigures
from scheduler.models import ClusterHour, UsageHour
from scheduler.queries.usage import Books, balance
from scheduler.services.usage_sql import CREDITED

NOTHING = Books()
_COLUMNS = (
    "node", "hour", "charged_milli_s", "uncharged_milli_s", "demand_milli_s", "entitled_milli_s", "available_milli_s",
)  # fmt: skip
KEPT = ("", "finished", "cancelled")
"""End reasons after which a run has come to something whatever its workload is; otherwise only what can be resumed."""

_USEFUL = """
SELECT node, sum(size_milli * (ends - begins))::bigint FROM (
    SELECT r.path, r.size_milli,
        greatest(extract(epoch FROM r.running_at)::bigint, %(start)s) AS begins,
        least(coalesce(extract(epoch FROM r.ended_at)::bigint, %(now)s), %(end)s) AS ends
    FROM scheduler_run r JOIN scheduler_workload w ON w.id = r.workload_id
    WHERE r.cluster_id = %(cluster)s AND r.funded AND r.end_reason <> ALL(%(credited)s)
        AND r.running_at < to_timestamp(%(end)s)
        AND (r.ended_at IS NULL OR r.ended_at > to_timestamp(%(start)s))
        AND (r.end_reason = ANY(%(kept)s) OR (w.resumable AND r.end_reason <> 'failed'))
) useful, unnest(path) node
WHERE ends > begins AND node = ANY(%(nodes)s) GROUP BY node"""


def of_lines(nodes: Sequence[BudgetNode], cluster: Cluster, start: datetime, end: datetime) -> list[LineFigures]:
    """The figures of each of these nodes over the hours that begin in [start, end), both whole hours. Five queries.

    Useful is told from the stored runs, not measured: funded device time from when all ranks ran, of runs that neither
    failed nor were ended with their work lost.
    """
    plan = _first_entitlements(nodes, cluster, start)
    span = {"cluster": cluster, "hour__gte": start, "hour__lt": end}
    capacity = dict(ClusterHour.objects.filter(**span).values_list("hour", "capacity_milli_s"))
    known: dict[int, dict[datetime, Books]] = {node.pk: {} for node in nodes}
    rows = UsageHour.objects.filter(node__in=list(known), **span)
    for node, hour, charged, uncharged, demand, entitled, available in rows.values_list(*_COLUMNS).iterator(5_000):
        known[node][hour] = balance(
            charged=charged, uncharged=uncharged, demand=demand, entitled=entitled, available=available
        )
    useful = useful_milli_s(nodes, cluster, start, end)
    found = []
    for pk, books in known.items():
        part = plan[pk]
        planned = {at: part.numerator * devices // part.denominator for at, devices in capacity.items()} if part else {}
        lines = [_hour(at, books.get(at, NOTHING), planned.get(at, 0)) for at in sorted({*books, *planned})]
        owed = sum(each.owed_milli_s for each in books.values())
        found.append(LineFigures(pk, cluster.pk, lines, owed, useful.get(pk, 0), sum(planned.values())))
    return found


def _hour(at: datetime, books: Books, meant: int) -> list[int]:
    """One row of LineFigures.hours; `meant` is what the hour would have given with the first day's share."""
    entitled = books.entitled_milli_s
    return [
        int(at.timestamp()), entitled, books.within_milli_s, books.not_asked_milli_s, books.not_delivered_milli_s,
        books.in_repair_milli_s, max(0, entitled - meant), max(0, meant - entitled), books.borrowed_milli_s,
    ]  # fmt: skip


def _first_entitlements(nodes: Sequence[BudgetNode], cluster: Cluster, start: datetime) -> dict[int, Fraction]:
    """By node, its part of the cluster on the first day."""
    day = day_of(start)
    steps = all_entitlement_steps(cluster, day, day + timedelta(days=1))
    return {node.pk: steps[node.pk][0][1] if node.pk in steps else Fraction(0) for node in nodes}


def useful_milli_s(nodes: Sequence[BudgetNode], cluster: Cluster, start: datetime, end: datetime) -> dict[int, int]:
    """By node id, the funded device time in [start, end) that came to something; nodes without any are left out."""
    with connection.cursor() as cursor:
        cursor.execute(
            _USEFUL,
            {
                "cluster": cluster.pk,
                "start": int(start.timestamp()),
                "end": int(end.timestamp()),
                "now": int(timezone.now().timestamp()),
                "nodes": [node.pk for node in nodes],
                "credited": list(CREDITED),
                "kept": list(KEPT),
            },
        )
        return dict(cursor.fetchall())
