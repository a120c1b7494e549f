"""The state of a cluster as it is now: a number of queries that no number of rows raises."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import BooleanField, ExpressionWrapper, Max, Q
from django.utils import timezone

from budgets import queries
from budgets.models import WHOLE_BASIS_POINTS, Cluster
from scheduler.engine import Policy, decay_per_s
from scheduler.models import (
    WHOLE_DEVICE_MILLI,
    Claim,
    Event,
    Node,
    Pass,
    Reservation,
    Run,
    TreeVersion,
    Workload,
)
from scheduler.services import cells, events, limits, policies
from scheduler.services.events import Second
from scheduler.services.usage_sql import CREDITED

from . import crowds, senders
from .build import Loaded, Seen, SeenNode, SeenPlan, SeenRun, SeenWorkload, UseRow, build

USE_SQL = """
SELECT path, funded AND end_reason <> ALL(%(credited)s) AS charged,
    sum(extract(epoch FROM least(ended_at, %(now)s) - greatest(started_at, %(start)s))::bigint * size_milli)::bigint
FROM scheduler_run
WHERE cluster_id = %(cluster)s AND ended_at > %(start)s AND started_at < %(now)s
GROUP BY path, charged
ORDER BY path, charged
"""


DECAYED_SQL = """
SELECT path, funded AND end_reason <> ALL(%(credited)s) AS charged,
    sum(size_milli * (
        exp(-%(decay)s * extract(epoch FROM %(now)s - least(ended_at, %(now)s))::float8)
        - exp(-%(decay)s * extract(epoch FROM %(now)s - started_at)::float8)
    ) / %(decay)s)
FROM scheduler_run
WHERE cluster_id = %(cluster)s AND ended_at > %(start)s AND started_at < %(now)s
GROUP BY path, charged
ORDER BY path, charged
"""
HALF_LIVES = 40
"""What ended longer ago counts for nothing: less than one part in 10^12."""


def load(cluster: Cluster, now: datetime | None = None) -> Loaded:
    """What a pass of this cluster decides on: all rows of one instant, up to one event.

    Args:
        cluster: which.
        now: the instant of the pass, floored to the second; default is the clock's, read after the rows were fixed, so
            that nothing in them lies in the future. Never before the cluster's last pass.
    """
    policies.ensure(cluster)
    with one_view():
        mark = Event.objects.filter(cluster=cluster).aggregate(last=Max("id"))["last"] or 0
        last = Pass.objects.filter(cluster=cluster).order_by("-id").values_list("at", flat=True).first()
        instant = (now or timezone.now()).astimezone(UTC).replace(microsecond=0)
        instant = instant if last is None else max(instant, last.astimezone(UTC))
        version = policies.latest(cluster)
        seen = Seen(
            cluster=cluster,
            now_s=int(instant.timestamp()),
            event_mark=mark,
            policy=policies.as_policy(version),
            tree_nodes=(),
        )
        _read(seen, instant)
        digest = digest_of(seen.tree_nodes)
        tree = TreeVersion.objects.filter(cluster=cluster, digest=digest).first()
    if tree is None:
        tree, _ = TreeVersion.objects.get_or_create(
            cluster=cluster, digest=digest, defaults={"nodes": seen.tree_nodes, "made_at": instant}
        )
    return Loaded(
        cluster=cluster,
        now=instant,
        now_s=seen.now_s,
        event_mark=mark,
        policy=seen.policy,
        policy_version=version,
        tree_version=tree,
        snapshot=build(seen),
        workloads={row.code: row for row in seen.workloads},
        runs={row.id: row for row in seen.runs},
        nodes={row.name: row.pk for row in seen.nodes},
    )


@contextmanager
def one_view() -> Iterator[None]:
    """All queries inside see the same instant of the database, and none of them writes."""
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


def _read(seen: Seen, instant: datetime) -> None:
    """Fill in the rows."""
    cluster = seen.cluster
    seen.workloads = waiting_workloads(cluster)
    open_leaves = {row.leaf_id for row in seen.workloads}
    seen.tree_nodes = tree_nodes(cluster, instant, also=open_leaves)
    going = Run.objects.filter(cluster=cluster).exclude(state="ended").order_by("pk")
    seen.runs = [SeenRun(*row) for row in going.values_list(*RUN)]
    seen.holdings, seen.fractions = holdings_of([row.pk for row in seen.runs])
    senders.see(seen)
    seen.nodes = present_nodes(cluster)
    seen.use = ended_use(cluster, instant, seen.policy)
    if crowds.asks(seen.policy):
        crowds.see(seen, crowds.present(cluster, instant))
    made_s = Second("made_at")
    claims = Claim.objects.filter(cluster=cluster, ended_at=None).order_by("pk")
    seen.claims = [
        SeenPlan(*row) for row in claims.values_list("pk", "workload_id", "holdings", "waits_for", made_s, made_s)
    ]
    promises = Reservation.objects.filter(cluster=cluster, ended_at=None).order_by("pk")
    seen.reservations = [
        SeenPlan(*row)
        for row in promises.values_list("pk", "workload_id", "holdings", "counts_on", Second("starts_at"), made_s)
    ]


WAITING = (
    "pk",
    "code",
    "leaf_id",
    "size_milli",
    "min_runtime_s",
    Second("submitted_at"),
    "priority",
    "node__name",
    ExpressionWrapper(Q(state="held"), BooleanField()),
    "progress_s",
    Second("first_started_at"),
    "predicted_s",
    "cpu_milli_per_rank",
    "memory_mib_per_rank",
    "forgiven_s",
    Second("requeued_at"),
    "gpu_classes",
    "needs_fast",
    "locality",
    "reason_code",
    "reason_text",
    "place",
    Second("earliest_start_at"),
)
"""The columns of `SeenWorkload`."""

RUN = (
    "pk",
    "workload_id",
    "workload__code",
    "number",
    "path",
    "funded",
    "min_runtime_s",
    Second("started_at"),
    Second("running_at"),
    Second("leave_by"),
    "workload__priority",
    Second("workload__submitted_at"),
    "workload__progress_s",
    Second("workload__first_started_at"),
    "workload__predicted_s",
    "workload__cpu_milli_per_rank",
    "workload__memory_mib_per_rank",
    "workload__forgiven_s",
)
"""The columns of `SeenRun`."""


def waiting_workloads(cluster: Cluster) -> list[SeenWorkload]:
    """Queued, and held by a pass; not those that are put aside."""
    rows = Workload.objects.filter(cluster=cluster, state__in=("queued", "held"))
    others = rows.exclude(state="held", reason_code__in=events.ASIDE)
    return [SeenWorkload(*row) for row in others.order_by("submitted_at", "code").values_list(*WAITING)]


HOLDINGS_SQL = """
SELECT h.run_id, n.name, sum(h.milli)::bigint, min(d.index)
FROM scheduler_holding h JOIN scheduler_node n ON n.id = h.node_id JOIN scheduler_device d ON d.id = h.device_id
WHERE h.run_id = ANY(%s) GROUP BY h.run_id, n.name ORDER BY h.run_id, n.name
"""


def holdings_of(run_ids: Sequence[int]) -> tuple[dict[int, dict[str, int]], dict[int, int]]:
    """Amounts by run and node's name, for runs that have ended what they held; and the device of each fraction."""
    found: dict[int, dict[str, int]] = {}
    fractions: dict[int, int] = {}
    with connection.cursor() as cursor:
        cursor.execute(HOLDINGS_SQL, [list(run_ids)])
        for run_id, name, amount_milli, device in cursor.fetchall():
            found.setdefault(run_id, {})[name] = amount_milli
            if amount_milli < WHOLE_DEVICE_MILLI:
                fractions[run_id] = device
    return found, fractions


