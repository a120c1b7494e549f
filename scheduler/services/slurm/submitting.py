"""Submitting the job of a workload, held: for the run that it has just been given, or ahead of its first one."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterable

from budgets.models import Cluster
from budgets.sealing import CannotOpen
from scheduler.executors.base import Cause, RankState
from scheduler.executors.slurm import Refused, commands
from scheduler.executors.slurm.commands import Shape
from scheduler.executors.slurm.script import script_of
from scheduler.models import Device, Run, SlurmJob, Workload
from scheduler.services import workloads
from scheduler.services.secret_variables import NOT_OPENED
from scheduler.services.slurm.works import Desk, Works

AHEAD_A_LOOK = 20
"""So many waiting workloads are submitted in one look: what starts next does not wait behind them."""
FIRST_PERSON = 1_000
"""Users below this are the system's: no job runs as one of them, whatever a person here is called."""


def restores(workload: Workload) -> bool:
    """Whether the workload's next run is another command than its first."""
    return bool(workload.restore_command) and Run.objects.filter(workload=workload, saved=True).exists()


def submit(works: Works, desk: Desk, workload: Workload, shape: Shape) -> SlurmJob | None:
    """Submit a workload's job, held. None where that did not happen; a run that waits for it has then failed.

    Raises:
        Unreachable: no answer: if it was submitted after all, the next look finds it.
    """
    try:
        job = works.submission(workload, shape, restores(workload))
    except CannotOpen:
        _cannot_submit(works, desk, workload, NOT_OPENED)
        return None
    if not desk.link.writes:
        desk.planned.append(commands.shown(commands.submit(job, f"{workload.code}.sh")))
        return None
    with tempfile.TemporaryDirectory(prefix="allotment-slurm-") as folder:
        script = os.path.join(folder, "job.sh")
        with open(os.open(script, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write(script_of(job, os.path.dirname(shutil.which("sbatch") or "")))
        try:
            if job.user:
                _hand_over(job.user, folder, script)
            job_id = commands.parse_submitted(desk.caller(commands.submit(job, script)))
        except (Refused, ValueError) as error:
            _cannot_submit(works, desk, workload, str(error))
            return None
    desk.done += 1
    return SlurmJob.objects.create(
        cluster=works.link.cluster, workload=workload, job_id=job_id, shape=str(shape), submitted_at=works.now
    )


def _cannot_submit(works: Works, desk: Desk, workload: Workload, why: str) -> None:
    """Say so, and let a run that waits for its job fail."""
    desk.troubles.append(f"{workload.code}: {why}"[:400])
    run = works.by_workload.get(workload.pk)
    if run is not None:
        works.fail(run, RankState.FAILED, Cause.ITSELF, why, None)


def _hand_over(user: str, folder: str, script: str) -> None:
    """Let nobody but the owner of a job read its script: their variables stand in it.

    Raises:
        Refused: nobody of that name can own a job here.
    """
    uid = _user_id(user)
    if uid is None:
        raise Refused(f"{user} is no user whose jobs can run here")
    try:
        os.chmod(folder, 0o711)
        os.chown(script, uid, -1)
    except PermissionError:
        raise Refused("only root can submit jobs as their owners") from None


def _user_id(user: str) -> int | None:
    """The Unix user that a person is; None where there is none, or it is one of the system's."""
    try:
        found = pwd.getpwnam(user).pw_uid
    except KeyError:
        return None
    return found if found >= FIRST_PERSON else None


def submit_ahead(works: Works, desk: Desk) -> None:
    """Let the next ones wait in Slurm, held: people see them there, and their start is one command less."""
    known = set(works.ours.rows)
    if len(known) >= works.link.held_ahead or works.link.held_ahead == 0:
        return
    sizes = _node_sizes(works.link.cluster)
    waiting = Workload.objects.filter(cluster=works.link.cluster, state=Workload.State.QUEUED).exclude(pk__in=known)
    rows = waiting.select_related("owner", "leaf").order_by("place", "submitted_at", "pk")
    for workload in rows[: min(AHEAD_A_LOOK, works.link.held_ahead - len(known))]:
        shape = _shape_ahead(workload, sizes, works.unit)
        if shape is not None:
            submit(works, desk, workload, shape)


def _node_sizes(cluster: Cluster) -> set[int]:
    counts: dict[int, int] = {}
    for node_id in Device.objects.filter(node__cluster=cluster, node__retired_at=None).values_list(
        "node_id", flat=True
    ):
        counts[node_id] = counts.get(node_id, 0) + 1
    return set(counts.values())


def _shape_ahead(workload: Workload, sizes: Iterable[int], unit: str) -> Shape | None:
    """What its job will ask for, where that can be said now: nodes of one size, or a part of one node."""
    devices = -(-workload.size_milli // workloads.WHOLE_DEVICE_MILLI)
    largest, smallest = max(sizes, default=0), min(sizes, default=0)
    if devices <= smallest:
        return Shape(1, devices, unit)
    return Shape(-(-devices // largest), largest, unit) if largest and largest == smallest else None
