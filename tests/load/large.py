"""A year behind the load laboratory: a million runs and ten million usage-hours, made by the database itself.

What is added is plain and always the same: each run follows a row that the laboratory has already, at other instants,
of other projects and on other devices. It lies before all that the laboratory made itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Min

from budgets.models import BudgetNode, Cluster
from scheduler.models import Holding, Rank, Run, UsageHour, Workload
from tests.load import work

RUNS, HOURS = 1_000_000, 10_000_000
YEAR = timedelta(days=365)
COPY_SQL = """
INSERT INTO {table} ({columns})
SELECT {values} FROM generate_series(1::bigint, %(count)s::bigint) AS g(n),
    (SELECT * FROM {table} WHERE id = %(like)s) AS t,
    (SELECT array_agg(id ORDER BY id) AS ids FROM budgets_budgetnode WHERE kind = 'project') AS leaf,
    (SELECT array_agg(d.id ORDER BY d.id) AS ids, array_agg(d.node_id ORDER BY d.id) AS nodes FROM scheduler_device d
        JOIN scheduler_node m ON m.id = d.node_id WHERE m.cluster_id = %(cluster)s) AS device
"""
HOURS_SQL = """
INSERT INTO scheduler_usagehour (cluster_id, node_id, hour, charged_milli_s, uncharged_milli_s, demand_milli_s,
    entitled_milli_s, available_milli_s)
SELECT %(cluster)s, b.id, h.hour, 1000 * (b.id * 7919 %% 3600), 1000 * (b.id * 104729 %% 900),
    1000 * (b.id * 7919 %% 7200), 1800000, 1700000
FROM (SELECT id FROM budgets_budgetnode ORDER BY id) AS b,
    generate_series(%(start)s::timestamptz, %(end)s::timestamptz, interval '1 hour') AS h(hour)
"""
CLUSTER_HOURS_SQL = """
INSERT INTO scheduler_clusterhour (cluster_id, hour, capacity_milli_s, healthy_milli_s, held_milli_s,
    held_unfit_milli_s, uncharged_milli_s)
SELECT %(cluster)s, hour, 3686400000, 3600000000, 3000000000, 0, 400000000
FROM generate_series(%(start)s::timestamptz, %(end)s::timestamptz, interval '1 hour') AS h(hour)
"""


def add_year(cluster: Cluster, now: datetime, *, runs: int = RUNS, hours: int = HOURS) -> dict[str, float]:
    """Add all of it; the seconds that each part took."""
    took: dict[str, float] = {}
    first = UsageHour.objects.filter(cluster=cluster).aggregate(first=Min("hour"))["first"]
    until = (first or now - work.SPAN).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    start = until - YEAR
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # no triggers: what is added contradicts nothing
        cursor.execute("SET synchronous_commit = off")
    try:
        began_s = time.monotonic()
        _add_runs(cluster, start, until, runs)
        took["runs"], began_s = time.monotonic() - began_s, time.monotonic()
        _add_hours(cluster, until, hours)
        took["hours"], began_s = time.monotonic() - began_s, time.monotonic()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = origin")
            cursor.execute("SET synchronous_commit = on")
            cursor.execute("VACUUM ANALYZE")
    took["tidied"] = time.monotonic() - began_s
    return took


def _add_runs(cluster: Cluster, start: datetime, until: datetime, count: int) -> None:
    like = Run.objects.filter(cluster=cluster, end_reason="finished", workload__runs__number=1).latest("pk")
    first, of_run = _next(Workload), _next(Run)
    started = "%(start)s::timestamptz + floor(g.n::float8 * %(span)s / %(count)s) * interval '1 second'"
    lasted = "(600 + g.n * 7919 %% 14400) * interval '1 second'"
    leaf = "leaf.ids[(1 + (g.n * 7919) %% array_length(leaf.ids, 1))::int]"
    instants = {"start": start, "span": (until - start).total_seconds() - 20_000, "cluster": cluster.pk}
    _copy(
        Workload,
        like.workload_id,
        count,
        {
            "id": f"{first} + g.n - 1",
            "code": "'Y-' || g.n",
            "leaf_id": leaf,
            "submitted_at": f"{started} - interval '300 seconds'",
            "first_started_at": started,
            "ended_at": f"{started} + {lasted}",
            "idempotency_key": "''",
        },
        instants,
    )
    _copy(
        Run,
        like.pk,
        count,
        {
            "id": f"{of_run} + g.n - 1",
            "workload_id": f"{first} + g.n - 1",
            "number": "1",
            "leaf_id": leaf,
            "path": f"(SELECT path FROM budgets_budgetnode b WHERE b.id = {leaf})",
            "started_at": started,
            "running_at": f"{started} + interval '20 seconds'",
            "contract_ends_at": f"CASE WHEN t.funded THEN {started} + interval '1 hour' END",
            "ended_at": f"{started} + {lasted}",
            "stop_asked_at": "NULL",
            "preempted_by_id": "NULL",
        },
        instants,
    )
    at_device = "[(1 + (g.n * 104729) %% array_length(device.ids, 1))::int]"
    _copy(
        Holding,
        Holding.objects.filter(run=like).latest("pk").pk,
        count,
        {
            "id": f"{_next(Holding)} + g.n - 1",
            "run_id": f"{of_run} + g.n - 1",
            "device_id": f"device.ids{at_device}",
            "node_id": f"device.nodes{at_device}",
            "released_at": f"{started} + {lasted}",
        },
        instants,
    )
    if (rank := Rank.objects.filter(run__state="ended").order_by("pk").last()) is not None:
        _copy(
            Rank,
            rank.pk,
            count,
            {"id": f"{_next(Rank)} + g.n - 1", "run_id": f"{of_run} + g.n - 1", "node_id": f"device.nodes{at_device}"},
            instants,
        )


def _next(model: type) -> int:
    last = model.objects.order_by("-pk").values_list("pk", flat=True).first()
    return (last or 0) + 1


def _copy(model: type, like: int, count: int, other: Mapping[str, str], parameters: Mapping[str, object]) -> None:
    """Rows like that one but for these columns; the sequence of the table goes on after them."""
    columns = [field.column for field in model._meta.concrete_fields]
    statement = COPY_SQL.format(
        table=model._meta.db_table,
        columns=", ".join(f'"{name}"' for name in columns),
        values=", ".join(other.get(name, f't."{name}"') for name in columns),
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, {**parameters, "count": count, "like": like})
        table = model._meta.db_table
        cursor.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))")


def _add_hours(cluster: Cluster, until: datetime, count: int) -> None:
    """Of all nodes of the tree, hour by hour back from there, until there are so many."""
    have = UsageHour.objects.count()
    hours = max(0, -(-(count - have) // BudgetNode.objects.count()))
    values = {"cluster": cluster.pk, "start": until - timedelta(hours=hours), "end": until}
    with connection.cursor() as cursor:
        cursor.execute(HOURS_SQL, values)
        cursor.execute(CLUSTER_HOURS_SQL, values)
