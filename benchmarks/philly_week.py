"""How fast the contracts engine simulates a week of Philly's jobs, as a whole process: import once, then `simulate`.

Its figures alone, as whoever asks "what if" has them, and with every decision and its sentence (`--json`).

python -m benchmarks.philly_week
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks import Row, at_least, plain
from benchmarks.machine import AT_CALM, paced
from benchmarks.shared_data import REPOSITORY, trace

JOBS = 12_751
GPUS = 512
DAYS = ("2017-10-09", "2017-10-16")
TARGET_PER_S = 3_000
REPEATS = 3
MEASURED = """
import json, resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""


class Used(NamedTuple):
    """What a command took: CPU time of all its threads, start of Python included, the same at a calm pace, and the most
    memory at once."""

    cpu_s: float
    calm_s: float
    peak_kib: int


def measure() -> list[Row]:
    """Jobs a second: at best of a few, and in the mean of them at a calm pace."""
    with tempfile.TemporaryDirectory() as folder:
        week = import_philly(Path(folder), GPUS, ["--from", DAYS[0], "--until", DAYS[1]])
        found = [simulate(week) for _ in range(REPEATS)]
        best, calm_s = min(found), fmean([each.calm_s for each in found])
        explained = simulate(week, "--json")
    what = f"contracts on the Philly week, {JOBS:,} jobs, {GPUS} GPUs, whole process"
    return [
        at_least(what, JOBS / best.cpu_s, "jobs/s", TARGET_PER_S),
        at_least(f"... {AT_CALM}", JOBS / calm_s, "jobs/s", TARGET_PER_S),
        plain("contracts on the Philly week: peak memory", best.peak_kib / 1_024, "MiB"),
        plain("contracts on the Philly week, every decision explained", JOBS / explained.cpu_s, "jobs/s"),
        plain("contracts on the Philly week, every decision explained: peak memory", explained.peak_kib / 1_024, "MiB"),
    ]


def import_philly(folder: Path, gpus: int, days: Sequence[str]) -> Path:
    """A scenario of Philly's jobs on nodes of 8 GPUs, in a folder."""
    scenario = folder / "philly.json"
    argv = [sys.executable, "manage.py", "import_trace", "--format", "philly", str(trace("philly_vc.csv"))]
    shares = str(trace("philly_vc_nodes.csv"))
    argv += ["--shares", shares, "--gpus", str(gpus), *days, "--out", str(scenario)]
    subprocess.run(argv, check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
    return scenario


def simulate(scenario: Path, *options: str) -> Used:
    """What the command takes for a scenario. Processes beside it take none of its CPU time."""
    argv = [sys.executable, "-c", MEASURED, sys.executable, "manage.py", "simulate", str(scenario), *options]
    said, to_calm = paced(argv)
    cpu_s, peak_kib = json.loads(said)
    return Used(cpu_s, cpu_s * to_calm, peak_kib)


if __name__ == "__main__":
    for row in measure():
        print(f"{row.name}: {row.value:,.1f} {row.unit}  {row.target}")
