"""How fast a plain first-in-first-out simulation is: a week of Philly's jobs, the whole command with Python's start.

    python -m benchmarks.fifo_week

The yardstick is the fastest published Python simulator on the same jobs, at 155 jobs a second on a machine of this
kind: the target is fifty times as much.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks import Row, at_least, plain
from benchmarks.shared_data import REPOSITORY, trace
from scheduler.traces import philly

FIRST_DAY = datetime(2017, 10, 9, tzinfo=UTC)
GPUS = 512
JOBS = 12_751
REPEATS = 3
TARGET_PER_S = 8_000
PUBLISHED_PER_S = 155


def measure() -> list[Row]:
    """Jobs a second, at best of a few."""
    with tempfile.TemporaryDirectory() as folder:
        week = Path(folder) / "week.csv"
        write_week(week)
        per_s = JOBS / min(simulated_s(week) for _ in range(REPEATS))
    return [
        at_least(f"fifo on the Philly week, {JOBS:,} jobs, {GPUS} GPUs, whole process", per_s, "jobs/s", TARGET_PER_S),
        plain("... times the fastest published Python simulator", per_s / PUBLISHED_PER_S, "x"),
    ]


def write_week(path: Path) -> None:
    """The week's jobs in the normalised format, by submission."""
    until = FIRST_DAY + timedelta(days=7)
    jobs = philly.read(trace("philly_vc.csv").read_text(encoding="utf-8"))
    week = [job for job in jobs if FIRST_DAY <= job.submitted_at < until]
    assert len(week) == JOBS, f"the week has {len(week)} jobs"
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(("job_id", "submit_time", "duration", "num_gpus", "vc"))
        for job in week:
            submit_s = int((job.submitted_at - FIRST_DAY).total_seconds())
            lines.writerow((job.row, submit_s, job.duration_s, job.gpus, job.team))


def simulated_s(week: Path) -> float:
    """How long the command takes."""
    argv = [sys.executable, "manage.py", "simulate", "--trace", str(week), "--gpus", str(GPUS)]
    began_s = time.perf_counter()
    subprocess.run(
        [*argv, "--scheduler", "fifo", "--placement", "count", "--json"],
        check=True,
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - began_s


if __name__ == "__main__":
    for row in measure():
        print(f"{row.name}: {row.value:,.1f} {row.unit}  {row.target}")
