"""When workloads finished, and how fair that was to each: finish-time fairness (Mahajan et al., NSDI 2020).

rho is how many times longer a workload took, from submission to end, than it would have with a fair share of the
cluster to itself all the while: its time alone, times the workloads that were there for each device while it was. At 1
or less, nobody would have done better with their share apart. It is told after the fact, as Shockwave's evaluation does
(Zheng et al., NSDI 2023).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

from scheduler.engine import DEVICE_MILLI

from .records import JobRecord, Outcome
from .report import percentile


def completion(outcome: Outcome) -> dict[str, Any]:
    """From submission to end, of all that finished: {count, mean_s, median_s, p90_s}; None where nothing did."""
    times_s = [_completion_s(record) for record in _finished(outcome)]
    return {
        "count": len(times_s),
        "mean_s": round(sum(times_s) / len(times_s), 3) if times_s else None,
        "median_s": percentile(times_s, 50),
        "p90_s": percentile(times_s, 90),
    }


def rho(outcome: Outcome) -> dict[str, float | None]:
    """Finish-time fairness of all that finished: {median, p90, max}; None where nothing did."""
    found = list(rhos(outcome).values())
    return {"median": percentile(found, 50), "p90": percentile(found, 90), "max": max(found, default=None)}


def rhos(outcome: Outcome) -> dict[str, float]:
    """rho of every workload that finished, by id, to a thousandth. One that takes no time alone has none."""
    total_milli = sum(node.capacity_milli for node in outcome.scenario.nodes)
    presence = _Presence(outcome)
    found = {}
    for record in _finished(outcome):
        alone_s = record.job.startup_s + record.job.duration_s
        if alone_s:
            there = presence.mean(record.submitted_s, record.end_s or 0)
            contention = max(1.0, there * DEVICE_MILLI / total_milli)
            found[record.job.id] = round(_completion_s(record) / (alone_s * contention), 3)
    return found


def _finished(outcome: Outcome) -> list[JobRecord]:
    return [record for record in outcome.jobs if record.state == "finished"]


def _completion_s(record: JobRecord) -> int:
    assert record.end_s is not None
    return record.end_s - record.submitted_s


class _Presence:
    """How many workloads were there, waiting or running, at every instant."""

    def __init__(self, outcome: Outcome) -> None:
        changes: dict[int, int] = {}
        for record in outcome.jobs:
            if record.state is not None and record.state != "refused":
                end_s = outcome.end_s if record.end_s is None else record.end_s
                changes[record.submitted_s] = changes.get(record.submitted_s, 0) + 1
                changes[end_s] = changes.get(end_s, 0) - 1
        self._instants_s = sorted(changes)
        self._there = list(accumulate(changes[at_s] for at_s in self._instants_s))
        spans = zip(self._instants_s, self._instants_s[1:], self._there, strict=False)
        self._until_s = [0, *accumulate((until_s - from_s) * there for from_s, until_s, there in spans)]

    def mean(self, from_s: int, until_s: int) -> float:
        """Over [from_s, until_s)."""
        if until_s <= from_s:
            return 1.0
        return (self._sum_s(until_s) - self._sum_s(from_s)) / (until_s - from_s)

    def _sum_s(self, at_s: int) -> int:
        last = bisect_right(self._instants_s, at_s) - 1
        return self._until_s[last] + (at_s - self._instants_s[last]) * self._there[last]
