"""Simulations on real workers: sent as a group over the broker, cancelled in mid-run, left by a killed worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.utils import timezone

from budgets.models import Person
from scheduler.models import Simulation, SimulationPart
from scheduler.services import simulating, simulations
from scheduler.services.simulations import File, Variant
from scheduler.simulator.lab import research_lab
from tests.processes import running

pytestmark = pytest.mark.long  # workers are started and killed, and want the machine for themselves


PATIENCE_S = 120
LONG_WORK = 6
"""Days of a laboratory that keep a worker busy for some seconds."""


def worker(environment: dict[str, str]) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A worker of the queue of simulations, as `./run` starts it; its whole group is gone afterwards."""
    argv = [sys.executable, "-m", "celery", "-A", "portal.celery", "worker", "--concurrency", "2",
            "--queues", simulating.QUEUE, "--without-gossip", "--without-mingle"]  # fmt: skip
    return running(argv, environment)


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.1)


def state_of(row: Simulation) -> str:
    row.refresh_from_db(fields=["state", "error"])
    return row.state


def ask(person: Person | None, days: int, variants: int = 2) -> Simulation:
    content = json.dumps(research_lab(Random(1), seed=1, days=days, gpus=64))
    return simulations.compare(
        by=person, source=File("lab.json", content), variants=[Variant(f"no. {number}") for number in range(variants)]
    )


@pytest.fixture
def ada(transactional_db: None) -> Person:
    return Person.objects.create_user("ada", password="sesame-open-42")


def test_run_by_workers_and_cancelled_in_mid_run(ada: Person, process_environment: dict[str, str]) -> None:
    small = ask(ada, days=1)
    with worker(process_environment):
        wait_until("the first simulation is over", lambda: state_of(small) == "finished")
        figures: list[Any] = list(small.parts.values_list("figures", flat=True))
        assert figures[0] == figures[1]
        assert figures[0]["submitted"] > 50

        large = ask(ada, days=LONG_WORK * 5)
        part = large.parts.get(number=1)
        wait_until(
            "a part says how far it is",
            lambda: SimulationPart.objects.filter(pk=part.pk, progress_percent__gt=0, state="running").exists(),
        )
        assert simulations.cancel(simulation=large, by=ada)
        last = ask(ada, days=1, variants=1)  # the workers are free for it although the large one was not done
        wait_until("the last simulation is over", lambda: state_of(last) == "finished")
    assert state_of(large) == "cancelled"
    assert not large.parts.exclude(state="cancelled").exists()
    assert not large.parts.exclude(figures=None).exists()


def test_a_killed_worker_loses_nothing(ada: Person, process_environment: dict[str, str]) -> None:
    row = ask(ada, days=LONG_WORK, variants=1)
    part = row.parts.get()
    with worker(process_environment) as first:
        wait_until("it runs", lambda: SimulationPart.objects.filter(pk=part.pk, state="running").exists())
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    part.refresh_from_db()
    assert (part.state, part.attempts) == ("running", 1)
    SimulationPart.objects.filter(pk=part.pk).update(touched_at=timezone.now() - timedelta(minutes=5))
    Simulation.objects.filter(pk=row.pk).update(made_at=timezone.now() - timedelta(minutes=5))
    assert simulating.look_after() == 1
    with worker(process_environment):
        wait_until("another worker has done it", lambda: state_of(row) == "finished")
    part.refresh_from_db()
    assert (part.state, part.attempts, part.progress_percent) == ("finished", 2, 100)
