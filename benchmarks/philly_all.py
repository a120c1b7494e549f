"""How long the contracts engine takes for all of Philly, 110 days on 56 nodes of 8 GPUs, and how much memory.

python -m benchmarks.philly_all
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import Row, at_most, plain
from benchmarks.machine import AT_CALM
from benchmarks.philly_week import import_philly, simulate

JOBS = 82_247
GPUS = 448
TARGET_S = 60
TARGET_MIB = 1_024


def measure() -> list[Row]:
    """CPU time and memory of the whole process, once: for its figures, and with every decision and its sentence."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = import_philly(Path(folder), GPUS, [])
        used = simulate(scenario)
        explained = simulate(scenario, "--json")
    what = f"contracts on all of Philly, {JOBS:,} jobs, {GPUS} GPUs, whole process"
    return [
        at_most(what, used.cpu_s, "s", TARGET_S),
        at_most(f"... {AT_CALM}", used.calm_s, "s", TARGET_S),
        at_most(f"{what}: peak memory", used.peak_kib / 1_024, "MiB", TARGET_MIB),
        plain("contracts on all of Philly, every decision explained", explained.cpu_s, "s"),
        at_most(
            "contracts on all of Philly, every decision explained: peak memory",
            explained.peak_kib / 1_024,
            "MiB",
            TARGET_MIB,
        ),
    ]


if __name__ == "__main__":
    for row in measure():
        print(f"{row.name}: {row.value:,.1f} {row.unit}  {row.target}")
