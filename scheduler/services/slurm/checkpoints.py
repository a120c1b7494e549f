"""When ranks of jobs last wrote their checkpoints, and whether one is worth waiting for: by their files' times.

As on nodes with agents (executors/checkpoints.py): the path that was said, or the note that `allotment-checkpoint`
writes. Here whoever looks at Slurm reads them, so the folder of workloads must be readable from there; else nothing is
claimed, and whoever is told to stop is told at once.
"""

from __future__ import annotations

import os
from datetime import datetime

from scheduler.executors.base import RankFact, RankState
from scheduler.executors.checkpoints import Checkpoints
from scheduler.executors.minder import MARGIN_MAX_S, boottime_s
from scheduler.models import Rank, Run, SlurmLink, Workload
from scheduler.services import facts
from scheduler.services.facts import Said
from scheduler.services.slurm import folders, printed
from scheduler.services.slurm.jobs import Ours

_watched: dict[int, dict[int, Checkpoints]] = {}
"""By cluster and run, as they were seen in earlier looks. Lost with the process: then what is there is read anew."""
_told: dict[int, float] = {}
"""By run, the last one that was told."""


def take(ours: Ours) -> None:
    """Tell what is new about checkpoints of jobs that run, or have just ended."""
    said = []
    for row, _is_over in printed.chosen(ours):
        run = row.run
        seen = None if run is None else look(ours.link, run, row.workload, ours.now)
        if run is None or seen is None or seen.last_s is None or _told.get(run.pk) == seen.last_s:
            continue
        _told[run.pk] = seen.last_s
        age_s = int(max(boottime_s() - seen.last_s, 0))
        said += [
            Said(
                place.node_id,
                RankFact(run.pk, place.rank, RankState.RUNNING, began_age_s=0, checkpoint_age_s=age_s),
                ours.now,
            )
            for place in ours.ranks.get(run.pk, ())
            if place.state == Rank.State.RUNNING
        ]
    if said:
        facts.report_all(cluster_id=ours.link.cluster_id, said=said)
    _forget(ours)


def look(link: SlurmLink, run: Run, workload: Workload, now: datetime) -> Checkpoints | None:
    """A run's checkpoints as they are now; None where its directory cannot be read from here, or it has not begun."""
    if run.running_at is None:
        return None
    watched = _watched.setdefault(link.cluster_id, {})
    seen = watched.get(run.pk)
    if seen is None:
        parent, name = os.path.split(workload.checkpoint)
        directory, parent = (
            folders.inside(link.folder, workload.code),
            folders.inside(link.folder, workload.code, parent),
        )
        if not directory:
            return None
        spec = {
            "directory": directory,
            "checkpoint": os.path.join(parent, name) if parent and name else "",
            "checkpoint_every_s": workload.checkpoint_every_s,
        }
        seen = watched[run.pk] = Checkpoints(spec)
    seen.look(began_s(run.running_at, now))
    return seen


def began_s(running_at: datetime, now: datetime) -> float:
    """When a run began to execute, by the clock that files go by here; a second early, as rows have whole ones."""
    return boottime_s() - (now - running_at).total_seconds() - 1


def is_awaited(link: SlurmLink, run: Run, now: datetime) -> bool:
    """Whether a run that was asked to stop is about to write a checkpoint that its grace leaves time for."""
    if run.stop_asked_at is None or run.leave_by is None:
        return False
    seen = look(link, run, run.workload, now)
    if seen is None or seen.last_s is None:
        return False
    now_s = boottime_s()
    told_s = now_s - (now - run.stop_asked_at).total_seconds()
    if seen.last_s > told_s:
        return False
    grace_s = (run.leave_by - run.stop_asked_at).total_seconds()
    by_s = told_s + grace_s
    until_s = seen.wait_until_s(told_s, by_s, min(MARGIN_MAX_S, max(grace_s / 4, 0.0)))
    return until_s is not None and now_s < until_s


def _forget(ours: Ours) -> None:
    """Keep only what is still going."""
    kept = {row.run_id for row in ours.rows.values()}
    watched = _watched.get(ours.link.cluster_id, {})
    for pk in [pk for pk in watched if pk not in kept]:
        del watched[pk]
        _told.pop(pk, None)
