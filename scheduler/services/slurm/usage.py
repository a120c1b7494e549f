"""Where Slurm decides: what ran there, read back as runs, so that every page about use is about it too.

A job becomes a workload of the budget node that its account stands for, charged for as long as it holds its devices;
each time it is requeued is a workload of its own. What runs is taken from the list of jobs, what has ended from Slurm's
accounting, also what was too short to be seen running. A job is taken once: its id and its start name it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from budgets.models import BudgetNode, Cluster, Person
from budgets.split import evenly
from scheduler.engine import Policy
from scheduler.executors.slurm import SlurmError, history
from scheduler.executors.slurm.calling import WRITE_TIMEOUT_S, Caller
from scheduler.executors.slurm.history import PastJob
from scheduler.executors.slurm.jobs import ENDED, Job
from scheduler.models import WHOLE_DEVICE_MILLI, Holding, Node, Run, SlurmAccount, SlurmJob, SlurmLink, Workload
from scheduler.services import events, nodes, runs, usage, workloads
from scheduler.services import history as past
from scheduler.services.devices import FreeDevices
from scheduler.services.events import Entry, Kind
from scheduler.services.history import PastRun, PastWorkload
from scheduler.services.runs import Ending

ACCOUNTING_S = 30
"""How often Slurm's accounting is read."""
OVERLAP = timedelta(hours=1)
"""Read again each time: records come late."""
FIRST = timedelta(days=28)
"""How far back the first reading goes: the longest lookback."""
USUAL_S = 3_600
"""Taken as a contract where a job has no time limit."""

STATES = {
    "COMPLETED": (Workload.State.FINISHED, runs.FINISHED),
    "CANCELLED": (Workload.State.CANCELLED, runs.CANCELLED),
}


class Taken(NamedTuple):
    """How many jobs were taken, and the accounts of those that were not, as no budget node stands for them."""

    jobs: int
    strangers: Sequence[str]


class Places:
    """Which budget node stands for an account, and who is who."""

    def __init__(self, cluster: Cluster) -> None:
        """Read them once."""
        rows = SlurmAccount.objects.filter(cluster=cluster).select_related("node")
        self.nodes: dict[str, BudgetNode] = {row.name: row.node for row in rows}
        self.people = {person.username: person for person in Person.objects.filter(is_active=True)}
        self.hosts = dict(Node.objects.filter(cluster=cluster, retired_at=None).values_list("name", "pk"))
        self.policy = nodes.policy(cluster)
        self.is_cores = cluster.unit == Cluster.Unit.CORE


def take(link: SlurmLink, caller: Caller, listed: Sequence[Job], now: datetime) -> list[str]:
    """Take what runs, what has ended since, and say in words what could not be taken.

    Raises:
        SlurmError, Unreadable: of the list of jobs; where only the accounting is away, that is said in words.
    """
    places = Places(link.cluster)
    _end_those_listed(link, listed)
    strangers = _take_running(link, places, [job for job in listed if job.holds], now)
    troubles = []
    if link.usage_until is None or now - link.usage_until >= timedelta(seconds=ACCOUNTING_S):
        start = (link.usage_until or now - FIRST) - OVERLAP
        try:
            found = read(link, caller, start, now)
        except SlurmError as error:
            troubles.append(f"accounting: {error}"[:400])
        else:
            strangers |= set(store(link, found, places).strangers)
            link.usage_until = now
            link.save(update_fields=["usage_until"])
    if strangers:
        troubles.append(
            f"No budget stands for these accounts, so their jobs do not count: {', '.join(sorted(strangers))}"
        )
    return troubles


def read(link: SlurmLink, caller: Caller, start: datetime, end: datetime) -> list[PastJob]:
    """What Slurm's accounting holds of a span.

    Raises:
        SlurmError, Unreadable: it did not answer, or not as it should.
    """
    first, last = (instant.strftime("%Y-%m-%dT%H:%M:%S") for instant in (start, end))
    return history.read("sacct", caller(history.list_of(first, last, link.name), timeout_s=WRITE_TIMEOUT_S))


# --- what runs --------------------------------------------------------------------------------------------------------


def _take_running(link: SlurmLink, places: Places, going: Sequence[Job], now: datetime) -> set[str]:
    known = _known(link.cluster, [job.id for job in going])
    strangers = set()
    for job in going:
        devices = job.cpus if places.is_cores else job.gpus
        if not devices or job.started_at is None or (job.id, job.started_at) in known:
            continue
        leaf = places.nodes.get(job.account)
        if leaf is None:
            strangers.add(job.account or "(none)")
        else:
            _begin(link, places, job, leaf, devices)
    return strangers


