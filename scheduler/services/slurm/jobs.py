"""Jobs of ours: which of them carry which workload out, and what they say of runs.

A workload has at most one job at a time, which its comment names; ids alone are no proof. The row is bound to a run
before Slurm hears of it, so a crash at any point leaves one of two states, and each next look goes on from there: the
job still waits, held, and is released again; or it has run, and says so. A job whose row was never written is found by
its comment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog
from django.db.models import Count

from scheduler.executors.base import Cause, RankFact, RankState
from scheduler.executors.slurm import SlurmError, commands, history, reading, script
from scheduler.executors.slurm.calling import Caller
from scheduler.executors.slurm.jobs import ENDED, NODE_ENDED, WAITING, Job
from scheduler.models import Holding, Rank, Run, SlurmJob, SlurmLink, Workload
from scheduler.services import facts, workloads
from scheduler.services.facts import Said
from scheduler.services.slurm import folders

log = structlog.get_logger(__name__)

MISSING_S = 60
"""A job that Slurm neither lists nor remembers for so long is gone."""
REASON_MAX = 120
TERMINATED = -15


@dataclass(frozen=True, slots=True)
class Place:
    """A rank of a run: its number, its node, and how far it is."""

    rank: int
    node_id: int
    node: str
    state: str


@dataclass(slots=True)
class Ours:
    """Our jobs: rows that are not gone, by workload, and Slurm's jobs by id."""

    link: SlurmLink
    now: datetime
    listed: Mapping[int, Job]
    rows: dict[int, SlurmJob]
    extra: list[int] = field(default_factory=list)
    ranks: dict[int, list[Place]] = field(default_factory=dict)

    def job_of(self, row: SlurmJob) -> Job | None:
        """What Slurm says of a row's job. A controller that was killed may forget a job, and give its id away anew."""
        job = self.listed.get(row.job_id)
        return job if job is not None and self.is_of(job, row.workload.code) else None

    def is_of(self, job: Job, code: str) -> bool:
        """Whether a job carries that workload out."""
        mark = commands.mark_of(job.comment)
        return mark is not None and (mark.token, mark.workload) == (self.link.token, code)


def find(link: SlurmLink, listed: Sequence[Job], now: datetime) -> Ours:
    """Our jobs; those that were submitted without our writing it down are taken up, doubles noted in `extra`."""
    rows = SlurmJob.objects.filter(cluster=link.cluster, gone_at=None).select_related("workload", "run")
    ours = Ours(link, now, {job.id: job for job in listed}, {row.workload_id: row for row in rows})
    known = {row.job_id for row in ours.rows.values() if ours.job_of(row) is not None}
    marked = [(job, mark) for job in listed if (mark := commands.mark_of(job.comment)) is not None]
    strays = [
        (job, mark)
        for job, mark in marked
        if mark.token == link.token and job.id not in known and job.state not in ENDED
    ]
    if strays:
        _take_up(ours, strays)
    ours.ranks = _ranks_of([row.run_id for row in ours.rows.values() if row.run_id is not None])
    return ours


def _take_up(ours: Ours, strays: Sequence[tuple[Job, commands.Mark]]) -> None:
    codes = {mark.workload for _job, mark in strays}
    by_code = {row.code: row for row in Workload.objects.filter(cluster=ours.link.cluster, code__in=codes)}
    for job, mark in strays:
        workload = by_code.get(mark.workload)
        if workload is None or workload.state in Workload.ENDED_STATES or workload.pk in ours.rows:
            ours.extra.append(job.id)
            continue
        run = Run.objects.filter(pk=mark.run, workload=workload).first()
        row = SlurmJob.objects.create(
            cluster=ours.link.cluster,
            workload=workload,
            run=run,
            job_id=job.id,
            restarts=job.restarts,
            state=job.state,
            submitted_at=job.submitted_at or ours.now,
            note="found in Slurm: nobody had written it down",
        )
        log.warning("slurm_job_taken_up", job=job.id, workload=workload.code)
        ours.rows[workload.pk] = row


