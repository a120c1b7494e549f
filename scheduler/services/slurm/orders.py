"""What Slurm is asked to do, so that what should run does: from rows and jobs to commands, one after the other.

What waits longest for a command comes first: starts, then stops, then what nobody needs, then jobs that only wait. Each
step looks at what Slurm said in this look, and leaves the row as the next look needs it, whether its command came
through or not. With `writes` off nothing is carried out; the commands are only listed.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from scheduler.executors.base import Cause, RankState
from scheduler.executors.slurm import commands
from scheduler.executors.slurm.commands import Mark
from scheduler.executors.slurm.jobs import ENDED, WAITING, Job
from scheduler.models import Run, SlurmJob, Workload
from scheduler.services import shifts
from scheduler.services.slurm import checkpoints
from scheduler.services.slurm.jobs import TERMINATED, Ours
from scheduler.services.slurm.submitting import restores, submit, submit_ahead
from scheduler.services.slurm.works import Desk, Works

AGAIN_S = 10
"""A job that was killed and is still there is killed again after so long."""
BEGINS_WITHIN_S = 300
"""A released job that has not begun by then has lost its nodes to somebody else's."""
EARLY_S = 2
"""A session's script has it gone so long before the end of its grace: then it can still say that it was saved."""
HOPELESS = frozenset(
    {
        *("BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionNodeLimit", "PartitionTimeLimit"),
        *("AccountNotAllowed", "QOSNotAllowed", "DependencyNeverSatisfied"),
    }
)
"""Why Slurm lets a released job wait for ever: no end of another one will change that."""


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
    if row is not None and (job is None or row.shape not in ("", str(shape)) or restores(run.workload)):
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
    mark = Mark(works.link.token, run.workload.code, run.pk, shift="/".join(shifts.variables_of(run).values()))
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


def _give_up(works: Works, desk: Desk, row: SlurmJob, job: Job | None) -> None:
    """The job is of no use any more."""
    if job is not None and job.state not in ENDED:
        desk.order(commands.cancel(job.id))
    if desk.link.writes:
        row.gone_at = works.now
        row.save(update_fields=["gone_at"])
        works.ours.rows.pop(row.workload_id, None)


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
        if not run.workload.save_command and checkpoints.is_awaited(works.link, run, works.now):
            return
        # Once it has ended it cannot be allowed any more to wait again.
        if desk.order(*([commands.may_requeue(job.id)] if comes_back else []), *_tell(works, run, job)):
            row.stop_sent_at = works.now
            row.save(update_fields=["stop_sent_at"])
        return
    is_due = run.leave_by is not None and works.now >= run.leave_by and _is_killed_again(row, works.now)
    if is_due and desk.order(*(_requeue(job) if comes_back else [commands.cancel(job.id)])):
        row.kill_sent_at = works.now
        row.save(update_fields=["kill_sent_at"])


def _tell(works: Works, run: Run, job: Job) -> list[list[str]]:
    """Its ranks are signalled; a session's script first saves it, and knows until when."""
    if not run.workload.save_command or run.leave_by is None:
        return [commands.signal(job.id)]
    left_s = max(1, int((run.leave_by - works.now).total_seconds()) - EARLY_S)
    return commands.save(job.id, Mark(works.link.token, run.workload.code, run.pk, left_s))


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
