"""The cluster's event log, the order in which its writers go, and the wake-up of its loop.

Everything that changes what a pass would see is written inside `changing(cluster_id)`: writers of one cluster go one
after the other, from before their first event until their commit. So event ids rise in commit order, a pass that read
up to some id saw everything up to it and nothing after, and no two writers wait for each other in a circle: the
cluster's lock comes first, rows after it.

Session and transaction locks are PostgreSQL advisory locks of two integers: one of the classes below, and the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import structlog
from celery import current_app
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from budgets.models import Person
from scheduler.models import Event, MaintenanceWindow, Node, Pass, Run, Workload

log = structlog.get_logger(__name__)

WRITERS_LOCK = 0x414C01
"""Class of the transaction lock that a cluster's writers take."""
PASS_LOCK = 0x414C02
"""Class of the session lock that a cluster's pass holds (scheduler.loop)."""
WAKE_EXPIRES_S = 10
"""A wake-up nobody took by then is worthless: the next tick does its work."""

AFTER = "waiting_after"
"""Reason code of a held workload that waits for the end of another one; the engine does not see it yet."""


class Kind(StrEnum):
    """What happened."""

    SUBMITTED = "submitted"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    CANCEL_ASKED = "cancel_asked"
    HELD = "held"
    RELEASED = "released"
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


@contextmanager
def changing(cluster_id: int) -> Iterator[None]:
    """A transaction of a writer of this cluster; inside another one it joins it."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [WRITERS_LOCK, cluster_id])
        yield


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
        Event.objects.bulk_create(
            Event(
                cluster_id=cluster_id,
                at=when,
                kind=line.kind,
                workload_id=line.workload_id,
                run_id=line.run_id,
                node_id=line.node_id,
                made_in=made_in,
                person_id=None if by is None else by.pk,
                data=dict(line.data)
                | ({"workload": workloads[line.workload_id]} if line.workload_id in workloads else {})
                | ({"run": runs[line.run_id]} if line.run_id in runs else {})
                | ({"node": nodes[line.node_id]} if line.node_id in nodes else {}),
            )
            for line in lines
        )


# --- what a pass sees of a row, in JSON: instants are whole seconds of Unix time --------------------------------------


def second(instant: datetime | None) -> int | None:
    """An instant as whole seconds of Unix time."""
    return None if instant is None else int(instant.timestamp())


def seen_workloads(ids: Iterable[int | None]) -> dict[int | None, dict[str, Any]]:
    """By id: state, leaf and priority. Size, contract, submission and pin never change."""
    rows = Workload.objects.filter(pk__in={pk for pk in ids if pk is not None})
    columns = ("state", "leaf_id", "priority", "reason_code", "submitted_at")
    return {row.pk: seen_workload(row) for row in rows.only(*columns)}


def seen_workload(row: Workload) -> dict[str, Any]:
    """As `seen_workloads`; one that waits for another's end is told apart from one that a pass held."""
    state = AFTER if row.state == Workload.State.HELD and row.reason_code == AFTER else row.state
    return {"state": state, "leaf": row.leaf_id, "priority": row.priority, "submitted_s": second(row.submitted_at)}


def seen_runs(ids: Iterable[int | None]) -> dict[int | None, dict[str, Any]]:
    """By id: state, and the instants that may still change. What it holds, its path and its contract never do."""
    rows = Run.objects.filter(pk__in={pk for pk in ids if pk is not None})
    return {row.pk: seen_run(row) for row in rows.only("state", "leaf_id", "running_at", "leave_by", "ended_at")}


def seen_run(row: Run) -> dict[str, Any]:
    """As `seen_runs`."""
    return {
        "state": row.state,
        "running_s": second(row.running_at),
        "leave_by_s": second(row.leave_by),
        "ended_s": second(row.ended_at),
    }


def seen_nodes(ids: Iterable[int | None]) -> dict[int | None, dict[str, Any]]:
    """By id: health, dwell, drain, capacity, rack and maintenance windows."""
    wanted = {pk for pk in ids if pk is not None}
    if not wanted:
        return {}
    windows: dict[int, list[list[int]]] = {}
    rows = MaintenanceWindow.objects.filter(node__in=wanted, cancelled_at=None).order_by("starts_at", "pk")
    for node_id, starts_at, ends_at in rows.values_list("node_id", "starts_at", "ends_at"):
        windows.setdefault(node_id, []).append([int(starts_at.timestamp()), int(ends_at.timestamp())])
    return {
        row.pk: seen_node(row, windows.get(row.pk, []), row.devices.count())
        for row in Node.objects.filter(pk__in=wanted).select_related("rack")
    }


def seen_node(row: Node, windows: list[list[int]], devices: int) -> dict[str, Any]:
    """As `seen_nodes`."""
    return {
        "health": row.health,
        "healthy_since_s": second(row.healthy_since),
        "drains": row.drain_asked_at is not None,
        "retired": row.retired_at is not None,
        "rack": "" if row.rack is None else row.rack.name,
        "devices": devices,
        "windows": windows,
    }


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
        if not settings.CELERY_BROKER_URL:
            return
        try:
            current_app.send_task(
                "scheduler.tasks.look_at",
                args=[self.cluster_id],
                expires=WAKE_EXPIRES_S,
                ignore_result=True,
                retry=False,
            )
        except Exception as error:  # whatever kombu or the socket raises: the submission stands, and the tick comes
            log.warning("wake_up_not_sent", cluster_id=self.cluster_id, error=str(error))