def may_have_lost_nodes(ours: Ours) -> bool:
    """Whether Slurm, unasked, has ended or requeued the job of any run: a node that died may be why."""
    for row in ours.rows.values():
        run, job = row.run, ours.job_of(row)
        if run is None or job is None or run.state == Run.State.ENDED or run.stop_asked_at is not None:
            continue
        if job.state in NODE_ENDED or _is_requeued(row, job):
            return True
    return False


# --- what they say ----------------------------------------------------------------------------------------------------


def report(ours: Ours, caller: Caller) -> None:
    """Have facts and cancels follow from what Slurm says of our jobs. Facts alone move runs."""
    said: list[Said] = []
    for row in list(ours.rows.values()):
        job = ours.job_of(row)
        if job is None:
            said += _missing(ours, row, caller)
            continue
        _note(row, job)
        if row.run is None or row.run.state == Run.State.ENDED:
            _cancelled_by_hand(ours, row, job)
            continue
        is_forgotten = False
        if job.state == "CANCELLED" and row.kill_sent_at is None and row.run.stop_asked_at is None:
            is_forgotten = _has_restarted_since(caller, row.run.started_at)
            if not is_forgotten:  # whoever cancels the job means the workload: it ends as that, and not as a failure
                workloads.cancel(workload=row.workload, by=None, reason="cancelled in Slurm", now=ours.now)
                _remark(row, "cancelled in Slurm by hand")
        said += _facts(ours, row, job, is_forgotten=is_forgotten)
    if said:
        facts.report_all(cluster_id=ours.link.cluster_id, said=said)
    _renew(ours)


def _has_restarted_since(caller: Caller, instant: datetime) -> bool:
    """Whether Slurm's controller began anew since then: one that was killed forgets what it had just started, and
    cancels what it cannot explain. That is nobody's wish."""
    try:
        began_at = reading.boot_time(caller(["scontrol", "show", "config"]))
    except (SlurmError, ValueError):
        return True
    return began_at >= instant


def _renew(ours: Ours) -> None:
    """Facts have moved runs and workloads."""
    workload_rows = Workload.objects.in_bulk(list(ours.rows))
    run_rows = Run.objects.in_bulk([row.run_id for row in ours.rows.values() if row.run_id is not None])
    for pk, row in ours.rows.items():
        row.workload = workload_rows[pk]
        if row.run_id is not None:
            row.run = run_rows[row.run_id]


def _note(row: SlurmJob, job: Job) -> None:
    """Keep what was seen, if it is news."""
    reason = job.reason[:REASON_MAX]
    started = row.started or (job.restarts == row.restarts and job.holds)
    if (row.state, row.reason, row.started, row.missing_since) != (job.state, reason, started, None):
        row.state, row.reason, row.started, row.missing_since = job.state, reason, started, None
        row.save(update_fields=["state", "reason", "started", "missing_since"])


def _remark(row: SlurmJob, note: str) -> None:
    row.note = note[:300]
    row.save(update_fields=["note"])


def _cancelled_by_hand(ours: Ours, row: SlurmJob, job: Job) -> None:
    """Somebody cancelled a job that waits, held: so they mean its workload."""
    is_ours = row.kill_sent_at is not None or row.run is not None
    if job.state == "CANCELLED" and not is_ours and row.workload.state in ("queued", "held"):
        workloads.cancel(workload=row.workload, by=None, reason="cancelled in Slurm", now=ours.now)
        _remark(row, "cancelled in Slurm by hand")


def _missing(ours: Ours, row: SlurmJob, caller: Caller) -> list[Said]:
    """Slurm lists it no more: what its accounting remembers; without that, after a while, it is gone."""
    if row.missing_since is None:
        row.missing_since = ours.now
        row.save(update_fields=["missing_since"])
    is_over = ours.now - row.missing_since >= timedelta(seconds=MISSING_S)
    ends = _remembered(row, caller)
    if ends is None and not is_over:
        return []
    row.gone_at, row.note = ours.now, row.note or "no more in Slurm"
    row.save(update_fields=["gone_at", "note"])
    ours.rows.pop(row.workload_id)
    if row.run is None or row.run.state == Run.State.ENDED:
        return []
    if ends is None:
        return _said(ours, row.run, _exit(row, ours.now, None, None, Cause.NODE, "Slurm knows nothing of it any more"))
    cause = Cause.NODE if ends.state in NODE_ENDED | {"REQUEUED"} else Cause.ITSELF
    code = None if cause == Cause.NODE else _code(ends.state, ends.exit_code)
    ran = ends.state == "COMPLETED" and ends.started_at is not None
    message = f"Slurm: {ends.state.lower()}"
    fact = _exit(row, ours.now, ends.started_at, ends.ended_at, cause, message, code, ran=ran)
    return _said(ours, row.run, fact)


