"""What ranks of jobs report of their throughput, by the note that `allotment-report` leaves (executors/reports.py).

Whoever looks at Slurm reads it, so the folder of workloads must be readable from there; else nothing is told.
"""

from __future__ import annotations

from scheduler.executors import reports
from scheduler.executors.base import RankFact, RankState
from scheduler.executors.minder import boottime_s
from scheduler.models import Rank
from scheduler.services import facts
from scheduler.services.facts import Said
from scheduler.services.slurm import folders, printed
from scheduler.services.slurm.checkpoints import began_s
from scheduler.services.slurm.jobs import Ours


def take(ours: Ours) -> None:
    """Tell what jobs that run report; what was told before is no news (services/throughput.py)."""
    said = []
    for row, _is_over in printed.chosen(ours):
        run = row.run
        if run is None or run.running_at is None:
            continue
        place = next((each for each in ours.ranks.get(run.pk, ()) if each.state == Rank.State.RUNNING), None)
        directory = folders.inside(ours.link.folder, row.workload.code)
        if place is None or not directory:
            continue
        report = reports.read(directory, began_s(run.running_at, ours.now))
        if report is not None:
            fact = RankFact(
                run.pk,
                place.rank,
                RankState.RUNNING,
                began_age_s=0,
                report_age_s=int(max(boottime_s() - report.at_s, 0)),
                tokens=report.tokens,
                span_ms=report.span_ms,
                parameters=report.parameters,
            )
            said.append(Said(place.node_id, fact, ours.now))
    if said:
        facts.report_all(cluster_id=ours.link.cluster_id, said=said)
