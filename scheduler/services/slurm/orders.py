"""What Slurm is asked to do, so that what should run does: from rows and jobs to commands, one after the other.

What waits longest for a command comes first: starts, then stops, then what nobody needs, then jobs that only wait. Each
step looks at what Slurm said in this look, and leaves the row as the next look needs it, whether its command came
through or not. With `writes` off nothing is carried out; the commands are only listed.
"""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from budgets.models import Cluster
from scheduler.executors.base import Cause, RankFact, RankState
from scheduler.executors.slurm import Refused, SlurmError, Unreachable, commands
from scheduler.executors.slurm.calling import Caller
from scheduler.executors.slurm.commands import Mark, Shape, Submission
from scheduler.executors.slurm.jobs import ENDED, WAITING, Job
from scheduler.models import Device, Holding, Rank, Run, SlurmAccount, SlurmJob, SlurmLink, Workload
from scheduler.services import facts, workloads
from scheduler.services.facts import Said
from scheduler.services.slurm.jobs import TERMINATED, Ours

log = structlog.get_logger(__name__)

AGAIN_S = 10
"""A job that was killed and is still there is killed again after so long."""
AHEAD_A_LOOK = 20
"""So many waiting workloads are submitted in one look: what starts next does not wait behind them."""
PLAN_SHOWN = 200
BEGINS_WITHIN_S = 300
"""A released job that has not begun by then has lost its nodes to somebody else's."""
FIRST_PERSON = 1_000
"""Users below this are the system's: no job runs as one of them, whatever a person here is called."""
HOPELESS = frozenset(
    {
        *("BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionNodeLimit", "PartitionTimeLimit"),
        *("AccountNotAllowed", "QOSNotAllowed", "DependencyNeverSatisfied"),
    }
)
"""Why Slurm lets a released job wait for ever: no end of another one will change that."""


@dataclass(slots=True)
class Desk:
    """Carries commands out, or lists them; counts what was done, and keeps what was refused."""

    link: SlurmLink
    caller: Caller
    done: int = 0
    planned: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def order(self, *steps: Sequence[str]) -> bool:
        """Carry out commands in this order; whether all were.

        Raises:
            Unreachable: Slurm has gone; nothing more is asked of it in this look.
        """
        if not self.link.writes:
            self.planned += [commands.shown(step) for step in steps]
            return False
        for step in steps:
            try:
                self.caller(step)
            except Unreachable:
                raise
            except SlurmError as error:
                self.troubles.append(f"{commands.shown(step)}: {error}"[:400])
                return False
            self.done += 1
        return True


def carry_out(ours: Ours, desk: Desk) -> None:
    """Bring about what should run.

    Raises:
        Unreachable: Slurm has gone meanwhile.
    """
    works = Works(ours)
    for run in works.runs:
        if run.stop_asked_at is None:
            start(works, desk, run)
    for run in works.runs:
        if run.stop_asked_at is not None:
            stop(works, desk, run)
    for row in list(ours.rows.values()):
        if row.workload_id not in works.by_workload:
            rest(works, desk, row)
    for job_id in ours.extra:
        desk.order(commands.cancel(job_id))
    submit_ahead(works, desk)


