"""Processes that make passes are killed in mid-pass, again and again: nothing is lost, nothing starts twice.

No hook in the product helps: real processes work on a busy cluster, and SIGKILL comes at random instants.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from django.db.models import Count
from django.utils import timezone

from scheduler import loop
from scheduler.models import Event, Pass, Run, Workload
from scheduler.services import events, workloads
from tests.processes import running
from tests.scheduler.conftest import World, check_books

PATIENCE_S = 60


def submit_some(world: World, count: int) -> None:
    """Small and large workloads that take a second or two."""
    for number in range(count):
        workloads.submit(
            cluster=world.cluster,
            leaf=world.leaves["A" if number % 2 else "B"],
            owner=None,
            size_milli=1_000 * (1 + number % 4),
            min_runtime_s=300 * (number % 3),
            command=["train"],
            resumable=True,
            environment={"SIM_STARTUP_S": "0", "SIM_DURATION_S": str(1 + number % 2), "SIM_EXIT_DELAY_S": "0"},
        )


def wait_until(what: str, holds: Callable[[], bool], patience_s: int = PATIENCE_S) -> None:
    """Wait for something to become true."""
    until_s = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < until_s, f"waited {patience_s} s for {what}"
        time.sleep(0.01)


def finish(world: World) -> None:
    """Let the cluster come to rest in this process."""
    wait_until("the dead process's lock", lambda: loop.run_pass(world.cluster.pk) is not None)

    def is_over() -> bool:
        loop.tick(timezone.now())
        return not Workload.objects.filter(state__in=Workload.OPEN_STATES).exists()

    wait_until("all workloads", is_over, patience_s=5 * PATIENCE_S)


def check_nothing_lost_or_doubled(submitted: int) -> None:
    """Every workload ran to its end, and no run started while another of the same workload went on."""
    assert Workload.objects.filter(state="finished").count() == submitted
    for workload in Workload.objects.prefetch_related("runs"):
        runs = sorted(workload.runs.all(), key=lambda run: run.number)
        assert [run.number for run in runs] == list(range(1, len(runs) + 1))
        assert len(runs) == 1 + workload.preemptions
        for earlier, later in pairwise(runs):
            assert earlier.ended_at is not None
            assert earlier.ended_at <= later.started_at
    starts = Event.objects.filter(kind="run_started").values("run").annotate(times=Count("pk"))
    assert {row["times"] for row in starts} == {1}
    assert len(starts) == Run.objects.count()
    check_books()


def kill_in_mid_pass(world: World, environment: dict[str, str], rounds: int, seed: int) -> int:
    """Kill a process that makes passes as fast as it can, so many times. How many workloads were submitted."""
    draw = random.Random(seed)
    argv = [sys.executable, "manage.py", "run_cycle", "north", "--for", "60", "--every", "0.001"]
    submitted = 0
    for _ in range(rounds):
        before = Pass.objects.count()
        with running(argv, environment) as process:
            wait_until("its first pass", lambda before=before: Pass.objects.count() > before)
            submit_some(world, 10)
            submitted += 10
            time.sleep(draw.uniform(0, 0.4))
            assert process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
        check_books()
    return submitted


def test_a_process_killed_in_mid_pass_loses_and_doubles_nothing(
    make_world: Callable[..., World], process_environment: dict[str, str]
) -> None:
    world = make_world(nodes={"h1": 8, "h2": 8}, pass_every_s=1)
    submitted = kill_in_mid_pass(world, process_environment, rounds=4, seed=1)
    finish(world)
    check_nothing_lost_or_doubled(submitted)


@pytest.mark.long
def test_many_kills_in_mid_pass_lose_and_double_nothing(
    make_world: Callable[..., World], process_environment: dict[str, str]
) -> None:
    world = make_world(nodes={"h1": 8, "h2": 8}, pass_every_s=1)
    submitted = kill_in_mid_pass(world, process_environment, rounds=16, seed=2)
    finish(world)
    check_nothing_lost_or_doubled(submitted)


def test_a_submission_wakes_the_loop_at_once(
    make_world: Callable[..., World], process_environment: dict[str, str]
) -> None:
    """A worker and no beat: nothing but the wake-up makes passes."""
    world = make_world(pass_every_s=3_600)
    worker = [sys.executable, "-m", "celery", "-A", "portal.celery", "worker", "--concurrency", "1"]
    with running(worker, process_environment):
        while not Pass.objects.exists():  # wake-ups expire, and the worker takes a while to come up
            events.wake(world.cluster.pk)
            time.sleep(0.5)
        workload = world.submit("A")
        began_s = time.monotonic()
        wait_until("its start", lambda: Run.objects.filter(workload=workload).exists())
        assert time.monotonic() - began_s < 5, "the worker is up: this is a wake-up's time"


def test_killed_workers_and_two_beats_lose_and_double_nothing(
    make_world: Callable[..., World], process_environment: dict[str, str]
) -> None:
    """Celery as it is run: a worker with two processes, two beats; the whole worker is killed under load."""
    world = make_world(nodes={"h1": 8, "h2": 8}, pass_every_s=1)
    celery = [sys.executable, "-m", "celery", "-A", "portal.celery"]
    worker = [*celery, "worker", "--concurrency", "2", "--loglevel", "ERROR"]
    beat = [*celery, "beat", "--loglevel", "ERROR", "-S", "celery.beat.Scheduler", "--pidfile", ""]
    with running(beat, process_environment), running(beat, process_environment):
        for _ in range(2):
            before = Pass.objects.count()
            with running(worker, process_environment) as process:
                wait_until("its first pass", lambda before=before: Pass.objects.count() > before)
                submit_some(world, 20)
                time.sleep(random.Random(3).uniform(0.1, 0.5))
                os.killpg(process.pid, signal.SIGKILL)
        with running(worker, process_environment):
            wait_until("all workloads", lambda: Workload.objects.filter(state="finished").count() == 40)
    check_nothing_lost_or_doubled(40)
