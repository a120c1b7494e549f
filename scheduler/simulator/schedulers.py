"""Who decides in a simulated world: the contracts engine, or a plain scheduler to compare it with.

The three seams are apart in each: admission (`refusal`), order (`order`), placement (inside `decide`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from scheduler.engine import Explains, Plan, Policy, Reason, Snapshot, comparisons, decide, refusal_in, whole_order

from .auctioning import Themis
from .backfill import Easy
from .baselines import Baseline, Fifo, ShortestFirst, View
from .partition import Partition
from .preempting import Priority, ShortestRemainingFirst
from .records import JobRecord, RunRecord
from .scenario import Job, Scenario

BASELINES: Mapping[str, type[Baseline]] = {
    "fifo": Fifo,
    "fifo-skip": Baseline,
    "sjf": ShortestFirst,
    "srtf": ShortestRemainingFirst,
    "easy": Easy,
    "priority": Priority,
    "partition": Partition,
    "themis": Themis,
}


def counts_devices_alone(scenario: Scenario, scheduler: str) -> str:
    """A line that says so where it matters: nodes say what cores and memory they have, and workloads ask for some.

    Contracts heed them, the plain schedulers do not; "" where nothing is lost by that.
    """
    if scheduler not in BASELINES:
        return ""
    are_said = any(node.cpu_milli is not None or node.memory_mib is not None for node in scenario.nodes)
    if not are_said or not any(job.cpu_milli or job.memory_mib for job in scenario.jobs):
        return ""
    return f"{scheduler} counts {scenario.unit}s alone: cores and memory of nodes bound nothing under it"


class Scheduler(Protocol):
    """What a world asks of whoever decides in it."""

    def refusal(self, job: Job) -> Reason | None:
        """Why a workload may not be queued as it is, or None."""

    def order(self) -> tuple[str, ...]:
        """The queue's ids in the order in which a pass would consider them if nothing could start."""

    def decide(self, told: Mapping[str, str]) -> Plan:
        """One pass over the world as it stands. `told` (the snapshot's) are the codes that those who wait know."""

    def moves_at_s(self, from_s: int, event_s: int) -> int:
        """When the next pass could decide something new, by time alone: an instant of the grid, or the next event's.

        Args:
            from_s: the next instant of the grid (`pass_every_s`), which is before the event.
            event_s: when something happens next.
        """


class Contracts:
    """The engine (semantics.md)."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, jobs: Mapping[str, JobRecord], *, is_explained: bool
    ) -> None:
        """Decide by a policy about what the snapshot says, and say why or not."""
        self._jobs = jobs
        self._explains = Explains.NEWS if is_explained else Explains.NOTHING
        self._snapshot = snapshot
        self._policy = policy
        self._has_margin = bool(policy.swap_margin)
        self._has_decided = False

    def refusal(self, job: Job) -> Reason | None:
        """The rules at the door."""
        return refusal_in(
            self._snapshot,
            self._policy,
            leaf=job.leaf,
            size_milli=job.size_milli,
            min_runtime_s=job.min_runtime_s,
            node=job.node,
            cpu_milli=job.cpu_milli,
            memory_mib=job.memory_mib,
            gpu_classes=job.gpu_classes,
        )

    def order(self) -> tuple[str, ...]:
        """Section 3."""
        return tuple(workload.id for workload in whole_order(self._snapshot))

    def decide(self, told: Mapping[str, str]) -> Plan:
        """A pass of the engine."""
        self._has_decided = True
        return decide(self._snapshot, self._policy, self._explains, self._next_run)

    def _next_run(self, workload: str) -> str:
        return self._jobs[workload].next_run

    def moves_at_s(self, from_s: int, event_s: int) -> int:
        """Figures move while funded runs go on, and count by how siblings compare."""
        snapshot, every_s = self._snapshot, self._policy.pass_every_s
        decided_by = comparisons(snapshot)
        if not decided_by or not any(snapshot.runs_of.values()):
            return event_s
        if self._has_margin or not self._has_decided:
            return from_s
        at_s = from_s
        while at_s < event_s:
            snapshot.advance(at_s)
            if comparisons(snapshot) != decided_by:
                return at_s
            stay_until_s = min([level.until_s(at_s) for level, _ in decided_by])
            at_s = max(at_s, stay_until_s) // every_s * every_s + every_s
        return event_s


def scheduler_for(
    scenario: Scenario,
    snapshot: Snapshot,
    jobs: Mapping[str, JobRecord],
    runs: Mapping[str, RunRecord],
    *,
    is_explained: bool,
) -> Scheduler:
    """The one that a scenario names.

    Args:
        scenario: what is simulated.
        snapshot: the world's, kept up to date by it.
        jobs: every workload by id, with its progress; the world's.
        runs: the runs that have not ended, by id; the world's.
        is_explained: whether the engine says why; the plain ones always do.
    """
    if scenario.scheduler == "contracts":
        return Contracts(snapshot, scenario.policy, jobs, is_explained=is_explained)
    return BASELINES[scenario.scheduler](View(scenario, snapshot, jobs, runs))