class Works:
    """Rows that a look needs, read at once: runs that have not ended, what they hold, accounts."""

    def __init__(self, ours: Ours) -> None:
        """Read them: a number of queries that no number of rows raises."""
        self.ours = ours
        self.link, self.now = ours.link, ours.now
        self.unit = "core" if ours.link.cluster.unit == Cluster.Unit.CORE else "gpu"
        rows = Run.objects.filter(cluster=ours.link.cluster).exclude(state=Run.State.ENDED)
        self.runs = list(rows.select_related("workload__owner", "workload__leaf").order_by("pk"))
        self.by_workload = {run.workload_id: run for run in self.runs}
        self.places: dict[int, list[tuple[int, str]]] = {}
        ranks = Rank.objects.filter(run__in=self.runs).order_by("run", "index")
        for run_id, node_id, name in ranks.values_list("run_id", "node_id", "node__name"):
            self.places.setdefault(run_id, []).append((node_id, name))
        self.devices: dict[int, dict[int, int]] = {}
        held = Holding.objects.filter(run__in=self.runs).values_list("run_id", "node_id")
        for run_id, node_id in held:
            by_node = self.devices.setdefault(run_id, {})
            by_node[node_id] = by_node.get(node_id, 0) + 1
        lacking = {each["account"] for each in ours.link.drift if each["commands"]}
        named = SlurmAccount.objects.filter(cluster=ours.link.cluster).exclude(name__in=lacking)
        is_known = ours.link.drift_at is not None  # an account that is not there yet would have the job refused
        self.accounts = dict(named.values_list("node_id", "name")) if is_known else {}

    def shape(self, run: Run) -> Shape:
        """What a run's job asks for: as many devices on each node as it holds on the one where it holds least."""
        held = self.devices[run.pk]
        return Shape(len(self.places[run.pk]), min(held.values()), self.unit)

    def nodes(self, run: Run) -> list[str]:
        """Its nodes, by rank."""
        return [name for _node_id, name in self.places[run.pk]]

    def submission(self, workload: Workload, shape: Shape, restores: bool) -> Submission:
        """The job of a workload."""
        limit_s = None if workload.time_limit_s is None else workload.time_limit_s + 86_400  # ours ends it, in time
        path = workload.leaf.path
        account = next((self.accounts[pk] for pk in reversed(path) if pk in self.accounts), "")
        owner = workload.owner.username if self.link.run_as_owner and workload.owner is not None else ""
        return Submission(
            mark=Mark(self.link.token, workload.code, 0),
            shape=shape,
            command=list(workload.restore_command if restores else workload.command),
            environment={str(name): str(value) for name, value in {**workload.environment, **workload.secrets}.items()},
            limit_s=limit_s,
            account=account,
            partition=self.link.partition,
            qos=self.link.qos,
            user=owner,
            memory_mib=workload.memory_mib_per_rank,
            cpus=-(-workload.cpu_milli_per_rank // 1_000),
            folder=self.link.folder,
        )

    def fail(self, run: Run, state: RankState, cause: Cause, message: str, exit_code: int | None) -> None:
        """All ranks of a run that never began are over."""
        fact = RankFact(run.pk, 0, state, exited_age_s=0, exit_code=exit_code, cause=cause, message=message[:300])
        ranks = Rank.objects.filter(run=run, state__in=facts.LIVE_STATES).values_list("index", "node_id")
        said = [
            Said(node_id, RankFact(run.pk, index, fact.state, None, None, 0, exit_code, cause, fact.message), self.now)
            for index, node_id in ranks
        ]
        facts.report_all(cluster_id=run.cluster_id, said=said)


# --- starting ---------------------------------------------------------------------------------------------------------


def start(works: Works, desk: Desk, run: Run) -> None:
    """Give a run its job, and have that started on the run's nodes."""
    ours = works.ours
    row = ours.rows.get(run.workload_id)
    shape = works.shape(run)
    if row is not None and row.run_id == run.pk:
        _start_again(works, desk, row, run)
        return
    job = None if row is None else ours.job_of(row)
    if row is not None and (job is None or row.shape not in ("", str(shape)) or _restores(run.workload)):
        if job is None and row.missing_since is not None:
            return  # perhaps it is only not listed: the next looks find out
        _give_up(works, desk, row, job)
        row = job = None
    if row is None:
        row = submit(works, desk, run.workload, shape)
        if row is not None:
            _bind(works, desk, row, run, restarts=0)
        return
    assert job is not None
    if job.state in ENDED or job.holds:  # of an earlier run: it waits again, held, before it is given this one
        if not desk.order(*_requeue(job)) and desk.link.writes:
            _give_up(works, desk, row, job)
        return
    _bind(works, desk, row, run, restarts=job.restarts)


def _bind(works: Works, desk: Desk, row: SlurmJob, run: Run, *, restarts: int) -> None:
    """Write down that the job is this run's, then tell Slurm."""
    if desk.link.writes:
        row.run, row.restarts, row.started = run, restarts, False
        row.stop_sent_at = row.kill_sent_at = None
        row.save(update_fields=["run", "restarts", "started", "stop_sent_at", "kill_sent_at"])
    _release(works, desk, row, run)


def _release(works: Works, desk: Desk, row: SlurmJob, run: Run) -> None:
    mark = Mark(works.link.token, run.workload.code, run.pk)
    desk.order(commands.choose(row.job_id, mark, works.nodes(run)), commands.release(row.job_id))


def _start_again(works: Works, desk: Desk, row: SlurmJob, run: Run) -> None:
    """The job has been given this run before: has it been released, and where is it?"""
    job = works.ours.job_of(row)
    if job is None or job.restarts != row.restarts:
        return
    if job.state in WAITING:
        mark = commands.mark_of(job.comment)
        is_told = mark is not None and mark.run == run.pk and set(job.wanted_nodes) == set(works.nodes(run))
        if is_told and job.reason in HOPELESS:  # for some of these Slurm also holds the job
            if desk.order(commands.cancel(job.id)):
                _was_refused(works, row, run, f"Slurm will not start it: {job.reason}")
        elif job.is_held or not is_told:
            _release(works, desk, row, run)
        elif _has_lost_its_nodes(works, run) and desk.order(commands.hold(job.id)):
            works.fail(run, RankState.EXITED, Cause.NODE, f"Slurm did not start it: {job.reason}", None)
    elif job.holds and job.nodes and set(job.nodes) != set(works.nodes(run)) and desk.order(*_requeue(job)):
        # Somebody had changed where it goes: what it held there was not ours to hold.
        row.note = f"was started on {', '.join(job.nodes)[:200]} by somebody else, and taken back"
        row.save(update_fields=["note"])


def _has_lost_its_nodes(works: Works, run: Run) -> bool:
    """Whether others were quicker: it is charged meanwhile, so, if it comes back, it waits here again instead."""
    return run.workload.resumable and works.now - run.started_at > timedelta(seconds=BEGINS_WITHIN_S)


def _was_refused(works: Works, row: SlurmJob, run: Run, why: str) -> None:
    """Slurm would let a run wait for ever: it has failed."""
    row.gone_at, row.kill_sent_at, row.note = works.now, works.now, why
    row.save(update_fields=["gone_at", "kill_sent_at", "note"])
    works.ours.rows.pop(row.workload_id)
    works.fail(run, RankState.FAILED, Cause.ITSELF, why, None)


def _restores(workload: Workload) -> bool:
    """Whether the workload's next run is another command than its first."""
    return bool(workload.restore_command) and Run.objects.filter(workload=workload, saved=True).exists()


def _give_up(works: Works, desk: Desk, row: SlurmJob, job: Job | None) -> None:
    """The job is of no use any more."""
    if job is not None and job.state not in ENDED:
        desk.order(commands.cancel(job.id))
    if desk.link.writes:
        row.gone_at = works.now
        row.save(update_fields=["gone_at"])
        works.ours.rows.pop(row.workload_id, None)


def submit(works: Works, desk: Desk, workload: Workload, shape: Shape) -> SlurmJob | None:
    """Submit a workload's job, held. None where that did not happen; a run that waits for it has then failed.

    Raises:
        Unreachable: no answer: if it was submitted after all, the next look finds it.
    """
    job = works.submission(workload, shape, _restores(workload))
    if not desk.link.writes:
        desk.planned.append(commands.shown(commands.submit(job, f"{workload.code}.sh")))
        return None
    with tempfile.TemporaryDirectory(prefix="allotment-slurm-") as folder:
        script = os.path.join(folder, "job.sh")
        with open(os.open(script, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write(commands.script_of(job))
        try:
            if job.user:
                _hand_over(job.user, folder, script)
            job_id = commands.parse_submitted(desk.caller(commands.submit(job, script)))
        except (Refused, ValueError) as error:
            desk.troubles.append(f"{workload.code}: {error}"[:400])
            run = works.by_workload.get(workload.pk)
            if run is not None:
                works.fail(run, RankState.FAILED, Cause.ITSELF, str(error), None)
            return None
    desk.done += 1
    return SlurmJob.objects.create(
        cluster=works.link.cluster, workload=workload, job_id=job_id, shape=str(shape), submitted_at=works.now
    )


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


# --- stopping ---------------------------------------------------------------------------------------------------------


def stop(works: Works, desk: Desk, run: Run) -> None:
    """Have a run leave: a signal, its grace, then its job is requeued, or cancelled where it does not come back."""
    row = works.ours.rows.get(run.workload_id)
    job = None if row is None else works.ours.job_of(row)
    if row is None or row.run_id != run.pk:
        if row is not None and job is not None and job.holds:
            return  # of an earlier run still: one thing after the other
        works.fail(run, RankState.EXITED, Cause.ASKED, "told to stop before it began", TERMINATED)
        return
    if job is None or job.restarts != row.restarts or job.state in ENDED:
        return
    if job.state in WAITING:
        if not job.is_held:
            desk.order(commands.hold(job.id))
        return
    comes_back = run.workload.resumable and run.workload.cancel_asked_at is None
    if row.stop_sent_at is None:
        # Once it has ended it cannot be allowed any more to wait again.
        if desk.order(*([commands.may_requeue(job.id)] if comes_back else []), commands.signal(job.id)):
            row.stop_sent_at = works.now
            row.save(update_fields=["stop_sent_at"])
        return
    is_due = run.leave_by is not None and works.now >= run.leave_by and _is_killed_again(row, works.now)
    if is_due and desk.order(*(_requeue(job) if comes_back else [commands.cancel(job.id)])):
        row.kill_sent_at = works.now
        row.save(update_fields=["kill_sent_at"])


def _requeue(job: Job) -> list[list[str]]:
    return (
        [commands.requeue(job.id)] if job.state in ENDED else [commands.may_requeue(job.id), commands.requeue(job.id)]
    )


def rest(works: Works, desk: Desk, row: SlurmJob) -> None:
    """A job without a run: it waits, held, for its workload's next; where that is over, it ends."""
    job = works.ours.job_of(row)
    if job is None:
        return
    is_over = row.workload.state in Workload.ENDED_STATES
    has_ended = job.state in ENDED
    if is_over or (has_ended and (row.run_id is None or not row.workload.resumable)):
        _give_up(works, desk, row, job)
    elif has_ended:
        if not desk.order(*_requeue(job)) and desk.link.writes:
            _give_up(works, desk, row, job)
    elif job.holds:
        if _is_killed_again(row, works.now) and desk.order(*_requeue(job)):
            row.kill_sent_at = works.now
            row.note = row.note or "ran for nobody, and was taken back"
            row.save(update_fields=["kill_sent_at", "note"])
    elif not job.is_held:
        desk.order(commands.hold(job.id))


def _is_killed_again(row: SlurmJob, now: datetime) -> bool:
    return row.kill_sent_at is None or now - row.kill_sent_at >= timedelta(seconds=AGAIN_S)


# --- waiting ----------------------------------------------------------------------------------------------------------


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