def present_nodes(cluster: Cluster) -> list[SeenNode]:
    """Every node of the cluster, by name."""
    return [SeenNode(*row) for row in events.nodes_as_seen(Node.objects.filter(cluster=cluster))]


def use_since(instant: datetime, policy: Policy) -> datetime:
    """What ended before that counts for nothing at an instant."""
    half_life_s = policy.decay_s
    back_s = policy.lookback_s if half_life_s is None else HALF_LIVES * half_life_s
    return datetime.fromtimestamp(max(0, int(instant.timestamp()) - back_s), UTC)


def ended_use(cluster: Cluster, instant: datetime, policy: Policy) -> list[UseRow]:
    """What ended runs used, as it counts at an instant: inside the lookback, clipped to the second, or decayed.

    What was funded, but credited since (section 7), is not charged.
    """
    values: dict[str, Any] = {
        "now": instant,
        "start": use_since(instant, policy),
        "cluster": cluster.pk,
        "credited": list(CREDITED),
        "decay": 0.0 if policy.decay_s is None else decay_per_s(policy.decay_s),
    }
    with connection.cursor() as cursor:
        cursor.execute(USE_SQL if policy.decay_s is None else DECAYED_SQL, values)
        return [(path, charged, amount) for path, charged, amount in cursor.fetchall()]


def tree_nodes(cluster: Cluster, instant: datetime, also: set[int]) -> list[dict[str, Any]]:
    """The tree of the organisation's day, in the form of `TreeVersion.nodes`."""
    rows = queries.tree_as_it_hangs(cluster, timezone.localdate(instant, timezone.get_default_timezone()), also=also)
    codes = {row.node.pk: row.node.code for row in rows}
    more: dict[int, dict[str, Any]] = {pk: {"cells": counts} for pk, counts in cells.on(cluster).items()}
    for pk, each in limits.on(cluster).items():
        if each != limits.NO_LIMITS:
            more.setdefault(pk, {})["limits"] = asdict(each)
    return [
        {
            "id": row.node.code,
            "parent": None if row.parent_id is None else codes[row.parent_id],
            "shares": row.basis_points,
            "whole": WHOLE_BASIS_POINTS,
            "closed": row.node.is_closed,
            "name": row.node.name,
            "db_id": row.node.pk,
            **more.get(row.node.pk, {}),
        }
        for row in rows
    ]


def digest_of(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Tells one tree from another."""
    return hashlib.sha256(json.dumps(nodes, sort_keys=True).encode()).hexdigest()
