"""The figures by which policies are compared over seeds: plain numbers of one run, by name.

Waits count whoever had not started by the end with what it had waited by then: else a policy that starves some looks
well, as only the lucky ones are counted. What a wait of a class is beside that says `comparison.class_of`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from scheduler.engine import DEVICE_MILLI, locality

from .comparison import class_of
from .counted import CountedJob, Stay
from .finish_times import completion, rhos
from .records import JobRecord, Outcome, RunRecord
from .report import HOUR_S, metrics, percentile
from .sampled import Sample

Measures = Mapping[str, float | None]
"""By the names of `MEASURES`; None where there was nothing to measure."""


class Measure(NamedTuple):
    """One figure.

    Attributes:
        name: for programs.
        label: for people.
        unit: "s", "part" (of one), "times", "count" or "gpu_h".
        better: "less" or "more"; "" where neither is.
        group: under which heading it stands.
    """

    name: str
    label: str
    unit: str
    better: str
    group: str


MEASURES: Sequence[Measure] = (
    Measure("wait_mean_s", "wait, mean", "s", "less", "waits"),
    Measure("wait_median_s", "wait, median", "s", "less", "waits"),
    Measure("wait_p90_s", "wait, 9 in 10 within", "s", "less", "waits"),
    Measure("debug_p90_s", "debug runs, 9 in 10 within", "s", "less", "waits"),
    Measure("large_median_s", "large gangs, median wait", "s", "less", "waits"),
    Measure("large_p90_s", "large gangs, 9 in 10 within", "s", "less", "waits"),
    Measure("completion_mean_s", "completion, mean", "s", "less", "completion"),
    Measure("completion_p90_s", "completion, 9 in 10 within", "s", "less", "completion"),
    Measure("finished", "workloads finished", "count", "more", "completion"),
    Measure("delivery", "delivery of what was owed", "part", "more", "fairness"),
    Measure("rho_p90", "finish-time fairness ρ, 9 in 10 within", "times", "less", "fairness"),
    Measure("rho_max", "finish-time fairness ρ, worst", "times", "less", "fairness"),
    Measure("occupancy", "occupancy", "part", "more", "use"),
    Measure("usable", "largest gang, of free or interruptible", "part", "more", "use"),
    Measure("largest", "largest gang, of the cluster", "part", "more", "use"),
    Measure("packed", "nodes in use, how full", "part", "more", "use"),
    Measure("pieces", "free GPUs that are on nodes in use", "part", "less", "use"),
    Measure("spread", "runs on more nodes than they need", "part", "less", "use"),
    Measure("price", "GPU time, times what it takes unspread", "times", "less", "use"),
    Measure("utilization", "gangs over several nodes use, modelled", "part", "more", "use"),
    Measure("preemptions", "preemptions", "count", "less", "preemption"),
    Measure("lost_gpu_h", "work lost to interruptions", "gpu_h", "less", "preemption"),
)
OF_SIMULATIONS = ("usable", "largest", "packed", "pieces", "price", "lost_gpu_h")
OF_HISTORY = tuple(each.name for each in MEASURES if each.name not in OF_SIMULATIONS)
"""What rows of real runs say; what could have started hour by hour, and what was repeated, they do not."""


def measure(outcome: Outcome, samples: Sequence[Sample]) -> Measures:
    """The measures of a simulation that was looked at every hour (`sampled.SampledWorld`)."""
    could = [each for each in samples if each.free_milli + each.interruptible_milli]
    fit = [each for each in samples if each.fit_milli]
    return _told(outcome) | {
        "usable": _mean([each.largest_milli / (each.free_milli + each.interruptible_milli) for each in could]),
        "largest": _mean([each.largest_milli / each.fit_milli for each in fit]),
        "packed": _mean([each.held_milli / each.touched_milli for each in samples if each.touched_milli]),
        "pieces": _mean([each.pieces_milli / each.free_milli for each in samples if each.free_milli]),
        "price": _price(outcome.runs, outcome.end_s),
        "lost_gpu_h": sum(_lost_milli_s(record, outcome.end_s) for record in outcome.jobs) / (HOUR_S * DEVICE_MILLI),
    }


def measure_history(outcome: Outcome) -> Measures:
    """The measures of what really happened (`OF_HISTORY`), the others None."""
    told = _told(outcome)
    return {each.name: told[each.name] if each.name in OF_HISTORY else None for each in MEASURES}


def measure_counted(jobs: Sequence[CountedJob], stays: Sequence[Stay], capacity_milli: int) -> Measures:
    """The measures of a trace on a plain number of GPUs, where there are no nodes, budgets or costs of preemption."""
    waits_s = [stay.start_s - job.submit_s for job, stay in zip(jobs, stays, strict=True)]
    completions_s = [stay.end_s - job.submit_s for job, stay in zip(jobs, stays, strict=True)]
    found: dict[str, float | None] = dict.fromkeys((each.name for each in MEASURES), None)
    makespan_s = max(stay.end_s for stay in stays) - min(job.submit_s for job in jobs)
    return found | {
        "wait_mean_s": _mean(waits_s),
        "wait_median_s": percentile(waits_s, 50),
        "wait_p90_s": percentile(waits_s, 90),
        "completion_mean_s": _mean(completions_s),
        "completion_p90_s": percentile(completions_s, 90),
        "finished": len(jobs),
        "occupancy": _ratio(sum(job.size_milli * job.duration_s for job in jobs), capacity_milli * makespan_s),
        "preemptions": sum(stay.preemptions for stay in stays),
    }


def _told(outcome: Outcome) -> dict[str, float | None]:
    whole = metrics(outcome)
    ended = completion(outcome)
    fairness = list(rhos(outcome).values())
    waits_s = _waits_s(outcome)
    return {
        "wait_mean_s": _mean(waits_s["all"]),
        "wait_median_s": percentile(waits_s["all"], 50),
        "wait_p90_s": percentile(waits_s["all"], 90),
        "debug_p90_s": percentile(waits_s["debug"], 90),
        "large_median_s": percentile(waits_s["large"], 50),
        "large_p90_s": percentile(waits_s["large"], 90),
        "completion_mean_s": ended["mean_s"],
        "completion_p90_s": ended["p90_s"],
        "finished": ended["count"],
        "delivery": whole["delivery"],
        "rho_p90": percentile(fairness, 90),
        "rho_max": max(fairness, default=None),
        "occupancy": whole["occupancy"],
        "spread": _spread(outcome),
        "utilization": _utilization(outcome.runs, outcome.end_s),
        "preemptions": whole["preemptions"],
    }


def _waits_s(outcome: Outcome) -> dict[str, list[int]]:
    """By class, of all that were submitted in the scenario's time and neither refused nor cancelled unstarted."""
    node_milli = max(node.capacity_milli for node in outcome.scenario.nodes)
    total_milli = sum(node.capacity_milli for node in outcome.scenario.nodes)
    found: dict[str, list[int]] = {"all": [], "debug": [], "standard": [], "large": [], "unallocated": []}
    for record in outcome.jobs:
        if record.state in (None, "refused") or record.submitted_s < 0:
            continue
        until_s = record.first_start_s
        if until_s is None:
            if record.end_s is not None:
                continue
            until_s = outcome.end_s
        for name in ("all", class_of(record, node_milli, total_milli)):
            found[name].append(until_s - record.submitted_s)
    return found


