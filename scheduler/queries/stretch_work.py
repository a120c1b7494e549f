"""The workloads of a stretch of history: their rows in seconds from its start, and the jobs made of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from statistics import median_low
from typing import Any

from django.db.models import Q

from budgets.models import Cluster
from scheduler.models import Run, Workload
from scheduler.services import events
from scheduler.services.usage_sql import CREDITED
from scheduler.simulator.before import Before
from scheduler.simulator.effects import COUNTED_AS_PREEMPTION
from scheduler.simulator.scenario import Job, PastUse
from scheduler.snapshots.present import holdings_of

SHORTEST_S = 60
"""What a workload takes about which nothing at all is known: no run, no contract."""
WORKLOAD = (
    "pk", "code", "leaf_id", "size_milli", "min_runtime_s", "priority", "node__name", "resumable", "state",
    "submitted_at", "first_started_at", "ended_at", "progress_s", "time_limit_s",
    "cpu_milli_per_rank", "memory_mib_per_rank", "gpu_classes", "needs_fast", "owner_id", "name", "locality",
)  # fmt: skip
RUN = (
    "pk", "workload_id", "number", "size_milli", "funded", "started_at", "running_at", "contract_ends_at",
    "stop_asked_at", "ended_at", "end_reason", "preempted_by__code",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Held:
    """One run, in seconds from the start of the stretch. `is_charged`: funded, and not given back since."""

    number: int
    size_milli: int
    is_charged: bool
    start_s: int
    running_s: int | None
    contract_end_s: int | None
    told_s: int | None
    end_s: int | None
    end_reason: str
    preempted_by: str | None
    holdings: Mapping[str, int]

    @property
    def is_preemption(self) -> bool:
        """Whether it ended against its workload's will, as semantics.md counts preemptions."""
        return self.end_reason in COUNTED_AS_PREEMPTION

    @property
    def work_s(self) -> int:
        """How long it really ran, until it was told to stop or ended; of one that goes on, 0."""
        untils = [at_s for at_s in (self.told_s, self.end_s) if at_s is not None]
        return max(0, min(untils) - self.running_s) if untils and self.running_s is not None else 0


def _kept_s(works: Sequence[int], cost_s: int) -> int:
    """What is left of the work of several runs when the next one begins, each restart repeating `cost_s` of it."""
    kept_s = 0
    for work_s in works:
        kept_s = max(0, kept_s + work_s - cost_s)
    return kept_s


@dataclass(slots=True)
class Work:
    """One workload, in seconds from the start of the stretch."""

    code: str
    leaf_id: int
    size_milli: int
    min_runtime_s: int
    priority: int
    node: str | None
    is_resumable: bool
    state: str
    submitted_s: int
    first_start_s: int | None
    end_s: int | None
    progress_s: int
    time_limit_s: int | None
    cpu_milli: int
    memory_mib: int
    gpu_classes: tuple[str, ...]
    is_high: bool
    user: str
    group: str
    locality: int
    now_s: int
    runs: list[Held] = field(default_factory=list)

    @property
    def was_cancelled_waiting(self) -> bool:
        """It was cancelled at a time when it held nothing."""
        return self.state == "cancelled" and not (self.runs and self.runs[-1].end_s == self.end_s)

    @property
    def is_censored(self) -> bool:
        """Whether the rows do not say how long it takes."""
        return self.end_s is None or self.state in ("preempted", "lost") or self.was_cancelled_waiting

    @property
    def restart_cost_s(self) -> int:
        """Work that it repeated at each restart: the least that explains what its progress lacks."""
        works = [run.work_s for run in self.runs[:-1]]
        low, high = 0, max(works, default=0)
        while low < high:
            middle = (low + high) // 2
            if _kept_s(works, middle) <= self.before_last_s:
                high = middle
            else:
                low = middle + 1
        return low

    @property
    def going_on_s(self) -> int:
        """How long a run that goes on has run by now."""
        run = self.runs[-1] if self.runs else None
        is_going = run is not None and run.end_s is None and run.told_s is None and run.running_s is not None
        return max(0, self.now_s - run.running_s) if is_going else 0  # type: ignore[operator, union-attr]

    @property
    def before_last_s(self) -> int:
        """Its progress when its last run began."""
        if not self.runs:
            return self.progress_s
        last = self.runs[-1]
        waits_again = self.end_s is None and last.end_s is not None
        # Where a workload ended with a preemption, its progress may hold the last run's work or not.
        was_cut = self.state in ("preempted", "lost", "cancelled")
        holds_last = waits_again or (was_cut and self.progress_s > sum(run.work_s for run in self.runs[:-1]))
        return self.progress_s - last.work_s if holds_last else self.progress_s

    def work_s(self) -> int:
        """Work that it has done, by all its runs that have ended, of which nothing had to be repeated."""
        return self.before_last_s + (self.runs[-1].work_s if self.runs else 0)


