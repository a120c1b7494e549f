"""What machine it was measured on, in two lines; with how fast plain Python is there, to compare one with another."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks.shared_data import REPOSITORY
from portal.supervisor.place import servers_account
from portal.supervisor.servers import find_programs

YARDSTICK_REPEATS = 3
LOOK_EVERY_S = 1.0
CALM_MS = 55
"""What the yardstick takes on the machines that the targets were set for, when they have nothing else to do."""
AT_CALM = f"at a yardstick of {CALM_MS} ms"


class Paced(NamedTuple):
    """What a command printed, and by how much the times that it took have to be multiplied to be what they would be
    where the yardstick takes `CALM_MS`."""

    said: str
    to_calm: float


def paced(argv: Sequence[str]) -> Paced:
    """Run a command, and see how fast plain Python is meanwhile: each second it stops while the yardstick is taken.

    Nothing else of the benchmark runs then, as nothing else ran where the targets were set: cores may share what they
    have, and a yardstick taken beside the command would be slower than the machine is for either alone.
    """
    looks_ms = [1_000 * yardstick_s(time.process_time)]
    process = subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        while True:
            try:
                said, _error = process.communicate(timeout=LOOK_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGSTOP)
                looks_ms.append(1_000 * yardstick_s(time.process_time))
                os.killpg(process.pid, signal.SIGCONT)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv)
    return Paced(said, CALM_MS / fmean(looks_ms))


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
