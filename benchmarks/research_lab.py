"""How long the invented laboratory takes under contracts: what a manager waits for who asks "what if".

    .venv/bin/python -m benchmarks.research_lab

Thirty days of 1,024 GPUs, and a week of a small cluster: the file's text read, simulated, and its figures computed; the
start of Python and writing the result are not in it. Processor time: others on the machine take none of it. Each is
measured in a process of its own:

    .venv/bin/python -m benchmarks.research_lab DAYS GPUS REPEATS
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from statistics import fmean
from typing import NamedTuple

from benchmarks import Row, at_most, plain
from benchmarks.machine import AT_CALM, paced
from scheduler.simulator import parse, simulate
from scheduler.simulator.lab import research_lab
from scheduler.simulator.report import metrics

SEED = 1
MONTH = (30, 1_024)
MONTH_S = 5.0
WEEK = (7, 64)
WEEK_S = 0.5
REPEATS = 5
"""Of the week; the month is measured once."""


class Taken(NamedTuple):
    """Seconds at best, seconds in the mean at a calm pace, workloads that were submitted, and the most memory."""

    best_s: float
    calm_s: float
    submitted: int
    peak_kib: int


def measure() -> list[Row]:
    """Seconds for both, and what the month came to."""
    week, month = taken(*WEEK, REPEATS), taken(*MONTH, 1)
    days, gpus = MONTH
    what = f"research-lab, {days} days, {gpus:,} GPUs"
    return [
        at_most(f"research-lab, {WEEK[0]} days, {WEEK[1]} GPUs", week.best_s, "s", WEEK_S),
        at_most(f"... {AT_CALM}", week.calm_s, "s", WEEK_S),
        at_most(f"{what}, {month.submitted:,} workloads", month.best_s, "s", MONTH_S),
        at_most(f"... {AT_CALM}", month.calm_s, "s", MONTH_S),
        plain(f"{what}: workloads", month.submitted / month.best_s, "per s"),
        plain(f"{what}: peak memory", month.peak_kib / 1_024, "MiB"),
    ]


def taken(days: int, gpus: int, repeats: int) -> Taken:
    """What a laboratory takes in a process of its own."""
    argv = [sys.executable, "-m", "benchmarks.research_lab", *map(str, (days, gpus, repeats))]
    said, to_calm = paced(argv)
    times_s, submitted, peak_kib = json.loads(said)
    return Taken(min(times_s), fmean(times_s) * to_calm, submitted, peak_kib)


def timed(content: str) -> tuple[float, int]:
    """Seconds from the file's text to its figures, and the workloads that were submitted."""
    began_s = time.process_time()
    outcome = simulate(parse(content), is_explained=False)
    metrics(outcome)
    taken_s = time.process_time() - began_s
    return taken_s, sum(record.state is not None for record in outcome.jobs)


def measure_here(days: int, gpus: int, repeats: int) -> None:
    """Print the seconds of each repeat, the workloads that were submitted, and the most memory, in KiB."""
    content = json.dumps(research_lab(random.Random(SEED), seed=SEED, days=days, gpus=gpus))
    found = [timed(content) for _ in range(repeats)]
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([[taken_s for taken_s, _submitted in found], found[0][1], peak_kib]))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure_here(*map(int, sys.argv[1:]))
    else:
        for row in measure():
            print(f"{row.name}: {row.value:,.2f} {row.unit}  {row.target}")