def _known(cluster: Cluster, ids: Collection[int]) -> set[tuple[int, datetime]]:
    """(id, start) of jobs that were taken."""
    return set(SlurmJob.objects.filter(cluster=cluster, job_id__in=ids).values_list("job_id", "submitted_at"))


def _begin(link: SlurmLink, places: Places, job: Job, leaf: BudgetNode, devices: int) -> None:
    """A job runs: so does a workload."""
    cluster, started_at = link.cluster, job.started_at
    assert started_at is not None
    with events.changing(cluster.pk):
        (code,) = workloads.take_numbers(leaf, 1)
        size_milli = devices * WHOLE_DEVICE_MILLI
        contract_s = contract_of(None, places.policy)
        workload = Workload.objects.create(
            code=code,
            cluster=cluster,
            leaf=leaf,
            owner=places.people.get(job.user),
            name=job.name[:120],
            size_milli=size_milli,
            min_runtime_s=contract_s,
            workload_class=workloads.class_of(size_milli, contract_s, workloads.room_of(cluster)),
            state=Workload.State.RUNNING,
            submitted_at=min(job.submitted_at or started_at, started_at),
            first_started_at=started_at,
            reason_code="started",
            reason_text=f"Slurm started it as job {job.id}.",
        )
        run = Run.objects.create(
            workload=workload,
            number=1,
            cluster=cluster,
            leaf=leaf,
            path=leaf.path,
            size_milli=size_milli,
            funded=True,
            min_runtime_s=contract_s,
            state=Run.State.RUNNING,
            started_at=started_at,
            running_at=started_at,
        )
        amounts = {
            places.hosts[name]: milli for name, milli in spread(job.nodes, devices).items() if name in places.hosts
        }
        held = FreeDevices(amounts).take(amounts) or []  # where our count of them lags behind, none
        Holding.objects.bulk_create(
            Holding(run=run, node_id=node_id, device_id=device_id, milli=milli) for node_id, device_id, milli in held
        )
        SlurmJob.objects.create(
            cluster=cluster,
            workload=workload,
            run=run,
            job_id=job.id,
            state=job.state,
            started=True,
            submitted_at=started_at,
        )
        events.record_all(
            cluster_id=cluster.pk,
            entries=[Entry(Kind.SUBMITTED, workload.pk), Entry(Kind.RUN_STARTED, workload.pk, run.pk)],
            at=started_at,
        )


def spread(names: Sequence[str], devices: int) -> dict[str, int]:
    """What a job holds on each of its nodes, in thousandths: evenly, as far as whole devices go."""
    parts = evenly(devices, len(names)) if names else []
    return {name: part * WHOLE_DEVICE_MILLI for name, part in zip(names, parts, strict=True) if part}


def contract_of(limit_s: int | None, policy: Policy) -> int:
    """What a job would have been promised: its time limit, within the cluster's bounds."""
    return min(max(limit_s or USUAL_S, policy.min_runtime_min_s), policy.min_runtime_max_s)


# --- what has ended ---------------------------------------------------------------------------------------------------


def _end_those_listed(link: SlurmLink, listed: Sequence[Job]) -> None:
    """Jobs that were taken as running, and have ended as the list of jobs says."""
    rows = _going(link.cluster)
    ends: list[tuple[SlurmJob, datetime, str, int]] = []
    for job in listed:
        row = rows.get((job.id, job.started_at)) if job.started_at is not None else None
        if row is not None and job.state in ENDED and job.ended_at is not None:
            ends.append((row, job.ended_at, job.state, job.exit_code))
    _end(link.cluster, ends)


def _going(cluster: Cluster) -> dict[tuple[int, datetime], SlurmJob]:
    rows = SlurmJob.objects.filter(cluster=cluster, gone_at=None).select_related("run")
    return {(row.job_id, row.submitted_at): row for row in rows}


