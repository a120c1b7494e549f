"""Carries the runs of simulated clusters out: what invented nodes have to report goes the way of every fact."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from budgets.models import Cluster
from scheduler.executors.base import RankFact
from scheduler.executors.simulated import Happening, SimulatedRun, next_happening
from scheduler.models import Node, Rank, Run
from scheduler.services import events, facts


def advance(cluster: Cluster, now: datetime) -> bool:
    """Report what has happened on invented nodes up to `now`, in order of time. Whether anything has.

    Doing it twice, or from two processes at once, changes nothing more: facts are idempotent.
    """
    reported: set[tuple[int, Happening]] = set()
    nodes: dict[str, Node] = {}
    while due := _due(cluster, int(now.timestamp()), reported):
        nodes = nodes or {node.name: node for node in Node.objects.filter(cluster=cluster)}
        for happening, run in due:
            _report(run, happening, nodes)
            reported.add((run.run, happening))
    return bool(reported)


def next_at(cluster: Cluster) -> datetime | None:
    """When an invented node will have something to report next; None if never."""
    instants = [happening.at_s for happening, _ in _happenings(cluster)]
    return datetime.fromtimestamp(min(instants), UTC) if instants else None


def _due(cluster: Cluster, now_s: int, reported: set[tuple[int, Happening]]) -> list[tuple[Happening, SimulatedRun]]:
    """What is due and was not reported: another process may have been quicker, and then a report changes nothing."""
    due = [
        (happening, run)
        for happening, run in _happenings(cluster)
        if happening.at_s <= now_s and (run.run, happening) not in reported
    ]
    return sorted(due, key=lambda each: (each[0].at_s, each[1].run))


def _happenings(cluster: Cluster) -> list[tuple[Happening, SimulatedRun]]:
    ranks: dict[int, list[tuple[int, str]]] = {}
    rows = Rank.objects.filter(run__cluster=cluster).exclude(run__state=Run.State.ENDED)
    for run_id, index, name in rows.order_by("run", "index").values_list("run_id", "index", "node__name"):
        ranks.setdefault(run_id, []).append((index, name))
    runs = Run.objects.filter(cluster=cluster).exclude(state=Run.State.ENDED).select_related("workload")
    found = []
    for row in runs.order_by("pk"):
        run = SimulatedRun(
            run=row.pk,
            number=row.number,
            workload=row.workload.code,
            ranks=ranks.get(row.pk, []),
            started_s=int(row.started_at.timestamp()),
            running_s=events.second(row.running_at),
            stop_asked_s=events.second(row.stop_asked_at),
            leave_by_s=events.second(row.leave_by),
            progress_s=row.workload.progress_s,
            environment=row.workload.environment,
        )
        happening = next_happening(run)
        if happening is not None:
            found.append((happening, run))
    return found


def _report(run: SimulatedRun, happening: Happening, nodes: Mapping[str, Node]) -> None:
    """Each node of the run reports its rank, at the instant at which it happened."""
    at = datetime.fromtimestamp(happening.at_s, UTC)
    has_begun = run.running_s is not None
    for index, name in run.ranks:
        is_exit = happening.exit_code is not None
        fact = RankFact(
            run=run.run,
            rank=index,
            state=happening.state,
            began_age_s=0 if not is_exit else (happening.at_s - run.running_s if run.running_s is not None else None),
            exited_age_s=0 if is_exit else None,
            exit_code=happening.exit_code,
            cause=happening.cause,
            message="" if has_begun or not is_exit else "told to stop while it was starting up",
        )
        facts.report(node=nodes[name], facts=[fact], now=at)
