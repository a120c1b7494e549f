"""Carries the runs of simulated clusters out: what invented nodes have to report goes the way of every fact."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

from budgets.models import Cluster
from scheduler.executors.base import RankFact
from scheduler.executors.simulated import Happening, SimulatedRun, next_happening
from scheduler.models import Rank, Run
from scheduler.services import facts
from scheduler.services.events import Second
from scheduler.services.facts import Said

BATCH = 500
"""So many runs report in one transaction: a pass that is due meanwhile waits for a fraction of a second."""


class Simulated:
    """The executor of clusters of invented nodes."""

    def tell(self, cluster_id: int, node_ids: Collection[int]) -> None:
        """Nothing: what they do follows from the rows."""

    def poll(self, cluster_id: int, now: datetime) -> bool:
        """What they have to report by now."""
        return advance(Cluster.objects.get(pk=cluster_id), now)


def advance(cluster: Cluster, now: datetime) -> bool:
    """Report what has happened on invented nodes up to `now`, in order of time. Whether anything has.

    Doing it twice, or from two processes at once, changes nothing more: facts are idempotent.
    """
    reported: set[tuple[int, Happening]] = set()
    runs = going(cluster)
    while due := _due(runs, int(now.timestamp()), reported):
        for first in range(0, len(due), BATCH):
            part = due[first : first + BATCH]
            facts.report_all(cluster_id=cluster.pk, said=_said(part))
            reported |= {(run.run, happening) for happening, run in part}
        # Only what has just begun, or was told to stop since, can have anything more to say.
        runs = going(cluster, only=[run.run for _happening, run in due])
    return bool(reported)


def _due(
    runs: Iterable[SimulatedRun], now_s: int, reported: set[tuple[int, Happening]]
) -> list[tuple[Happening, SimulatedRun]]:
    """What is due and was not reported: another process may have been quicker, and then a report changes nothing."""
    due = [
        (happening, run)
        for run in runs
        if (happening := next_happening(run)) is not None
        and happening.at_s <= now_s
        and (run.run, happening) not in reported
    ]
    return sorted(due, key=lambda each: (each[0].at_s, each[1].run))


def going(cluster: Cluster, only: Collection[int] | None = None) -> list[SimulatedRun]:
    """Runs that have not ended, as their invented nodes see them: all, or those of these ids."""
    runs = Run.objects.filter(cluster=cluster).exclude(state=Run.State.ENDED)
    if only is not None:
        runs = runs.filter(pk__in=only)
    rows = runs.order_by("pk").values_list(
        "pk",
        "number",
        "workload__code",
        Second("started_at"),
        Second("running_at"),
        Second("stop_asked_at"),
        Second("leave_by"),
        "workload__progress_s",
        "workload__environment",
    )
    return [SimulatedRun(*row) for row in rows]


def _said(due: Sequence[tuple[Happening, SimulatedRun]]) -> list[Said]:
    """Each node of each run reports its rank, at the instant at which it happened."""
    ranks: dict[int, list[tuple[int, int]]] = {}
    rows = Rank.objects.filter(run__in=[run.run for _happening, run in due]).order_by("run_id", "index")
    for run_id, index, node_id in rows.values_list("run_id", "index", "node_id"):
        ranks.setdefault(run_id, []).append((index, node_id))
    return [
        Said(node_id, _fact(run, happening, index), datetime.fromtimestamp(happening.at_s, UTC))
        for happening, run in due
        for index, node_id in ranks.get(run.run, ())
    ]


def _fact(run: SimulatedRun, happening: Happening, rank: int) -> RankFact:
    is_exit = happening.exit_code is not None
    began_age_s = 0 if not is_exit else (happening.at_s - run.running_s if run.running_s is not None else None)
    return RankFact(
        run=run.run,
        rank=rank,
        state=happening.state,
        began_age_s=began_age_s,
        exited_age_s=0 if is_exit else None,
        exit_code=happening.exit_code,
        cause=happening.cause,
        message="told to stop while it was starting up" if is_exit and run.running_s is None else "",
    )
