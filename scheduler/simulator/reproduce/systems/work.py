"""Work of the kind on which published systems were tried, from a seed. The shapes are the papers', the rest ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import fmean
from typing import Any

from scheduler.engine import DEVICE_MILLI
from scheduler.simulator.counted import CountedJob, Stay
from scheduler.simulator.lab.chance import Chance
from scheduler.simulator.scenario import Scenario, parse

DAY_S = 86_400
TESTBED_GPUS, TESTBED_JOBS = 60, 480
"""Of Tiresias's testbed, and of the trace that was run on it."""
LOG_MEAN, LOG_DEVIATION = 6.6, 1.9
LONGEST_S = 2 * DAY_S
TESTBED_SIZES = ((1, 50), (2, 15), (4, 15), (8, 12), (16, 6), (32, 2))
"""GPUs of a job, and how many of a hundred ask for so many: not published, and ours."""
RECURRING_GPUS, RECURRING_JOBS, GROUPS = 64, 4_000, 300
GROUP_LOG_MEAN, GROUP_LOG_DEVIATION = 6.5, 1.2
"""Of the typical durations of groups."""
WITHIN_LOG_DEVIATION = 0.25
"""How far a job is from its group."""
RECURRING_SIZES = ((1, 90), (2, 4), (4, 3), (8, 3))
CONTENDED_GPUS, CONTENDED_JOBS = 64, 150
CONTENDED_LOG_MEAN, CONTENDED_LOG_DEVIATION, CONTENDED_LEAST_S = 8.2, 0.8, 600
CONTENDED_SIZES = (1, 1, 2, 2, 4, 4, 8)
"""GPUs, each as likely as the next."""


def heavy_tailed(chance: Chance, load: float) -> list[CountedJob]:
    """480 jobs for 60 GPUs, durations log-normal (6.6, 1.9) up to two days, as they come at a load.

    Args:
        chance: seeded.
        load: the work that comes in a time, by what the GPUs can do in it.
    """
    rows = [
        (_size(chance, TESTBED_SIZES), _seconds(chance.lognormvariate(LOG_MEAN, LOG_DEVIATION)), "")
        for _ in range(TESTBED_JOBS)
    ]
    return _coming(chance, rows, TESTBED_GPUS * load)


def recurring(chance: Chance, load: float) -> list[CountedJob]:
    """4,000 jobs of 300 groups for 64 GPUs: those of a group take about as long, and ask for as much."""
    groups = [
        (f"g{number:03d}", chance.lognormvariate(GROUP_LOG_MEAN, GROUP_LOG_DEVIATION), _size(chance, RECURRING_SIZES))
        for number in range(GROUPS)
    ]
    rows = []
    for _ in range(RECURRING_JOBS):
        name, typical_s, gpus = chance.choice(groups)
        rows.append((gpus, _seconds(typical_s * chance.lognormvariate(0, WITHIN_LOG_DEVIATION)), name))
    return _coming(chance, rows, RECURRING_GPUS * load)


def contended(chance: Chance) -> list[CountedJob]:
    """150 jobs for 64 GPUs at a load of 1, of hours and up to eight GPUs, which know how long they take."""
    rows = []
    for _ in range(CONTENDED_JOBS):
        duration_s = max(CONTENDED_LEAST_S, chance.lognormvariate(CONTENDED_LOG_MEAN, CONTENDED_LOG_DEVIATION))
        rows.append((chance.choice(CONTENDED_SIZES), _seconds(duration_s), ""))
    return [job._replace(estimate_s=job.duration_s) for job in _coming(chance, rows, CONTENDED_GPUS)]


def _coming(chance: Chance, rows: list[tuple[int, int, str]], gpus_busy: float) -> list[CountedJob]:
    """One after the other at random, so fast that they would keep so many GPUs busy."""
    gap_s = sum(gpus * duration_s for gpus, duration_s, _ in rows) / gpus_busy / len(rows)
    instants = accumulate((chance.expovariate(1 / gap_s) for _ in rows[1:]), initial=0.0)
    return [
        CountedJob(f"{number:04d}", round(at), duration_s, gpus * DEVICE_MILLI, group=group)
        for number, (at, (gpus, duration_s, group)) in enumerate(zip(instants, rows, strict=True))
    ]


def _seconds(duration: float) -> int:
    return max(1, min(LONGEST_S, round(duration)))


def _size(chance: Chance, sizes: tuple[tuple[int, int], ...]) -> int:
    turn = chance.randint(1, sum(weight for _, weight in sizes))
    for gpus, weight in sizes:
        turn -= weight
        if turn <= 0:
            return gpus
    raise AssertionError(sizes)


def on_nodes(jobs: Sequence[CountedJob], nodes: Mapping[str, int], policy: Mapping[str, Any]) -> Scenario:
    """The jobs as workloads of one leaf, on nodes by name with so many GPUs, under a file's policy.

    With contracts of a second nobody is protected, and nobody takes time to start or leave: so are the papers'
    simulators.
    """
    workloads = [
        {
            "id": job.id,
            "leaf": "all",
            "submit": job.submit_s,
            "gpus": job.size_milli // DEVICE_MILLI,
            "min_runtime": 1,
            "duration": job.duration_s,
            "group": job.group,
            "estimate": "" if job.estimate_s is None else job.estimate_s,
        }
        for job in jobs
    ]
    rows = [{key: value for key, value in row.items() if value != ""} for row in workloads]
    file = {
        "cluster": {"nodes": nodes},
        "tree": {"all": 1},
        "policy": {"min_runtime_min_s": 1, **policy},
        "workloads": rows,
    }
    return parse(json.dumps(file))


def mean_completion_s(jobs: Sequence[CountedJob], stays: Sequence[Stay]) -> float:
    """From submission to the end, the mean over all jobs."""
    return fmean(stay.end_s - job.submit_s for job, stay in zip(jobs, stays, strict=True))
