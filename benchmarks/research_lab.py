"""How long the invented laboratory takes under contracts: what a manager waits for who asks "what if".

    .venv/bin/python -m benchmarks.research_lab

Thirty days of 1,024 GPUs, and a week of a small cluster: the file's text read, simulated, and its figures computed; the
start of Python and writing the result are not in it. Processor time: others on the machine take none of it.
"""

from __future__ import annotations

import json
import random
import resource
import time
from statistics import fmean

from benchmarks import Row, at_most, plain
from benchmarks.machine import AT_CALM, Pace
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


def measure() -> list[Row]:
    """Seconds for both, and what the month came to."""
    with Pace() as weeks:
        weeks_s = [_timed(*WEEK)[0] for _ in range(REPEATS)]
    with Pace() as months:
        month_s, submitted = _timed(*MONTH)
    days, gpus = MONTH
    what = f"research-lab, {days} days, {gpus:,} GPUs"
    return [
        at_most(f"research-lab, {WEEK[0]} days, {WEEK[1]} GPUs", min(weeks_s), "s", WEEK_S),
        at_most(f"... {AT_CALM}", fmean(weeks_s) * weeks.to_calm, "s", WEEK_S),
        at_most(f"{what}, {submitted:,} workloads", month_s, "s", MONTH_S),
        at_most(f"... {AT_CALM}", month_s * months.to_calm, "s", MONTH_S),
        plain(f"{what}: workloads", submitted / month_s, "per s"),
        plain(f"{what}: peak memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024, "MiB"),
    ]


def _timed(days: int, gpus: int) -> tuple[float, int]:
    """Seconds from the file's text to its figures, and the workloads that were submitted."""
    content = json.dumps(research_lab(random.Random(SEED), seed=SEED, days=days, gpus=gpus))
    began = time.process_time()
    outcome = simulate(parse(content), is_explained=False)
    metrics(outcome)
    taken_s = time.process_time() - began
    return taken_s, sum(record.state is not None for record in outcome.jobs)


if __name__ == "__main__":
    for row in measure():
        print(f"{row.name}: {row.value:,.2f} {row.unit}  {row.target}")
