"""The clock is set while work goes on: an hour forwards, an hour back. By the clocks that loop functions take.

What was decided stays decided, no pass is made at an instant before the last one, nothing is charged for time that did
not go by twice, and everything goes on by itself when the clock is right again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from celery.beat import ScheduleEntry
from celery.schedules import schedule

from portal.celery import app
from portal.steady import SteadyScheduler
from scheduler.models import Event, Pass, Run
from scheduler.queries.pulse import stopped
from scheduler.services import usage
from tests.scheduler.conftest import World, at, second_of

HOUR = 3_600
FOREVER = {"startup_s": 0, "duration_s": 100_000, "exit_delay_s": 0}


def passes() -> list[int]:
    """The instants of all passes, in the order in which they were made."""
    return [second_of(each) or 0 for each in Pass.objects.order_by("pk").values_list("at", flat=True)]


def test_an_hour_forwards_and_back_no_pass_runs_backwards(make_world: Callable[..., World]) -> None:
    world = make_world(nodes={"h1": 8})
    held = world.submit("A", 8, min_runtime_s=4 * HOUR, sim=FOREVER)
    world.live(until=60)
    waits = world.submit("B", 8, min_runtime_s=HOUR, now=60, sim=FOREVER)
    world.live(since=60, until=100)
    world.step(100 + HOUR)  # the clock was set forwards
    assert passes()[-1] == 100 + HOUR
    world.live(since=110, until=300)  # and is right again
    made = passes()
    assert made == sorted(made)
    assert max(made) == 100 + HOUR  # time stands until the clock has caught up
    held.refresh_from_db()
    waits.refresh_from_db()
    assert (held.state, waits.state) == ("running", "queued")
    assert Run.objects.get(workload=held).contract_ends_at == at(4 * HOUR)  # the contract is what it was
    world.live(since=100 + HOUR, until=160 + HOUR)
    assert passes()[-1] > 100 + HOUR


def test_a_contract_ends_by_the_right_clock_after_it_was_wrong(make_world: Callable[..., World]) -> None:
    world = make_world(nodes={"h1": 8})
    held = world.submit("A", 8, min_runtime_s=2 * HOUR, resumable=True, sim=FOREVER)
    world.live(until=20)
    rival = world.submit("B", 8, min_runtime_s=HOUR, now=20, sim=FOREVER)
    world.step(30 + HOUR)
    world.live(since=40, until=100)
    held.refresh_from_db()
    assert held.state == "running"  # an hour too early would have been a broken contract
    world.live(since=2 * HOUR - 60, until=2 * HOUR - 10)
    held.refresh_from_db()
    assert held.state == "running"
    world.live(since=2 * HOUR, until=2 * HOUR + 600)
    held.refresh_from_db()
    rival.refresh_from_db()
    assert (held.state, rival.state) == ("queued", "running")
    assert held.preemptions == 1


def test_what_ends_while_the_clock_is_back_ends_once_and_not_before_its_start(make_world: Callable[..., World]) -> None:
    world = make_world(nodes={"h1": 8})
    world.step(0)
    world.step(HOUR)
    short = world.submit("A", 2, min_runtime_s=600, now=20, sim={"startup_s": 0, "duration_s": 30, "exit_delay_s": 0})
    world.live(since=20, until=120)
    world.live(since=HOUR, until=HOUR + 120)
    short.refresh_from_db()
    run = Run.objects.get(workload=short)
    assert short.state == "finished"
    assert run.started_at <= (run.ended_at or at(0))
    assert Event.objects.filter(kind="run_started").count() == Run.objects.count() == 1
    assert run.ended_at is not None
    assert run.ended_at - run.started_at <= timedelta(seconds=150)  # charged for what it ran, not for the jump


def test_the_lookback_counts_what_was_used_once(make_world: Callable[..., World]) -> None:
    world = make_world(nodes={"h1": 8})
    sim = {"startup_s": 0, "duration_s": 600, "exit_delay_s": 0}
    world.submit("A", 4, min_runtime_s=600, sim=sim)
    world.live(until=700)
    used = Pass.objects.order_by("-pk")[0].figures["A"]["used_milli_s"]
    world.step(700 + HOUR)
    world.live(since=710, until=760)
    usage.roll_up(world.cluster, at(760))
    usage.roll_up(world.cluster, at(760 + HOUR))
    assert Pass.objects.order_by("-pk")[0].figures["A"]["used_milli_s"] == used
    assert used == sum(
        int((run.ended_at - run.started_at).total_seconds()) * run.size_milli
        for run in Run.objects.exclude(ended_at=None)
        if run.ended_at is not None
    )
    assert usage.check(world.cluster, at(0), at(HOUR)) == []


def test_pages_do_not_call_a_clock_that_was_set_a_stop(make_world: Callable[..., World]) -> None:
    world = make_world(nodes={"h1": 1}, pass_every_s=10)
    world.step(0)
    world.step(HOUR)
    assert stopped(at(20)) == []
    assert [each.cluster for each in stopped(at(HOUR + 61))] == ["north"]
    assert stopped(at(HOUR + 60)) == []


class Clock:
    """A clock on the wall that can be set, beside one that only goes forward: `portal.steady` takes it for `time`."""

    def __init__(self) -> None:
        self.passed_s = self.set_by_s = 0.0

    def monotonic(self) -> float:
        """The one that only goes forward."""
        return self.passed_s

    def time(self) -> float:
        """The one on the wall."""
        return self.now().timestamp()

    def now(self) -> datetime:
        """The same, as Celery asks."""
        return at(0) + timedelta(seconds=self.passed_s + self.set_by_s)


class Beat(SteadyScheduler):
    """Beat that notes what it would send."""

    producer = None

    def apply_entry(self, entry: ScheduleEntry, producer: object = None) -> None:
        """Note it."""
        self.sent = [*getattr(self, "sent", []), entry.name]

    def setup_schedule(self) -> None:
        """None of the portal's own."""


@pytest.mark.parametrize("jump_s", [HOUR, -HOUR])
def test_beat_keeps_its_pace_when_the_clock_is_set(jump_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("portal.steady.time", clock)
    beat = Beat(app, schedule={})
    for name, every_s in (("quick", 1), ("slow", 60)):
        every = schedule(timedelta(seconds=every_s), nowfun=clock.now)
        beat.schedule[name] = ScheduleEntry(name=name, task=name, schedule=every, app=app)

    def live(seconds: int) -> list[str]:
        beat.sent = []
        for _ in range(seconds * 10):
            while beat.tick() == 0:
                pass
            clock.passed_s += 0.1
        return beat.sent

    assert 28 <= live(30).count("quick") <= 31
    clock.set_by_s = jump_s
    sent = live(60)
    assert 57 <= sent.count("quick") <= 62
    assert sent.count("slow") == 1
