"""What the past says of workloads to come: how long one like it executes, and how much service they need."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from budgets.models import Cluster, Person
from scheduler.engine import Predictor
from scheduler.models import WHOLE_DEVICE_MILLI

PAST = timedelta(days=28)
"""How far back it looks."""
MOST = 2_000
"""So many workloads are looked at, the latest."""
ASKED_BY = ("shortest", "themis")
"""Orders inside a leaf that go by it."""
SAMPLES = 200
"""Quantiles of the services that they needed."""

ENDED_SQL = """
SELECT w.name, coalesce(w.owner_id, 0),
    sum(extract(epoch FROM least(r.stop_asked_at, r.ended_at) - r.running_at))::bigint AS executed_s,
    sum(extract(epoch FROM least(r.stop_asked_at, r.ended_at) - r.running_at) * r.size_milli)::bigint AS service_milli_s
FROM (
    SELECT id, name, owner_id FROM scheduler_workload
    WHERE cluster_id = %(cluster)s AND state = 'finished' AND ended_at > %(since)s AND ended_at <= %(until)s {of_these}
    ORDER BY ended_at DESC, id DESC LIMIT %(most)s
) w JOIN scheduler_run r ON r.workload_id = w.id
WHERE r.running_at IS NOT NULL AND r.ended_at IS NOT NULL
    AND least(r.stop_asked_at, r.ended_at) >= r.running_at
GROUP BY w.id, w.name, w.owner_id
"""
OF_THESE = "AND (name = %(name)s AND name <> '' OR owner_id = %(owner)s)"


def predicted_s(cluster: Cluster, owner: Person | None, name: str, at: datetime) -> int:
    """How long a workload of that name and owner, submitted then, is thought to execute in all, in seconds.

    By those that finished of both, else of that name, else of that owner, else by all; 600 s with no past at all.
    """
    owner_id = 0 if owner is None else owner.pk
    return _learned(cluster, owner_id, name, at)[0].predict(name, str(owner_id))


def thought_s(cluster: Cluster, owner: Person | None, name: str, at: datetime) -> int | None:
    """The same; None with no past at all."""
    owner_id = 0 if owner is None else owner.pk
    predictor, has_past = _learned(cluster, owner_id, name, at)
    return predictor.predict(name, str(owner_id)) if has_past else None


def _learned(cluster: Cluster, owner_id: int, name: str, at: datetime) -> tuple[Predictor, bool]:
    """What the past of both has taught, and whether there is any."""
    predictor = Predictor()
    rows = _ended(cluster, at, OF_THESE, name=name, owner=owner_id) or _ended(cluster, at)
    for of_name, of_owner, executed_s, _ in rows:
        predictor.learn(of_name, str(of_owner), executed_s)
    return predictor, bool(rows)


def services(cluster: Cluster, at: datetime) -> list[int]:
    """Quantiles of the device-seconds that workloads needed in all that had finished then; none where none had."""
    found = sorted(service_milli_s // WHOLE_DEVICE_MILLI for *_, service_milli_s in _ended(cluster, at))
    if len(found) <= SAMPLES:
        return found
    return [found[(2 * index + 1) * len(found) // (2 * SAMPLES)] for index in range(SAMPLES)]


def _ended(cluster: Cluster, at: datetime, of_these: str = "", **more: int | str) -> list[tuple[str, int, int, int]]:
    values: dict[str, Any] = {"cluster": cluster.pk, "since": at - PAST, "until": at, "most": MOST, **more}
    with connection.cursor() as cursor:
        cursor.execute(ENDED_SQL.format(of_these=of_these), values)
        return list(cursor.fetchall())
