"""What machine it was measured on, in two lines; with how fast plain Python is there, to compare one with another."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

from benchmarks.shared_data import REPOSITORY
from portal.supervisor.place import servers_account
from portal.supervisor.servers import find_programs

YARDSTICK_REPEATS = 3
LOOK_EVERY_S = 1.0
CALM_MS = 55
"""What the yardstick takes on the machines that the targets were set for, when they have nothing else to do."""
AT_CALM = f"at a yardstick of {CALM_MS} ms"


class Pace:
    """How fast plain Python is while a block runs: the yardstick, now and then, by a process of its own beside it."""

    def __enter__(self) -> Pace:
        """Begin."""
        self._looks_ms = [1_000 * yardstick_s(time.process_time)]
        argv = [sys.executable, "-m", "benchmarks.machine"]
        self._beside = subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._beside.terminate()
        said, _error = self._beside.communicate()
        self._looks_ms += [float(line) for line in said.split()]

    @property
    def to_calm(self) -> float:
        """By how much a time has to be multiplied to be what it would be where the yardstick takes `CALM_MS`."""
        return CALM_MS / fmean(self._looks_ms)


def described() -> str:
    """Cores, processor, memory, versions, day; the yardstick and how busy the machine is with other things."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"Measured on {datetime.now(UTC).date()}: {os.cpu_count()} cores ({processor()}), {memory_gib:.0f} GiB, "
        f"Python {platform.python_version()}, PostgreSQL {postgres_version()}.\n"
        f"The yardstick, a fixed piece of plain Python, took {yardstick_ms():.0f} ms just after; "
        f"{os.getloadavg()[0]:.1f} processes wanted a core meanwhile."
    )


def processor() -> str:
    """Its model, as it says itself."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def postgres_version() -> str:
    """Of the private server."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        program = find_programs(servers_account(), Path(folder)).postgres
        said = subprocess.run((program, "--version"), check=True, capture_output=True, text=True).stdout
    return said.split()[-1]


def yardstick_ms() -> float:
    """How long the yardstick takes by the clock: the best of a few."""
    return 1_000 * min(yardstick_s(time.perf_counter) for _ in range(YARDSTICK_REPEATS))


def yardstick_s(clock: Callable[[], float]) -> float:
    """How long a fixed piece of plain Python takes by that clock: dictionaries, sorting, whole numbers."""
    began_s = clock()
    table: dict[int, int] = {}
    value = 1
    for _ in range(300_000):
        value = value * 1_103_515_245 % 2_147_483_647
        table[value % 10_007] = table.get(value % 10_007, 0) + value
    sorted(table.items(), key=lambda pair: (pair[1], pair[0]))
    return clock() - began_s


def look_for_ever() -> None:
    """Print how long the yardstick takes, a line for each time, in milliseconds of processor time."""
    while True:
        print(f"{1_000 * yardstick_s(time.process_time):.1f}", flush=True)
        time.sleep(LOOK_EVERY_S)


if __name__ == "__main__":
    look_for_ever()