def _end(cluster: Cluster, ends: Sequence[tuple[SlurmJob, datetime, str, int]]) -> None:
    if not ends:
        return
    with events.changing(cluster.pk):
        endings = [
            Ending(row.run_id, at, _word(state), exit_code, f"Ended in Slurm: {state.lower().replace('_', ' ')}.")
            for row, at, state, exit_code in ends
            if row.run_id is not None
        ]
        cancelled = [row.workload_id for row, _at, state, _code in ends if state == "CANCELLED"]
        for workload in Workload.objects.filter(pk__in=cancelled, cancel_asked_at=None):
            at = next(at for row, at, _state, _code in ends if row.workload_id == workload.pk)
            Workload.objects.filter(pk=workload.pk).update(cancel_asked_at=at)
        runs.end_all(cluster_id=cluster.pk, endings=endings)
        for row, at, state, _code in ends:
            SlurmJob.objects.filter(pk=row.pk).update(gone_at=at, state=state)


def _word(state: str) -> str:
    """Why a run has ended, in our words."""
    return STATES[state][1] if state in STATES else runs.FAILED


def store(link: SlurmLink, found: Iterable[PastJob], places: Places | None = None) -> Taken:
    """Take jobs that have ended, each once; those that were seen running end so."""
    places = places or Places(link.cluster)
    ended = [job for job in found if job.started_at is not None and job.ended_at is not None and _devices(job, places)]
    ended = [
        job for job in ended if job.id.isdigit()
    ]  # parts of arrays and of heterogeneous jobs have ids of their own
    rows = _going(link.cluster)
    known = _known(link.cluster, [int(job.id) for job in ended])
    ends, fresh, strangers = [], [], set()
    for job in ended:
        assert job.started_at is not None
        assert job.ended_at is not None
        row = rows.get((int(job.id), job.started_at))
        if row is not None:
            ends.append((row, job.ended_at, job.state, job.exit_code))
        elif (int(job.id), job.started_at) not in known:
            if job.account in places.nodes:
                fresh.append(job)
            else:
                strangers.add(job.account or "(none)")
    _end(link.cluster, ends)
    _add(link, places, fresh)
    return Taken(len(fresh) + len(ends), sorted(strangers))


def _devices(job: PastJob, places: Places) -> int:
    return job.cpus if places.is_cores else job.gpus


def _add(link: SlurmLink, places: Places, jobs: Sequence[PastJob]) -> None:
    if not jobs:
        return
    codes = _codes(places, jobs)
    with events.changing(link.cluster_id):
        past.add(link.cluster, [_as_past(job, code, places) for job, code in zip(jobs, codes, strict=True)])
        by_code = dict(Workload.objects.filter(code__in=codes).values_list("code", "pk"))
        SlurmJob.objects.bulk_create(
            SlurmJob(
                cluster=link.cluster,
                workload_id=by_code[code],
                job_id=int(job.id),
                state=job.state,
                started=True,
                submitted_at=job.started_at or job.submitted_at,
                gone_at=job.ended_at,
            )
            for job, code in zip(jobs, codes, strict=True)
        )
    starts = [job.started_at for job in jobs if job.started_at is not None]
    ends = [job.ended_at for job in jobs if job.ended_at is not None]
    usage.rebuild(link.cluster, min(starts), max(ends))


def _codes(places: Places, jobs: Sequence[PastJob]) -> list[str]:
    """The next numbers of their budget nodes, in the order of the jobs."""
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job.account] = counts.get(job.account, 0) + 1
    drawn: Mapping[str, Iterable[str]] = {
        account: iter(workloads.take_numbers(places.nodes[account], count)) for account, count in counts.items()
    }
    return [next(iter(drawn[job.account])) for job in jobs]


def _as_past(job: PastJob, code: str, places: Places) -> PastWorkload:
    devices = _devices(job, places)
    assert job.started_at is not None
    state, word = STATES.get(job.state, (Workload.State.FAILED, runs.FAILED))
    run = PastRun(
        started_at=job.started_at,
        running_at=job.started_at,
        ended_at=job.ended_at,
        end_reason=word,
        size_milli=devices * WHOLE_DEVICE_MILLI,
        is_funded=True,
        holdings={name: milli for name, milli in spread(job.nodes, devices).items() if name in places.hosts},
    )
    return PastWorkload(
        leaf=places.nodes[job.account],
        owner=places.people.get(job.user),
        name=(job.name or f"Slurm job {job.id}")[:120],
        code=code,
        size_milli=devices * WHOLE_DEVICE_MILLI,
        min_runtime_s=contract_of(job.limit_s, places.policy),
        state=state,
        reason=(word, f"Ended in Slurm: {job.state.lower().replace('_', ' ')}."),
        submitted_at=min(job.submitted_at, job.started_at),
        ended_at=job.ended_at,
        is_resumable=False,
        runs=[run],
    )
