"""What a simulation writes down while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.engine import Arrival, Reason, value

from .scenario import Job, Scenario


@dataclass(slots=True)
class RunRecord:
    """One holding of devices, [start_s, end_s); end_s is None while it goes on; start_s may be before the scenario."""

    id: str
    job: JobRecord
    start_s: int
    holdings: Mapping[str, int]
    is_funded: bool
    size_milli: int
    running_s: int | None = None
    contract_end_s: int | None = None
    end_s: int | None = None
    end_reason: str | None = None
    preempted_by: str | None = None
    told_s: int | None = None  # when it was told to stop
    price_milli: int = 1_000  # how many times the time its work takes where it is spread, in thousandths

    @property
    def is_leaving(self) -> bool:
        """Whether it was told to stop."""
        return self.told_s is not None

    def work_s(self, running_s: int) -> int:
        """What it does of its workload's duration in so many seconds."""
        return running_s * 1_000 // self.price_milli

    def takes_s(self, work_s: int) -> int:
        """How long it takes for so much of its workload's duration."""
        return -(-work_s * self.price_milli // 1_000)

    def held_milli_s(self, now_s: int) -> int:
        """What it has held so far, since the scenario's start."""
        return self.size_milli * ((now_s if self.end_s is None else self.end_s) - max(self.start_s, 0))


@dataclass(slots=True)
class JobRecord:
    """One workload with what became of it. `state` is None before its submission."""

    job: Job
    state: str | None = None
    submitted_s: int = 0
    progress_s: int = 0
    first_start_s: int | None = None
    end_s: int | None = None
    preemptions: int = 0
    runs: list[RunRecord] = field(default_factory=list)
    reason: Reason | None = None
    is_cancelled: bool = False
    demand_from_s: int | None = None
    attained_milli_s: int = 0  # what its runs have executed, by what they held, and was not forgiven
    executed_s: int = 0  # how long they have, in all
    predicted_s: int | None = None  # how long it was thought to execute when it was submitted
    forgiven_s: int = 0  # how much of that counts no more for an order inside its leaf
    forgivings: list[tuple[int, int]] = field(default_factory=list)  # instant, and how much from then on
    arrival: Arrival | None = None  # where that order asks

    @property
    def next_run(self) -> str:
        """The id of the run that it would start now."""
        return f"{self.job.id}/{len(self.runs) + 1}"


@value(frozen=True, slots=True)
class LoggedDecision:
    """A decision that changed a workload's action or reason code."""

    at_s: int
    workload: str
    action: str
    reason: Reason


@value(frozen=True, slots=True)
class Demand:
    """A funded workload was queued or held its devices in [from_s, until_s)."""

    leaf: str
    size_milli: int
    from_s: int
    until_s: int


@dataclass(slots=True)
class Outcome:
    """Everything that a simulation came to, for `report`."""

    scenario: Scenario
    end_s: int = 0
    jobs: Sequence[JobRecord] = ()
    runs: list[RunRecord] = field(default_factory=list)
    decisions: list[LoggedDecision] = field(default_factory=list)
    demand: list[Demand] = field(default_factory=list)
    healthy_steps: list[tuple[int, int]] = field(default_factory=list)  # (instant, healthy thousandths from then on)
    entitlement_steps: list[tuple[int, Mapping[str, tuple[int, int]]]] = field(default_factory=list)
    held_unfit_milli_s: int = 0  # held on nodes that were not healthy
    passes: int = 0
