"""What ranks of jobs print: read from their files, where the folder of workloads can be read from here.

Owners can put anything into their directories, also links: nothing is followed below the folder, and only plain files
are read, so that nobody can have the portal read to them what is not theirs. Secrets are taken out before anything is
kept; what may be the beginning of one waits until more has come, or its job is over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from django.db.models import F, Max

from budgets.sealing import CannotOpen
from scheduler.executors.hiding import Hiding
from scheduler.executors.slurm import script
from scheduler.executors.slurm.jobs import ENDED
from scheduler.models import LogChunk, Node, Run, SlurmJob
from scheduler.services import output
from scheduler.services.slurm import folders
from scheduler.services.slurm.jobs import Ours, Place

RUNNING_A_LOOK = 50
"""So many running jobs are read in one look, in turn; those that have just ended, always."""
PIECES_MAX = 16
"""Of one rank in one look."""


def take(ours: Ours) -> None:
    """Keep what is new, before facts end the runs that it belongs to."""
    folder = ours.link.folder
    if not folders.is_readable(folder):
        return
    rows = list(chosen(ours))
    kept = _kept([row.run_id for row, _is_over in rows if row.run_id is not None])
    nodes = Node.objects.in_bulk(
        {place.node_id for row, _over in rows for place in ours.ranks.get(row.run_id or 0, ())}
    )
    for row, is_over in rows:
        for place in ours.ranks.get(row.run_id or 0, ()):
            name = script.output_of(row.run_id or 0, place.rank)
            with folders.opened(folder, row.workload.code, script.OWN_FOLDER, name) as file:
                if file is not None:
                    offset = kept.get((row.run_id or 0, place.rank), 0)
                    _keep(file, row, place, nodes[place.node_id], offset, is_over)


def chosen(ours: Ours) -> Iterator[tuple[SlurmJob, bool]]:
    """The jobs that are read in this look, and whether each is over."""
    going = []
    for row in ours.rows.values():
        job = ours.job_of(row)
        if job is None or row.run is None or row.run.state == Run.State.ENDED:
            continue
        if job.state in ENDED or job.restarts > row.restarts:
            yield row, True
        elif job.holds:
            going.append(row)
    start = int(ours.now.timestamp()) // 2 * RUNNING_A_LOOK % len(going) if going else 0
    yield from ((row, False) for row in (going + going)[start : start + min(RUNNING_A_LOOK, len(going))])


def _kept(run_ids: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where what is kept ends, by run and rank."""
    rows = LogChunk.objects.filter(rank__run__in=run_ids).values_list("rank__run", "rank__index").order_by()
    return {(run, rank): end for run, rank, end in rows.annotate(end=Max(F("offset") + F("length")))}


def _keep(file: int, row: SlurmJob, place: Place, node: Node, offset: int, is_over: bool) -> None:
    try:
        secrets = dict(row.workload.secrets)
    except CannotOpen:
        return  # nobody can say what must not be shown
    for _piece in range(PIECES_MAX):
        data = os.pread(file, output.CHUNK_MAX_BYTES, offset)
        hiding = Hiding(secrets)
        shown = hiding.feed(data)
        held = len(hiding.rest_bytes)
        if held and is_over and len(data) < output.CHUNK_MAX_BYTES:
            shown, held = shown + hiding.rest(), 0
        data = data[: len(data) - held]
        if not data:
            return
        end = output.keep(
            node=node, run_id=row.run_id or 0, rank_index=place.rank, offset=offset, data=data, shown=shown
        )
        if end is None or end <= offset:
            return
        offset = end
