"""The present state of a cluster for a forecast: what the next pass would see, and the past that luck is drawn from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import median_low
from typing import Any

from django.db.models import Case, DateTimeField, ExpressionWrapper, F, Q, QuerySet, Sum, When
from django.db.models.functions import Coalesce, Least
from django.utils import timezone

from budgets.models import Cluster
from scheduler import snapshots
from scheduler.engine import BudgetNode, Crowd, Health, Node, Service, Snapshot
from scheduler.models import NodeSpell, Run, Workload
from scheduler.services.usage_sql import CREDITED
from scheduler.simulator.before import Before
from scheduler.simulator.forecast import Present, Standing
from scheduler.simulator.known import ENDED_BY_ITSELF, KNOWN_FOR_S, in_slots
from scheduler.simulator.likely import Arrival, Arrivals, Durations, Like
from scheduler.simulator.scenario import PastUse
from scheduler.snapshots import Loaded
from scheduler.snapshots.positions import Positions

MOST_PAST = 20_000
"""The latest workloads from which luck is drawn; more would say nothing else."""
USUAL_RUNS = 400
"""Runs from which it is taken how long starting and leaving takes."""


def present(cluster: Cluster, now: datetime | None = None) -> tuple[Present, Loaded]:
    """The state of a cluster on a clock that reads 0, and the snapshot that it was read with.

    Where a leaf was moved or closed since, its past counts where the snapshot has it.
    """
    loaded = snapshots.load(cluster, now)
    snapshot, now_s = loaded.snapshot, loaded.now_s
    positions = Positions(loaded.tree_version.nodes)
    past = _past(cluster, loaded.now, positions, set(snapshot.tree.nodes))
    nodes = [_node(node, now_s) for node in snapshot.nodes.by_name.values()]
    startup_s, exit_s = _usual(cluster)
    return (
        Present(
            nodes=nodes,
            tree=_tree(snapshot),
            policy=loaded.policy,
            work=_work(cluster, snapshot, now_s),
            durations=Durations((each.like, each.work_s) for each in past if each.work_s is not None),
            arrivals=Arrivals(past, _known_for_s(past), timezone.localtime(loaded.now).weekday()),
            history=in_slots(_history(loaded, positions, set(snapshot.tree.nodes))),
            claims=[replace(each, made_s=each.made_s - now_s) for each in snapshot.claims.values()],
            reservations=[
                replace(each, at_s=each.at_s - now_s, made_s=each.made_s - now_s)
                for each in snapshot.reservations.values()
            ],
            unit=snapshot.unit,
            startup_s=startup_s,
            exit_s=exit_s,
            repairs_s=_repairs_s(cluster, loaded.now),
            unfit_since_s=_unfit_since_s(loaded, nodes),
            crowds=_crowds(snapshot),
        ),
        loaded,
    )


# --- what stands now --------------------------------------------------------------------------------------------------


def _tree(snapshot: Snapshot) -> list[BudgetNode]:
    return [
        BudgetNode(
            id=node.id,
            parent=None if node.parent is None else node.parent.id,
            shares=node.shares,
            whole=node.whole,
            closed=node.closed,
            minimum_milli=node.minimum_milli,
            maximum_milli=node.maximum_milli,
            cells=node.cells,
            factor_milli=node.factor_milli,
        )
        for node in snapshot.tree.nodes.values()
    ]


def _node(node: Any, now_s: int) -> Node:
    return Node(
        name=node.name,
        capacity_milli=node.capacity_milli,
        rack=node.rack,
        rail=node.rail,
        leaf=node.leaf,
        health=node.health,
        windows=tuple((start_s - now_s, until_s - now_s) for start_s, until_s in node.windows),
        usable_from_s=None if node.usable_from_s is None else node.usable_from_s - now_s,
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        gpu_class=node.gpu_class,
    )


def _work(cluster: Cluster, snapshot: Snapshot, now_s: int) -> list[Standing]:
    """Everybody who waits or runs, with what the engine does not know of them."""
    rows = {
        row.code: row
        for row in Workload.objects.filter(cluster=cluster, state__in=Workload.OPEN_STATES).only(
            "code", "owner_id", "workload_class", "resumable", "progress_s", "priority", "time_limit_s",
            "size_milli", "min_runtime_s", "submitted_at", "first_started_at", "cancel_asked_at", "node", "gpu_classes",
            "needs_fast", "locality", "requeued_at",
        ).select_related("node")
    }  # fmt: skip
    reasons = dict(
        Run.objects.filter(cluster=cluster, state=Run.State.LEAVING).values_list("workload__code", "end_reason")
    )
    running = {run.workload: run for run in snapshot.runs.values()}
    found = []
    for code in sorted(snapshot.queued.keys() | running.keys()):
        row = rows.get(code)
        if row is None:  # it ended since the snapshot was read
            continue
        run = running.get(code)
        leaf = run.leaf.id if run is not None else snapshot.queued[code].leaf
        standing = _standing(row, leaf, run, reasons.get(code, ""), now_s)
        found.append(_with_facts(standing, snapshot.queued[code] if run is None else run, now_s))
    return found


def _standing(row: Workload, leaf: str, run: Any, reason: str, now_s: int) -> Standing:
    submitted_s = min(0, int(row.submitted_at.timestamp()) - now_s)
    first_s = None if row.first_started_at is None else min(0, int(row.first_started_at.timestamp()) - now_s)
    requeued_s = None if row.requeued_at is None else min(0, int(row.requeued_at.timestamp()) - now_s)
    before = Before(submitted_s, first_s, row.progress_s, waits_since_s=requeued_s)
    going_s = 0
    if run is not None:
        running_s = None if run.running_s is None else run.running_s - now_s
        going_s = 0 if running_s is None or run.leave_by_s is not None else -running_s
        before = replace(
            before,
            holdings=run.holdings,
            since_s=run.started_s - now_s,
            running_s=running_s,
            is_funded=run.funded,
        )
    return Standing(
        id=row.code,
        like=_like(row.owner_id, leaf, row.workload_class, row.size_milli, row.min_runtime_s),
        before=before,
        priority=row.priority,
        node=row.node.name if row.node else None,
        is_resumable=row.resumable,
        going_s=going_s,
        leaves_as=(reason or "drained") if run is not None and run.leave_by_s is not None else "",
        is_cancelled=row.cancel_asked_at is not None,
        limit_s=row.time_limit_s,
        gpu_classes=tuple(row.gpu_classes),
        is_high=row.needs_fast,
        locality=row.locality,
    )


def _with_facts(standing: Standing, seen: Any, now_s: int) -> Standing:
    """The same, with what the engine has of it, waiting or running, that rows do not say as they stand."""
    service: Service = seen.service
    came = service.arrival
    return replace(
        standing,
        cpu_milli=seen.cpu_milli,
        memory_mib=seen.memory_mib,
        predicted_s=service.predicted_s,
        forgiven_s=service.forgiven_s,
        arrival=None if came is None else came._replace(at_s=came.at_s - now_s, since_s=came.since_s - now_s),
    )


def _crowds(snapshot: Snapshot) -> dict[str, Crowd]:
    """Who contends inside leaves, with the time that they have been counted for until now."""
    if snapshot.crowds is None:
        return {}
    return {
        leaf: Crowd(crowd.number, snapshot.crowds.total_s(leaf, snapshot.now_s))
        for leaf, crowd in snapshot.crowds.at_round.items()
    }


def _like(owner_id: int | None, leaf: str, kind: str, size_milli: int, min_runtime_s: int) -> Like:
    return Like("" if owner_id is None else str(owner_id), leaf, kind, size_milli, min_runtime_s)


def _history(loaded: Loaded, positions: Positions, leaves: set[str]) -> Iterable[PastUse]:
    """What ended runs used inside the lookback."""
    since = loaded.now - timedelta(seconds=loaded.policy.lookback_s)
    rows = Run.objects.filter(cluster=loaded.cluster, ended_at__gt=since, ended_at__lte=loaded.now).order_by()
    for path, size_milli, funded, reason, started_at, ended_at in rows.values_list(
        "path", "size_milli", "funded", "end_reason", "started_at", "ended_at"
    ):
        leaf = positions.of_path(path)
        if leaf in leaves and ended_at is not None:
            from_s, until_s = (int(at.timestamp()) - loaded.now_s for at in (max(started_at, since), ended_at))
            yield PastUse(leaf, size_milli, from_s, until_s, funded and reason not in CREDITED)


# --- the past that luck is drawn from ---------------------------------------------------------------------------------


def _past(cluster: Cluster, now: datetime, positions: Positions, leaves: set[str]) -> list[Arrival]:
    """The submissions of the last weeks, with how long each ran where it ended by itself."""
    rows = (
        Workload.objects.filter(cluster=cluster, submitted_at__gt=now - timedelta(seconds=KNOWN_FOR_S))
        .filter(submitted_at__lt=now)
        .exclude(state__in=(Workload.State.REFUSED, Workload.State.HELD))
    )
    worked = _worked(rows)
    found = []
    columns = (
        "pk", "submitted_at", "owner_id", "leaf_id", "workload_class", "size_milli", "min_runtime_s", "priority",
        "resumable", "state", "progress_s", "locality", "predicted_s", "cpu_milli_per_rank", "memory_mib_per_rank",
        "gpu_classes", "needs_fast",
    )  # fmt: skip
    latest = rows.order_by("-submitted_at", "-pk").values_list(*columns, named=True)[:MOST_PAST]
    for row in latest:
        try:
            leaf = positions.of_leaf(row.leaf_id)
        except LookupError:
            continue
        if leaf not in leaves:
            continue
        has_ended = row.state in ENDED_BY_ITSELF
        found.append(
            Arrival(
                at_s=min(-1, int(row.submitted_at.timestamp()) - int(now.timestamp())),
                like=_like(row.owner_id, leaf, row.workload_class, row.size_milli, row.min_runtime_s),
                priority=row.priority,
                is_resumable=row.resumable,
                work_s=worked.get(row.pk, 0) if has_ended else None,
                done_s=0 if has_ended else row.progress_s,
                locality=row.locality,
                predicted_s=row.predicted_s,
                cpu_milli=row.cpu_milli_per_rank,
                memory_mib=row.memory_mib_per_rank,
                gpu_classes=tuple(row.gpu_classes),
                is_high=row.needs_fast,
            )
        )
    return found


def _worked(rows: QuerySet[Workload]) -> dict[int, int]:
    """How long workloads ran in all their runs, by id."""
    until = Case(
        When(stop_asked_at__isnull=False, then=Least(F("stop_asked_at"), F("ended_at"))),
        default=F("ended_at"),
        output_field=DateTimeField(),
    )
    ran = ExpressionWrapper(until, output_field=DateTimeField()) - Coalesce(F("running_at"), F("ended_at"))
    runs = Run.objects.filter(workload__in=rows.order_by().values("pk"), ended_at__isnull=False).order_by()
    sums = runs.values_list("workload").annotate(ran=Sum(ran))
    return {pk: max(0, int(each.total_seconds())) for pk, each in sums}


def _known_for_s(past: Iterable[Arrival]) -> int:
    return min(KNOWN_FOR_S, max((-each.at_s for each in past), default=1))


def _usual(cluster: Cluster) -> tuple[int, int]:
    """How long it takes from holding devices to running, and from the signal to the exit."""
    latest = Run.objects.filter(cluster=cluster, ended_at__isnull=False).order_by("-ended_at", "-pk")
    rows = list(latest.values_list("started_at", "running_at", "stop_asked_at", "ended_at")[:USUAL_RUNS])
    startups = [int((running - started).total_seconds()) for started, running, _, _ in rows if running is not None]
    exits = [int((ended - stop).total_seconds()) for _, _, stop, ended in rows if stop and ended]
    return tuple(max(0, median_low(found)) if found else 0 for found in (startups, exits))  # type: ignore[return-value]


def _repairs_s(cluster: Cluster, now: datetime) -> list[int]:
    spells = NodeSpell.objects.filter(node__cluster=cluster, ended_at__gt=now - timedelta(seconds=KNOWN_FOR_S))
    rows = spells.exclude(state=NodeSpell.State.HEALTHY).order_by("pk").values_list("started_at", "ended_at")
    return [int((ended - started).total_seconds()) for started, ended in rows if ended]


def _unfit_since_s(loaded: Loaded, nodes: Iterable[Node]) -> dict[str, int]:
    """Since when nodes are unfit that are now; those that somebody asked to drain stay so."""
    unfit = {node.name for node in nodes if node.health is not Health.HEALTHY}
    if not unfit:
        return {}
    spells = NodeSpell.objects.filter(
        Q(node__drain_asked_at=None), node__cluster=loaded.cluster, node__name__in=unfit, ended_at=None
    ).exclude(state=NodeSpell.State.HEALTHY)
    return {
        name: min(0, int(started.astimezone(UTC).timestamp()) - loaded.now_s)
        for name, started in spells.values_list("node__name", "started_at")
    }