def _remembered(row: SlurmJob, caller: Caller) -> history.PastJob | None:
    """The last part of a job's life in Slurm's accounting, if it has ended."""
    start = (row.submitted_at - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
    try:
        text = caller([*history.list_of(start, "now"), f"--jobs={row.job_id}"])
        found = [job for job in history.read("sacct", text) if job.name == row.workload.code]
    except (SlurmError, ValueError):
        return None
    ended = [job for job in found if job.ended_at is not None]
    return ended[-1] if ended else None


def _facts(ours: Ours, row: SlurmJob, job: Job, *, is_forgotten: bool) -> list[Said]:
    """What a job says of the run that it was given; of one that Slurm had forgotten, that it is lost."""
    run = row.run
    assert run is not None
    asked = run.stop_asked_at is not None
    if _is_requeued(row, job):
        cause, code = (Cause.ASKED, TERMINATED) if asked else (Cause.NODE, None)
        if not asked:
            _remark(row, "requeued in Slurm by hand")
        saved = _saved(ours, row, None) if asked else None
        return _said(ours, run, _exit(row, ours.now, None, None, cause, "requeued in Slurm", code, saved))
    if job.state in ENDED:
        return _said(ours, run, _end_of(ours, row, job, asked, is_forgotten))
    if job.state in WAITING:
        if asked and job.is_held:  # it never began, and cannot any more
            return _said(
                ours, run, _exit(row, ours.now, None, None, Cause.ASKED, "told to stop before it began", TERMINATED)
            )
        return []
    if job.holds and job.started_at is not None and set(job.nodes) == {place.node for place in ours.ranks[run.pk]}:
        age_s = _age_s(ours, job.started_at)
        return _said(ours, run, RankFact(run.pk, 0, RankState.RUNNING, began_age_s=age_s))
    return []


def _is_requeued(row: SlurmJob, job: Job) -> bool:
    return job.restarts > row.restarts or job.state in ("REQUEUED", "REQUEUE_HOLD")


def _end_of(ours: Ours, row: SlurmJob, job: Job, asked: bool, is_forgotten: bool) -> RankFact:
    message = f"Slurm: {job.state.lower()}" + (f", {job.reason}" if job.reason else "")
    if job.exit_code == script.FENCED or is_forgotten:
        forgot = "Slurm was away or restarted, and did not carry it out"
        return _exit(row, ours.now, job.started_at, job.ended_at, Cause.NODE, forgot)
    if job.state in NODE_ENDED:
        return _exit(row, ours.now, job.started_at, job.ended_at, Cause.NODE, message)
    if _ended_before_it_began(row, job):
        late = "Slurm took the late end of what was requeued for that of its next run"
        return _exit(row, ours.now, None, job.ended_at, Cause.NODE, late)
    code, saved = _code(job.state, job.exit_code), None
    if asked and (saved := _saved(ours, row, code)) and code == script.SAVED:
        code = TERMINATED
    cause = Cause.ASKED if asked else Cause.ITSELF
    ran = job.started_at is not None and (job.state == "COMPLETED" or job.reason == "NonZeroExitCode")
    return _exit(row, ours.now, job.started_at, job.ended_at, cause, message, code, saved, ran=ran)


def _ended_before_it_began(row: SlurmJob, job: Job) -> bool:
    """Whether it failed by an exit code, but held no nodes since its run was given to it.

    One that is requeued as it starts can be pending again before its batch script's end is heard of, which then fails
    the job as it waits: Slurm ties no script's end to one of a job's lives.
    """
    return job.reason == "NonZeroExitCode" and job.restarts > 0 and not row.started and not job.nodes


def _saved(ours: Ours, row: SlurmJob, code: int | None) -> bool | None:
    """Whether a session that was told to stop was saved: its script says so by its exit code and by a file, as one may
    be killed before it has ended, and the other not be readable from here. None for what is no session."""
    if not row.workload.save_command:
        return None
    return code == script.SAVED or folders.is_saved(ours.link.folder, row.workload.code, row.run_id or 0)


def _code(state: str, exit_code: int) -> int:
    """An exit code that says what the state says, too."""
    if state == "COMPLETED":
        return 0
    return exit_code or (TERMINATED if state in ("CANCELLED", "TIMEOUT", "DEADLINE") else 1)


def _exit(
    row: SlurmJob,
    now: datetime,
    started_at: datetime | None,
    ended_at: datetime | None,
    cause: Cause,
    message: str,
    exit_code: int | None = None,
    saved: bool | None = None,
    *,
    ran: bool = False,
) -> RankFact:
    """An end. One that never began could not be started, unless it was told to stop or its node took it along.

    What was cancelled while it waited also has a start in Slurm, at its end; so one that began and ended within a
    second, between two looks, has to be known to have run (`ran`).
    """
    assert row.run is not None
    has_run = row.started or ran or (started_at is not None and ended_at is not None and ended_at > started_at)
    began_age_s = max(0, int((now - started_at).total_seconds())) if has_run and started_at is not None else None
    exited_age_s = 0 if ended_at is None else max(0, int((now - ended_at).total_seconds()))
    never = not has_run and exit_code not in (0, None) and cause == Cause.ITSELF
    if has_run and began_age_s is None and row.run.running_at is None:
        began_age_s = exited_age_s
    return RankFact(
        row.run.pk,
        0,
        RankState.FAILED if never else RankState.EXITED,
        began_age_s=None if never else began_age_s,
        exited_age_s=exited_age_s,
        exit_code=None if never else exit_code,
        cause=cause,
        message=message[:300],
        saved=saved,
    )


def _age_s(ours: Ours, instant: datetime) -> int:
    """How old something is by Slurm's clock, but not older than the last look that did not see it."""
    age_s = max(0, int((ours.now - instant).total_seconds()))
    last = ours.link.contact_at
    return age_s if last is None else min(age_s, max(0, int((ours.now - last).total_seconds())) + 1)


def _ranks_of(run_ids: Collection[int]) -> dict[int, list[Place]]:
    """The ranks of runs that have not ended, by run. One query."""
    found: dict[int, list[Place]] = {}
    rows = Rank.objects.filter(run__in=run_ids).exclude(run__state=Run.State.ENDED).order_by("run", "index")
    for run_id, rank, node_id, name, state in rows.values_list("run_id", "index", "node_id", "node__name", "state"):
        found.setdefault(run_id, []).append(Place(rank, node_id, name, state))
    return found


def _said(ours: Ours, run: Run, fact: RankFact) -> list[Said]:
    """The same of every rank: a job starts and ends as a whole."""
    wanted = (Rank.State.WANTED,) if fact.state == RankState.RUNNING else facts.LIVE_STATES
    live = [place for place in ours.ranks.get(run.pk, ()) if place.state in wanted]
    return [Said(place.node_id, replace(fact, rank=place.rank), ours.now) for place in live]


def held_by_runs(ours: Ours) -> dict[int, dict[str, int]]:
    """What jobs that carry out a run that has not ended hold in our books: devices of each node, by the job's id."""
    jobs_of = {
        row.run_id: row.job_id for row in ours.rows.values() if row.run is not None and row.run.state != Run.State.ENDED
    }
    held: dict[int, dict[str, int]] = {job_id: {} for job_id in jobs_of.values()}
    rows = Holding.objects.filter(run__in=jobs_of, released_at=None).values("run", "node__name")
    for run_id, name, devices in rows.annotate(devices=Count("pk")).values_list("run", "node__name", "devices"):
        held[jobs_of[run_id]][name] = devices
    return held
