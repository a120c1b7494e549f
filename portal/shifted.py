"""What the page of a workload says of its place on the network."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.models import Run, Workload


@dataclass(frozen=True, slots=True)
class Beside:
    """The uplink of a leaf, who else was on it when the run started, and how well they share it."""

    leaf: str
    workloads: list[str]
    score: float


@dataclass(frozen=True, slots=True)
class Shift:
    """The place of the latest run that has one."""

    run: int
    shift_ms: int
    period_ms: int
    score: float
    beside: list[Beside]


def of_workload(workload: Workload) -> Shift | None:
    """None where it says nothing of what it sends, or no run of it was on a link between leaves."""
    if workload.communication is None:
        return None
    run = Run.objects.filter(workload=workload, time_shift__isnull=False).order_by("-number").first()
    if run is None or run.time_shift is None:
        return None
    told = run.time_shift
    beside = [Beside(each["leaf"], each["beside"], each["score"]) for each in told["links"]]
    return Shift(run.number, told["shift_ms"], told["period_ms"], told["score"], beside)
