"""Starting and stopping processes."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from portal.supervisor.processes import Service, descendants, start, stop, wait_ready
from portal.supervisor.refusal import Refusal
from tests.platform.conftest import survivors, wait_until

STUBBORN = ("sh", "-c", "trap '' TERM; sleep 60 & echo ready; wait; sleep 60")


def service(tmp_path: Path, name: str, *argv: str) -> Service:
    """A service with a log in the test's folder."""
    return Service(name=name, argv=argv, environment=dict(os.environ), log_path=tmp_path / f"{name}.log")


def stubborn(tmp_path: Path, name: str, *, wave: str = "") -> Service:
    """One that ignores SIGTERM, has a child, and is ready when it does so."""
    made = service(tmp_path, name, *STUBBORN)
    return replace(made, stop_grace_s=1, wave=wave, ready=lambda: "ready" in made.log_path.read_text())


def test_one_that_ignores_sigterm_is_killed_after_its_grace_with_its_children(tmp_path: Path) -> None:
    running = start(stubborn(tmp_path, "a"))
    wait_ready(running)
    below = descendants(running.process.pid)
    assert len(below) == 1
    began_s = time.monotonic()
    stop([running])
    assert time.monotonic() - began_s >= 1
    assert running.process.returncode == -signal.SIGKILL
    assert wait_until(lambda: not survivors(below), within_s=2)


def test_a_wave_is_stopped_together_and_others_after_it(tmp_path: Path) -> None:
    running = [start(stubborn(tmp_path, name, wave=wave)) for name, wave in (("a", ""), ("b", "w"), ("c", "w"))]
    for each in running:
        wait_ready(each)
    began_s = time.monotonic()
    stop(running)
    assert 2 <= time.monotonic() - began_s < 3
    assert {each.process.returncode for each in running} == {-signal.SIGKILL}


def test_one_that_ends_at_once_is_refused_with_its_last_words(tmp_path: Path) -> None:
    made = replace(service(tmp_path, "a", "sh", "-c", "echo first; echo no memory; exit 3"), ready=lambda: False)
    with pytest.raises(Refusal) as refused:
        wait_ready(start(made))
    assert str(refused.value) == f"a ended with status 3: no memory (log: {tmp_path / 'a.log'})"


def test_one_that_never_answers_is_refused(tmp_path: Path) -> None:
    made = replace(service(tmp_path, "a", "sleep", "60"), ready=lambda: False, ready_within_s=0)
    running = start(made)
    with pytest.raises(Refusal, match="a did not answer within 0 s: it said nothing"):
        wait_ready(running)
    stop([running])


def test_a_large_log_is_moved_aside_at_the_next_start(tmp_path: Path) -> None:
    made = service(tmp_path, "a", "echo", "new")
    made.log_path.write_bytes(b"x" * 10_000_001)
    start(made).process.wait()
    assert made.log_path.read_text() == "new\n"
    assert (tmp_path / "a.log.1").stat().st_size == 10_000_001