def _lost_milli_s(record: JobRecord, end_s: int) -> int:
    """Device time of work that was repeated or thrown away, and of start-ups after the first."""
    if not record.preemptions and len(record.runs) < 2:
        return 0
    before = record.job.before
    executed_s = (0 if before is None else before.done_s) + sum(_worked_s(run, end_s) for run in record.runs)
    started_again_s = sum(
        run.running_s - run.start_s for run in record.runs[1:] if run.running_s is not None and run.start_s >= 0
    )
    return (max(0, executed_s - _kept_s(record, end_s)) + started_again_s) * record.runs[-1].size_milli


def _worked_s(run: RunRecord, end_s: int) -> int:
    """What it has done of its work, repeated or not."""
    if run.running_s is None:
        return 0
    until_s = min(each for each in (run.told_s, run.end_s, end_s) if each is not None)
    return run.work_s(max(0, until_s - run.running_s))


def _kept_s(record: JobRecord, end_s: int) -> int:
    """What of its work is done and will not have to be done again."""
    if record.state == "finished":
        return record.job.duration_s
    if record.state in ("preempted", "lost"):
        return 0
    running = _worked_s(record.runs[-1], end_s) if record.state == "running" else 0
    return record.progress_s + running


def _spread(outcome: Outcome) -> float | None:
    """The part of the runs that are on more nodes than they need."""
    node_milli = max(node.capacity_milli for node in outcome.scenario.nodes)
    spread = sum(len(run.holdings) > locality.fewest_nodes(run.size_milli, node_milli) for run in outcome.runs)
    return _ratio(spread, len(outcome.runs))


def _price(runs: Sequence[RunRecord], end_s: int) -> float | None:
    """How many times the device time runs held that their work would have taken where nothing is spread."""
    held = [(run.held_milli_s(end_s), run.price_milli) for run in runs]
    plain_milli_s = sum(milli_s * 1_000 / price_milli for milli_s, price_milli in held)
    return _ratio(sum(milli_s for milli_s, _ in held), plain_milli_s)


def _utilization(runs: Sequence[RunRecord], end_s: int) -> float | None:
    """What gangs on two servers or more would have used of what they held, by `locality.utilization`.

    What one on a single server uses hangs on what it is, and is not modelled.
    """
    held = [(run.held_milli_s(end_s), len(run.holdings)) for run in runs if len(run.holdings) > 1]
    whole_milli_s = sum(milli_s for milli_s, _ in held)
    return _ratio(sum(milli_s * locality.utilization(servers) for milli_s, servers in held), whole_milli_s)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
