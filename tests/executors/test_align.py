"""allotment-align: a loop's iterations begin in their place, and keep it."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

PROGRAM = REPOSITORY / "scheduler" / "executors" / "programs" / "allotment_align.py"
Pace = runpy.run_path(str(PROGRAM))["Pace"]


class Clock:
    """Invented time, in which sleeping is going on."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> float:
        return self.now_ms / 1_000

    def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1_000)


def pace(clock: Clock, keeps: str = "1", **changed: str) -> Any:
    """Of a period of 100 ms, shifted by 30."""
    environ = {"ALLOTMENT_TIME_SHIFT_MS": "30", "ALLOTMENT_PERIOD_MS": "100", "ALLOTMENT_TIME_SHIFT_KEEPS": keeps}
    return Pace(environ | changed, clock, clock.sleep)


def begins_ms(clock: Clock, loop: Any, took_ms: list[int]) -> list[int]:
    """When each iteration begins, of which the one before took so long."""
    found = []
    for each in took_ms:
        loop.wait()
        found.append(clock.now_ms)
        clock.now_ms += each
    return found


def test_the_first_iteration_waits_for_its_place_and_no_other_does_where_it_is_not_kept() -> None:
    clock = Clock(1_000_000)
    assert begins_ms(clock, pace(clock, keeps=""), [98, 110, 100]) == [1_000_030, 1_000_128, 1_000_238]


def test_a_place_is_kept() -> None:
    """2 ms early waits, 4 ms late goes on at once, 6 ms late is a drift: the next place is 94 ms away."""
    clock = Clock(1_000_000)
    found = begins_ms(clock, pace(clock), [98, 104, 102, 100, 100])
    assert found == [1_000_030, 1_000_130, 1_000_234, 1_000_430, 1_000_530]


def test_one_that_can_t_keep_its_place_does_not_wait_in_each_iteration() -> None:
    clock = Clock(0)
    found = begins_ms(clock, pace(clock), [120] * 500)
    waits = sum(later - earlier > 120 for earlier, later in pairwise(found))
    assert 5 <= waits <= 5 + 500 // 50


@pytest.mark.parametrize("missing", ["ALLOTMENT_TIME_SHIFT_MS", "ALLOTMENT_PERIOD_MS"])
def test_without_a_place_nobody_waits(missing: str) -> None:
    clock = Clock(12)
    assert pace(clock, **{missing: ""}).wait() == 0
    assert clock.now_ms == 12


def run(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The program, as a workload calls it."""
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(
        [sys.executable, "-IS", str(PROGRAM)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_program_sleeps_until_the_next_place(tmp_path: Path) -> None:
    found = run(tmp_path, ALLOTMENT_TIME_SHIFT_MS="300", ALLOTMENT_PERIOD_MS="2000")
    ended_ms = time.time() * 1_000
    assert (found.returncode, found.stderr) == (0, "")
    assert (ended_ms - 300) % 2_000 < 1_500  # it ended at its place, and this process went on soon after
    assert run(tmp_path).returncode == 0


def test_numbers_that_are_none_are_one_line(tmp_path: Path) -> None:
    found = run(tmp_path, ALLOTMENT_TIME_SHIFT_MS="soon", ALLOTMENT_PERIOD_MS="100")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "allotment-align: ALLOTMENT_TIME_SHIFT_MS and ALLOTMENT_PERIOD_MS must be whole numbers\n"
