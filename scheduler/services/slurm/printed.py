"""What ranks of jobs print: read from their files, where the folder of workloads can be read from here.

Owners can put anything into their directories, also links: nothing is followed below the folder, and only plain files
are read, so that nobody can have the portal read to them what is not theirs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from django.db.models import F, Max

from scheduler.executors.slurm import commands
from scheduler.executors.slurm.jobs import ENDED
from scheduler.models import LogChunk, Node, Run, SlurmJob
from scheduler.services import output
from scheduler.services.slurm.jobs import Ours, Place

RUNNING_A_LOOK = 50
"""So many running jobs are read in one look, in turn; those that have just ended, always."""
PIECES_MAX = 16
"""Of one rank in one look."""


def take(ours: Ours) -> None:
    """Keep what is new, before facts end the runs that it belongs to."""
    folder = ours.link.folder
    if not folder or not os.path.isdir(folder):
        return
    rows = list(_chosen(ours))
    kept = _kept([row.run_id for row in rows if row.run_id is not None])
    nodes = Node.objects.in_bulk({place.node_id for row in rows for place in ours.ranks.get(row.run_id or 0, ())})
    for row in rows:
        for place in ours.ranks.get(row.run_id or 0, ()):
            _take(folder, row, place, nodes[place.node_id], kept.get((row.run_id or 0, place.rank), 0))


def _chosen(ours: Ours) -> Iterator[SlurmJob]:
    going = []
    for row in ours.rows.values():
        job = ours.job_of(row)
        if job is None or row.run is None or row.run.state == Run.State.ENDED:
            continue
        if job.state in ENDED or job.restarts > row.restarts:
            yield row
        elif job.holds:
            going.append(row)
    start = int(ours.now.timestamp()) // 2 * RUNNING_A_LOOK % len(going) if going else 0
    yield from (going + going)[start : start + min(RUNNING_A_LOOK, len(going))]


def _kept(run_ids: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where what is kept ends, by run and rank."""
    rows = LogChunk.objects.filter(rank__run__in=run_ids).values_list("rank__run", "rank__index").order_by()
    return {(run, rank): end for run, rank, end in rows.annotate(end=Max(F("offset") + F("length")))}


def _take(folder: str, row: SlurmJob, place: Place, node: Node, offset: int) -> None:
    try:
        with ExitStack() as open_ones:
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            open_ones.callback(os.close, directory)
            for name in (row.workload.code, commands.OWN_FOLDER):
                directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
                open_ones.callback(os.close, directory)
            name = commands.output_of(row.run_id or 0, place.rank)
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
            open_ones.callback(os.close, file)
            if stat.S_ISREG(os.fstat(file).st_mode):
                _keep(file, row, place, node, offset)
    except OSError:
        return  # it has printed nothing yet, or its directory is not what it was


def _keep(file: int, row: SlurmJob, place: Place, node: Node, offset: int) -> None:
    for _piece in range(PIECES_MAX):
        data = os.pread(file, output.CHUNK_MAX_BYTES, offset)
        if not data:
            return
        end = output.keep(node=node, run_id=row.run_id or 0, rank_index=place.rank, offset=offset, data=data)
        if end is None or end <= offset:
            return
        offset = end
