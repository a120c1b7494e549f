"""Two workers and two beats: no pass and no periodic work is doubled."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connections
from django.utils import timezone

from scheduler import loop
from scheduler.models import Event, Pass, Run, Workload
from tests.faults.conftest import wait_until
from tests.processes import running
from tests.scheduler.conftest import World, check_books

EVERY_S = 2
LIVED_S = 12


def at_once(*calls: Callable[[], object]) -> None:
    """Make calls in threads that begin together."""
    barrier = threading.Barrier(len(calls))

    def make(call: Callable[[], object]) -> None:
        barrier.wait()
        try:
            call()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=make, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_of_two_who_find_a_pass_due_only_one_makes_it(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(pass_every_s=3_600)
    loop.tick()
    while loop.look_at(world.cluster.pk):
        pass
    made = Pass.objects.count()
    due = threading.Barrier(2)
    found = loop.is_pass_due

    def is_due_by_then(cluster: object, now: object, **more: bool) -> bool:
        """Both look before either of them has made it."""
        said = found(cluster, now, **more)
        if not due.broken and due.n_waiting < 2 and not getattr(threading.current_thread(), "has_looked", False):
            threading.current_thread().has_looked = True
            due.wait(10)
        return said

    monkeypatch.setattr(loop, "is_pass_due", is_due_by_then)
    later = timezone.now().replace(microsecond=0) + timedelta(hours=2)
    at_once(lambda: loop.tick(later), lambda: loop.tick(later))
    assert Pass.objects.count() == made + 1


@pytest.mark.long
def test_two_workers_and_two_beats_make_no_pass_twice(
    make_world: Callable[..., World], process_environment: dict[str, str]
) -> None:
    world = make_world(nodes={"h1": 8, "h2": 8}, pass_every_s=EVERY_S)
    celery = [sys.executable, "-m", "celery", "-A", "portal.celery"]
    beat = [*celery, "beat", "--loglevel", "ERROR", "-S", "portal.steady.SteadyScheduler", "--pidfile", ""]

    def worker(name: str) -> list[str]:
        return [*celery, "worker", "--concurrency", "2", "--loglevel", "ERROR", "--hostname", f"{name}@%h"]

    with (
        running(worker("one"), process_environment),
        running(worker("two"), process_environment),
        running(beat, process_environment),
        running(beat, process_environment),
    ):
        wait_until("the first pass", Pass.objects.exists)
        began = timezone.now()
        time.sleep(LIVED_S)
        quiet = list(Pass.objects.filter(at__gt=began).order_by("pk").values_list("at", flat=True))
        for number in range(12):
            world.submit(
                "A" if number % 2 else "B", 1 + number % 4, min_runtime_s=300 * (number % 2), resumable=True,
                sim={"startup_s": 0, "duration_s": 2, "exit_delay_s": 0},
            )  # fmt: skip
        wait_until("all workloads", lambda: Workload.objects.filter(state="finished").count() == 12)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(quiet)]
    assert min(gaps) >= EVERY_S, gaps
    assert len(quiet) >= LIVED_S / EVERY_S / 2
    assert Event.objects.filter(kind="run_started").count() == Run.objects.count()
    check_books()


def test_work_that_comes_without_a_pause_leaves_time_between_long_passes(make_world: Callable[..., World]) -> None:
    world = make_world(pass_every_s=3_600)
    while loop.look_at(world.cluster.pk, is_due=not Pass.objects.exists()):
        pass
    made = Pass.objects.count()
    Pass.objects.update(at=timezone.now().replace(microsecond=0), decide_ms=5_000)
    world.submit("A", now=0)
    assert (loop.look_at(world.cluster.pk), loop.tick(), Pass.objects.count()) == (0, 0, made)  # it took 5 s
    Pass.objects.update(load_ms=0, decide_ms=loop.REST_FROM_MS - 1, apply_ms=0)
    assert loop.look_at(world.cluster.pk) > 0  # a short one asks for no rest
    Pass.objects.update(decide_ms=5_000, at=timezone.now().replace(microsecond=0) - timedelta(seconds=15))
    world.submit("A", now=0)
    assert loop.tick() == 0  # not yet
    Pass.objects.update(decide_ms=5_000, at=timezone.now().replace(microsecond=0) - timedelta(seconds=20))
    assert loop.tick() > 0  # three times as much has gone by