def read(cluster: Cluster, start: datetime, end: datetime, nodes: set[str], now: datetime) -> list[Work]:
    """Everything that waited or ran in [start, end), by submission. Three queries.

    What the runs held is kept on `nodes` only.
    """
    second = partial(_second, start_s=int(start.timestamp()))
    rows = (
        Workload.objects.filter(Q(ended_at=None) | Q(ended_at__gt=start), cluster=cluster, submitted_at__lt=end)
        .exclude(state=Workload.State.REFUSED)
        .exclude(state=Workload.State.HELD, reason_code__in=events.NOT_COME)
        .order_by("submitted_at", "code")
    )
    works: dict[int, Work] = {}
    users: dict[int | None, str] = {None: ""}
    groups: dict[str, str] = {"": ""}
    for (
        pk,
        *what,
        submitted_at,
        first_started_at,
        ended_at,
        progress_s,
        limit_s,
        cpu,
        mib,
        gpu_classes,
        is_high,
        owner_id,
        name,
        locality,
    ) in rows.values_list(*WORKLOAD):
        instants = [second(submitted_at), second(first_started_at), second(ended_at)]
        # Whoever reads the scenario learns what recurs, and not what it is called.
        user = users.setdefault(owner_id, f"u{len(users)}")
        group = groups.setdefault(name, f"g{len(groups)}")
        asks = [cpu, mib, tuple(gpu_classes), is_high]
        works[pk] = Work(*[*what, *instants, progress_s, limit_s, *asks, user, group, locality, second(now)])
    runs = Run.objects.filter(workload__in=rows.order_by().values("pk")).order_by("started_at", "pk")
    found = list(runs.values_list(*RUN))
    holdings, _ = holdings_of([row[0] for row in found])
    for pk, workload_id, number, size_milli, funded, *instants, end_reason, preempted_by in found:
        if workload_id in works:
            held = {name: amount for name, amount in holdings.get(pk, {}).items() if name in nodes}
            is_charged = funded and end_reason not in CREDITED
            columns = [number, size_milli, is_charged, *map(second, instants), end_reason, preempted_by, held]
            works[workload_id].runs.append(Held(*columns))
    return list(works.values())


def _second(at: datetime | None, *, start_s: int) -> Any:
    """Seconds from the start of the stretch; None stays None."""
    return None if at is None else int(at.timestamp()) - start_s


def past_use(
    cluster: Cluster, start: datetime, since: datetime, of_path: Callable[[Sequence[int]], str]
) -> list[PastUse]:
    """What runs that had ended by the start used since an instant before. One query."""
    second = partial(_second, start_s=int(start.timestamp()))
    rows = (
        Run.objects.filter(cluster=cluster, ended_at__gt=since, ended_at__lte=start)
        .order_by("started_at", "pk")
        .values_list("path", "size_milli", "funded", "end_reason", "started_at", "ended_at")
    )
    return [
        PastUse(
            of_path(path),
            size_milli,
            second(started_at),
            second(ended_at),
            is_funded=funded and end_reason not in CREDITED,
        )
        for path, size_milli, funded, end_reason, started_at, ended_at in rows
    ]


