"""Gangs that are tried out on one device first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from budgets.errors import InputError
from budgets.models import Person
from scheduler.models import Run, Workload
from scheduler.services import retries, runs, workloads
from tests.scheduler.conftest import World, at, second_of

LONG = pytest.mark.long


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """Eight devices."""
    return make_world()


def tried_out(world: World, duration_s: int = 90_000, **more: object) -> tuple[Workload, Workload]:
    """A gang of four devices, and its canary, which runs."""
    gang = world.submit("A", gpus=4, canary=True, sim={"startup_s": 0, "duration_s": duration_s}, **more)
    canary = gang.after
    assert canary is not None
    assert (gang.state, gang.reason_code) == ("held", "waiting_after")
    world.step(0)
    canary.refresh_from_db()
    assert canary.state == "running"
    return gang, canary


def end(canary: Workload, second: int, code: str) -> None:
    """The canary's run ends."""
    run = Run.objects.exclude(state=Run.State.ENDED).get(workload=canary)
    assert runs.end(run=run, at=at(second), code=code, exit_code=int(code == runs.FAILED))


def test_a_canary_is_the_same_command_on_one_device_for_a_short_time(world: World) -> None:
    gang, canary = tried_out(world, name="big", min_runtime_s=7_200, resumable=True, retries=2)
    assert (canary.size_milli, canary.min_runtime_s, canary.time_limit_s, canary.name) == (
        1_000,
        300,
        600,
        "big canary",
    )
    assert (canary.command, canary.environment["ALLOTMENT_CANARY"]) == (gang.command, "1")
    assert (canary.retries, canary.resumable, gang.retries) == (0, False, 2)
    assert "ALLOTMENT_CANARY" not in gang.environment
    assert gang.reason_text == f"Waiting: it enters the queue when its canary {canary.code} has passed."
    free = world.submit("A", gpus=2, min_runtime_s=0, canary=True).after
    assert free is not None
    assert free.min_runtime_s == 0


@pytest.mark.parametrize("code", [runs.FINISHED, pytest.param(runs.TIME_LIMIT, marks=LONG)])
def test_the_gang_enters_when_its_canary_finished_or_ran_without_an_error(world: World, code: str) -> None:
    gang, canary = tried_out(world)
    end(canary, 100, code)
    gang.refresh_from_db()
    assert (gang.state, second_of(gang.submitted_at)) == ("queued", 100)
    world.step(110)
    gang.refresh_from_db()
    assert gang.state == "running"


@pytest.mark.parametrize("how", ["failed", pytest.param("lost", marks=LONG), pytest.param("cancelled", marks=LONG)])
def test_else_it_is_held_until_a_person_releases_it(world: World, how: str) -> None:
    gang, canary = tried_out(world)
    follower = world.submit("B", after=gang, now=5)
    if how == "cancelled":
        assert workloads.cancel(workload=canary, by=None, now=at(90))
        end(canary, 100, "cancelled")
    else:
        end(canary, 100, runs.FAILED if how == "failed" else "node_lost")
    gang.refresh_from_db()
    assert (gang.state, gang.reason_code) == ("held", "canary_failed")
    world.step(200)
    gang.refresh_from_db()
    follower.refresh_from_db()
    assert (gang.state, follower.state) == ("held", "held")
    assert retries.release(workload=gang, by=None, now=at(300))
    gang.refresh_from_db()
    assert (gang.state, second_of(gang.submitted_at), gang.retried) == ("queued", 300, 0)
    assert not retries.release(workload=gang, by=None, now=at(301))


@pytest.mark.long
def test_submitted_again_it_is_the_same_gang_with_the_same_canary(world: World, person: Person) -> None:
    made = [world.submit("A", gpus=4, canary=True, idempotency_key="once") for _ in range(2)]
    assert made[0].pk == made[1].pk
    assert Workload.objects.count() == 2


@pytest.mark.long
def test_what_is_refused_at_the_door_has_no_canary(world: World) -> None:
    assert world.submit("A", gpus=4, min_runtime_s=10**6, canary=True).state == "refused"
    assert Workload.objects.count() == 1


def test_only_a_gang_has_one(world: World) -> None:
    asks = {"cluster": world.cluster, "leaf": world.leaves["A"], "owner": None, "command": ["train"]}
    for gpus, canary, count in ((1, True, 1), (4, "yes", 1), (4, True, 3)):
        with pytest.raises(InputError) as caught:
            workloads.submit_array(count=count, size_milli=gpus * 1_000, min_runtime_s=3_600, canary=canary, **asks)
        assert caught.value.field == "canary"
    assert not Workload.objects.exists()
