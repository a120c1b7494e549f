"""The cluster's event log, the order in which its writers go, and the wake-up of its loop.

Everything that changes what a pass would see is written inside `changing(cluster_id)`: writers of one cluster go one
after the other, from before their first event until their commit. So event ids rise in commit order, a pass that read
up to some id saw everything up to it and nothing after, and no two writers wait for each other in a circle: the
cluster's lock comes first, rows after it.

Session and transaction locks are PostgreSQL advisory locks of two integers: one of the classes below, and the cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import structlog
from celery import current_app
from django.conf import settings
from django.db import connection, transaction
from django.db.models import BigIntegerField, BooleanField, Count, ExpressionWrapper, Func, Q, QuerySet
from django.utils import timezone

from budgets.models import Person
from scheduler.models import MaintenanceWindow, Node, Pass, Run, Workload

log = structlog.get_logger(__name__)

WRITERS_LOCK = 0x414C01
"""Class of the transaction lock that a cluster's writers take."""
PASS_LOCK = 0x414C02
"""Class of the session lock that a cluster's pass holds (scheduler.loop)."""
WAKE_EXPIRES_S = 10
"""A wake-up nobody took by then is worthless: the next tick does its work."""

WAKE_EVERY_S = 0.5
"""A process wakes a cluster's loop no more often: what follows within that time is seen by the same pass, by one that
looks again after it, or by the next tick. Else a thousand submissions would be a thousand messages before that tick."""

BROKER_AWAY_S = 5.0
"""Where a wake-up could not be sent, no other is tried for so long: none may make its sender wait again."""
_no_broker_until_s = float("-inf")
_woken_s: dict[int, float] = {}
"""When this process last woke which cluster's loop."""

AFTER = "waiting_after"
"""Reason code of a held workload that waits for the end of another one."""
UNJUDGED = "failure_unjudged"
"""Of one that failed, and may be tried again once it is known why."""
ALIKE = "failed_alike"
"""Of one that is not tried again by itself, since it failed as before: it waits for its owner's word."""
CANARY = "canary_failed"
"""Of one whose canary did not pass: it waits for its owner's word."""
NOT_COME = (AFTER, CANARY)
"""They have not entered the queue yet, and count as submitted when they do."""
ASIDE = (*NOT_COME, UNJUDGED, ALIKE)
"""Held, but not by a pass: the engine sees none of these."""


class Kind(StrEnum):
    """What happened."""

    SUBMITTED = "submitted"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    CANCEL_ASKED = "cancel_asked"
    HELD = "held"
    RELEASED = "released"
    FAILED = "failed"
    RUN_STARTED = "run_started"
    RUN_RUNNING = "run_running"
    RUN_STOPPING = "run_stopping"
    RUN_ENDED = "run_ended"
    RUN_UNREACHABLE = "run_unreachable"
    RUN_BACK = "run_back"
    CLAIM_MADE = "claim_made"
    CLAIM_ENDED = "claim_ended"
    RESERVATION_MADE = "reservation_made"
    RESERVATION_ENDED = "reservation_ended"
    NODE_CHANGED = "node_changed"
    MOVED = "moved"
    POLICY_CHANGED = "policy_changed"
    HISTORY_ADDED = "history_added"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log, before it is written. Ids are rows' primary keys."""

    kind: Kind
    workload_id: int | None = None
    run_id: int | None = None
    node_id: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None  # where it is not that of all the others


LOG_SQL = """
INSERT INTO scheduler_event (cluster_id, at, kind, workload_id, run_id, node_id, made_in_id, person_id, data)
SELECT %(cluster)s, date_trunc('second', at), kind, workload, run, node, %(made_in)s::bigint, %(person)s::bigint, data
FROM ROWS FROM (jsonb_to_recordset(%(rows)s::jsonb)
    AS (at timestamptz, kind text, workload bigint, run bigint, node bigint, data jsonb)) WITH ORDINALITY
ORDER BY ordinality
"""
"""One statement for one entry or thousands; ids rise in the order given."""


_changing: ContextVar[frozenset[int]] = ContextVar("changing", default=frozenset())
"""The clusters whose writers' lock this thread holds."""