def jobs(works: Sequence[Work], of_leaf: Callable[[int], str], length_s: int) -> list[Job]:
    """The workloads as a scenario has them; those of before its start as they stood then."""
    likely = _Likely(works)
    startup_s = _usual(run.running_s - run.start_s for work in works for run in work.runs if run.running_s is not None)
    exit_s = _usual(run.end_s - run.told_s for work in works for run in work.runs if run.end_s and run.told_s)
    return [_job(work, of_leaf(work.leaf_id), likely, startup_s, exit_s) for work in works]


def _usual(durations: Iterable[int]) -> int:
    found = list(durations)
    return max(0, median_low(found)) if found else 0


def _job(work: Work, leaf: str, likely: _Likely, startup_s: int, exit_s: int) -> Job:
    own_startups = [run.running_s - run.start_s for run in work.runs if run.running_s is not None]
    own_exits = [run.end_s - run.told_s for run in work.runs if run.end_s is not None and run.told_s is not None]
    duration_s = likely.duration_s(work) if work.is_censored else work.work_s()
    if work.time_limit_s is not None:
        duration_s = min(duration_s, work.time_limit_s)
    return Job(
        id=work.code,
        leaf=leaf,
        size_milli=work.size_milli,
        min_runtime_s=work.min_runtime_s,
        duration_s=duration_s,
        submit_s=work.submitted_s if work.submitted_s >= 0 else None,
        before=_before(work) if work.submitted_s < 0 else None,
        is_resumable=work.is_resumable,
        priority=work.priority,
        node=work.node,
        exit_delay_s=max(0, median_low(own_exits)) if own_exits else exit_s,
        restart_cost_s=work.restart_cost_s,
        startup_s=max(0, median_low(own_startups)) if own_startups else startup_s,
        estimate_s=work.time_limit_s,
        user=work.user,
        group=work.group,
        cpu_milli=work.cpu_milli,
        memory_mib=work.memory_mib,
        gpu_classes=work.gpu_classes,
        is_high=work.is_high,
        locality=work.locality,
    )


def _before(work: Work) -> Before:
    """How it stood at the start."""
    over = [run for run in work.runs if run.end_s is not None and run.end_s <= 0]
    held = [run for run in work.runs if run.start_s < 0 and (run.end_s is None or run.end_s > 0)]
    works = [run.work_s for run in over]
    first_start_s = work.first_start_s if work.first_start_s is not None and work.first_start_s <= 0 else None
    if held and held[0].holdings and not (held[0].told_s is not None and held[0].told_s <= 0):
        run = held[0]
        return Before(
            work.submitted_s,
            first_start_s,
            _kept_s(works, work.restart_cost_s),
            run.holdings,
            run.start_s,
            run.running_s if run.running_s is not None and run.running_s <= 0 else None,
            run.is_charged,
        )
    if held and held[0].running_s is not None:  # it was leaving, or nobody kept where it was
        until_s = 0 if held[0].told_s is None else min(held[0].told_s, 0)
        works.append(max(0, until_s - held[0].running_s))
    return Before(work.submitted_s, first_start_s, _kept_s(works, work.restart_cost_s))


class _Likely:
    """How long workloads take of which the rows do not say it."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._known: dict[Any, list[int]] = {}
        for work in works:
            if not work.is_censored:
                for key in ((work.leaf_id, work.min_runtime_s), work.min_runtime_s):
                    self._known.setdefault(key, []).append(work.work_s())
        for durations in self._known.values():
            durations.sort()

    def duration_s(self, work: Work) -> int:
        """The median of those of its like that took longer than it has so far."""
        done_s = work.work_s() + work.going_on_s
        for key in ((work.leaf_id, work.min_runtime_s), work.min_runtime_s):
            known = self._known.get(key, [])
            longer = known[bisect_right(known, done_s) :]
            if longer:
                return median_low(longer)
        return max(2 * done_s, work.min_runtime_s, SHORTEST_S)
