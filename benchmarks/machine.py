"""What machine it was measured on, in two lines; with how fast plain Python is there, to compare one with another."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from portal.supervisor.place import servers_account
from portal.supervisor.servers import find_programs

YARDSTICK_REPEATS = 3


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