@contextmanager
def changing(cluster_id: int) -> Iterator[None]:
    """A transaction of a writer of this cluster; inside another one of the same cluster it is part of that."""
    held = _changing.get()
    if cluster_id in held:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [WRITERS_LOCK, cluster_id])
        token = _changing.set(held | {cluster_id})
        try:
            yield
        finally:
            _changing.reset(token)


def record(
    *,
    cluster_id: int,
    kind: Kind,
    at: datetime | None = None,
    workload: Workload | None = None,
    run: Run | None = None,
    node: Node | None = None,
    by: Person | None = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Log one change, after the rows were changed and in the same transaction (`changing`).

    Args:
        cluster_id: the cluster whose log it is.
        kind: what happened.
        at: when; default now.
        workload, run, node: whom it is about. Their rows' present values are logged, so that a past pass can be
            rebuilt.
        by: who did it; None for the system.
        data: what else is to be kept.
    """
    entry = Entry(
        kind,
        workload_id=None if workload is None else workload.pk,
        run_id=None if run is None else run.pk,
        node_id=None if node is None else node.pk,
        data=data or {},
    )
    record_all(cluster_id=cluster_id, entries=[entry], at=at, by=by)


def record_all(
    *,
    cluster_id: int,
    entries: Iterable[Entry],
    at: datetime | None = None,
    by: Person | None = None,
    made_in: Pass | None = None,
) -> None:
    """Log several changes at once, as `record` does; `made_in` is the pass that made them."""
    lines = list(entries)
    if not lines:
        return
    when = at or timezone.now()
    with changing(cluster_id):
        workloads = seen_workloads(line.workload_id for line in lines)
        runs = seen_runs(line.run_id for line in lines)
        nodes = seen_nodes(line.node_id for line in lines)
        rows = [
            {
                "at": (line.at or when).isoformat(),
                "kind": line.kind,
                "workload": line.workload_id,
                "run": line.run_id,
                "node": line.node_id,
                "data": dict(line.data)
                | ({"workload": workloads[line.workload_id]} if line.workload_id in workloads else {})
                | ({"run": runs[line.run_id]} if line.run_id in runs else {})
                | ({"node": nodes[line.node_id]} if line.node_id in nodes else {}),
            }
            for line in lines
        ]
        with connection.cursor() as cursor:
            cursor.execute(
                LOG_SQL,
                {
                    "rows": json.dumps(rows),
                    "cluster": cluster_id,
                    "made_in": None if made_in is None else made_in.pk,
                    "person": None if by is None else by.pk,
                },
            )


# --- what a pass sees of a row, in JSON: instants are whole seconds of Unix time --------------------------------------


class Second(Func):
    """An instant as whole seconds of Unix time, counted by the database: thousands of rows need no datetimes here."""

    template = "extract(epoch FROM %(expressions)s)::bigint"
    output_field = BigIntegerField()


def second(instant: datetime | None) -> int | None:
    """The same of an instant at hand."""
    return None if instant is None else int(instant.timestamp())


def seen_workloads(ids: Iterable[int | None]) -> dict[int | None, dict[str, Any]]:
    """By id: state, leaf and priority, and what it has executed. Size, contract, submission and pin never change.

    One that is put aside is told apart from one that a pass held.
    """
    rows = Workload.objects.filter(pk__in={pk for pk in ids if pk is not None}).order_by()
    columns = (
        "pk",
        "state",
        "leaf_id",
        "priority",
        "reason_code",
        Second("submitted_at"),
        "progress_s",
        Second("first_started_at"),
        "forgiven_s",
        Second("requeued_at"),
    )
    return {
        pk: {
            "state": reason_code if state == Workload.State.HELD and reason_code in ASIDE else state,
            "leaf": leaf_id,
            "priority": priority,
            "submitted_s": submitted_s,
            "progress_s": progress_s,
            "first_started_s": first_started_s,
            "forgiven_s": forgiven_s,
            "requeued_s": requeued_s,
        }
        for (
            pk, state, leaf_id, priority, reason_code,
            submitted_s, progress_s, first_started_s, forgiven_s, requeued_s,
        ) in rows.values_list(*columns)
    }  # fmt: skip


def seen_runs(ids: Iterable[int | None]) -> dict[int | None, dict[str, Any]]:
    """By id: state, and the instants that may still change. What it holds, its path and its contract never do."""
    rows = Run.objects.filter(pk__in={pk for pk in ids if pk is not None}).order_by()
    columns = ("pk", "state", Second("running_at"), Second("leave_by"), Second("ended_at"))
    return {
        pk: {"state": state, "running_s": running_s, "leave_by_s": leave_by_s, "ended_s": ended_s}
        for pk, state, running_s, leave_by_s, ended_s in rows.values_list(*columns)
    }


def seen_nodes(ids: Iterable[int | None]) -> dict[int | None, dict[str, Any]]:
    """By id: health, dwell, drain, capacity, cores, memory, class, what others hold, rack, rail, leaf, windows."""
    wanted = {pk for pk in ids if pk is not None}
    if not wanted:
        return {}
    return {pk: values for pk, _name, values in nodes_as_seen(Node.objects.filter(pk__in=wanted))}


def nodes_as_seen(nodes: QuerySet[Node]) -> list[tuple[int, str, dict[str, Any]]]:
    """(id, name, values) of these nodes, by name; the values are those of `seen_nodes`. Two queries."""
    windows: dict[int, list[list[int]]] = {}
    planned = MaintenanceWindow.objects.filter(node__in=nodes.order_by().values("pk"), cancelled_at=None)
    for node_id, starts_s, ends_s in planned.order_by("starts_at", "pk").values_list(
        "node_id", Second("starts_at"), Second("ends_at")
    ):
        windows.setdefault(node_id, []).append([starts_s, ends_s])
    columns = (
        "pk",
        "name",
        "health",
        Second("healthy_since"),
        ExpressionWrapper(Q(drain_asked_at__isnull=False), BooleanField()),
        ExpressionWrapper(Q(retired_at__isnull=False), BooleanField()),
        "rack__name",
        "rail",
        "leaf",
        Count("devices"),
        "taken_milli",
        "cpu_milli",
        "memory_mib",
        "gpu_class",
    )
    return [
        (
            pk,
            name,
            {
                "health": health,
                "healthy_since_s": healthy_since_s,
                "drains": drains,
                "retired": is_retired,
                "rack": rack or "",
                "rail": rail,
                "leaf": leaf,
                "devices": devices,
                "windows": windows.get(pk, []),
                "taken_milli": taken_milli,
                "cpu_milli": cpu_milli,
                "memory_mib": memory_mib,
                "gpu_class": gpu_class,
            },
        )
        for (
            pk, name, health, healthy_since_s, drains, is_retired, rack, rail, leaf, devices, taken_milli,
            cpu_milli, memory_mib, gpu_class,
        ) in nodes.order_by("name").values_list(*columns)
    ]  # fmt: skip


# --- wake-ups ---------------------------------------------------------------------------------------------------------


def wake(cluster_id: int) -> None:
    """Once the transaction is committed, have the cluster's loop look at it at once, on a worker.

    Never waits and never fails: where the broker does not answer, the next tick does the same work.
    """
    call = WakeUp(cluster_id)
    if not any(entry[1] == call for entry in connection.run_on_commit):  # once a transaction is enough
        transaction.on_commit(call, robust=True)


@dataclass(frozen=True, slots=True)
class WakeUp:
    """A wake-up that is sent when it is called."""

    cluster_id: int

    def __call__(self) -> None:
        """Send it, if there is a broker that takes it."""
        global _no_broker_until_s
        now_s = time.monotonic()
        if not settings.CELERY_BROKER_URL or now_s < _no_broker_until_s:
            return
        if now_s < _woken_s.get(self.cluster_id, float("-inf")) + WAKE_EVERY_S:
            return
        _woken_s[self.cluster_id] = now_s
        try:
            current_app.send_task(
                "scheduler.tasks.look_at",
                args=[self.cluster_id],
                expires=WAKE_EXPIRES_S,
                ignore_result=True,
                retry=False,
            )
        except Exception as error:  # whatever kombu or the socket raises: the submission stands, and the tick comes
            _no_broker_until_s = time.monotonic() + BROKER_AWAY_S
            log.warning("wake_up_not_sent", cluster_id=self.cluster_id, error=str(error))
