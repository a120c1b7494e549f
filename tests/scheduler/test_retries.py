"""Workloads that failed: why, who is tried again, who is not, and who waits for a person's word."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from budgets.errors import InputError, NotAllowed
from budgets.models import Message, Person
from scheduler import snapshots
from scheduler.engine import decide
from scheduler.loop import look_at, run_pass
from scheduler.models import Decision, Event, LogChunk, Pass, Rank, Run, Workload
from scheduler.services import bad_ends, retries, runs, workloads
from tests.scheduler.conftest import World, at, second_of

OWN = "ModuleNotFoundError: No module named 'flash_attn'"
NETWORK = "ConnectionResetError: [Errno 104] Connection reset by peer"
STORAGE = "OSError: [Errno 5] Input/output error"


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """Eight devices."""
    return make_world()


def fail(workload: Workload, second: int, line: str = "", exit_code: int = 1) -> Run:
    """Its run ends with an error at a second, after it printed a line."""
    run = Run.objects.exclude(state=Run.State.ENDED).get(workload=workload)
    if line:
        text = f"epoch 1\n{line}\n"
        LogChunk.objects.create(rank=Rank.objects.get(run=run, index=0), offset=0, length=len(text), text=text)
    assert runs.end(run=run, at=at(second), code=runs.FAILED, exit_code=exit_code)
    workload.refresh_from_db()
    return run


def judge(workload: Workload, second: int) -> str:
    """What is due by then is judged; the workload's state, and its reason's code."""
    retries.judge(at(second))
    workload.refresh_from_db()
    return f"{workload.state} {workload.reason_code}"


def started(world: World, second: int = 0, **more: Any) -> Workload:
    """A workload of A that runs."""
    made = world.submit("A", now=second, sim={"startup_s": 0, "duration_s": 90_000}, **more)
    world.step(second)
    made.refresh_from_db()
    assert made.state == "running"
    return made


def test_a_failure_is_judged_some_seconds_after_its_end_by_what_was_printed(world: World) -> None:
    workload = started(world)
    run = fail(workload, 100, OWN)
    assert (workload.state, run.workload_id) == ("failed", workload.pk)
    assert retries.judge(at(114)) == 0
    assert retries.judge(at(115)) == 1
    assert retries.judge(at(116)) == 0
    run.refresh_from_db()
    assert (run.failure_class, run.failure_line, run.failure_signature) == ("import", OWN, OWN)


def test_without_output_the_exit_code_decides(world: World) -> None:
    workload = started(world, retries=1)
    run = fail(workload, 100, exit_code=127)
    assert judge(workload, 115) == "failed failed"
    run.refresh_from_db()
    assert (run.failure_class, run.failure_line, run.failure_signature) == ("command", "", "exit 127")


@pytest.mark.long
def test_what_asked_for_no_retries_has_failed_at_once(world: World) -> None:
    workload = started(world)
    fail(workload, 100, NETWORK)
    assert (workload.state, second_of(workload.ended_at)) == ("failed", 100)
    assert judge(workload, 200).startswith("failed")


def test_a_failure_of_its_own_is_not_tried_again_and_says_why(world: World) -> None:
    workload = started(world, retries=3, secrets={"TOKEN": "abcdefgh1234"})
    fail(workload, 100, OWN)
    assert (workload.state, workload.reason_code, workload.ended_at) == ("held", "failure_unjudged", None)
    assert workload.secrets == {"TOKEN": "abcdefgh1234"}
    world.step(110)
    assert judge(workload, 115) == "failed failed"
    assert workload.reason_text == (
        "It failed. It is not tried again (a module or a library is missing): that would happen again."
    )
    assert (workload.secrets, workload.retried, second_of(workload.ended_at)) == ({}, 0, 115)


@pytest.mark.long
def test_the_sentence_of_its_end_stays(world: World) -> None:
    workload = world.submit("A", retries=1, sim={"startup_s": 0, "duration_s": 60, "exit_code": 127})
    world.live(80)
    assert judge(workload, 90) == "failed failed"
    assert workload.reason_text.startswith("Rank 0 on h1 exited with status 127. It is not tried again (its command ")


def test_a_failure_of_the_infrastructure_is_tried_again_in_its_old_place(world: World) -> None:
    workload = started(world, retries=2, secrets={"TOKEN": "abcdefgh1234"})
    later = [world.submit("A", gpus=8, now=50) for _ in range(2)]
    fail(workload, 100, NETWORK)
    assert judge(workload, 115) == "queued tried_again"
    assert workload.reason_text == "It failed (a network connection failed), and is tried again: 1 of 2."
    assert (workload.retried, second_of(workload.submitted_at), workload.preemptions) == (1, 0, 0)
    assert workload.secrets == {"TOKEN": "abcdefgh1234"}
    assert run_pass(world.cluster.pk, now=at(116)) is not None
    workload.refresh_from_db()
    assert (workload.state, Run.objects.filter(workload=workload).count()) == ("starting", 2)
    assert {Workload.objects.get(pk=each.pk).state for each in later} == {"queued"}


@pytest.mark.long
def test_all_tries_are_made_and_no_more(world: World) -> None:
    workload = started(world, retries=2)
    for number, line in enumerate([NETWORK, STORAGE]):
        second = 100 * (number + 1)
        fail(workload, second, line)
        assert judge(workload, second + 15) == "queued tried_again"
        world.step(second + 20)
    fail(workload, 300, "RuntimeError: The server socket has failed to listen: EADDRINUSE")
    assert (workload.state, second_of(workload.ended_at)) == ("failed", 300)
    assert workload.reason_text == "It failed. It had been tried again 2 of 2 times."


@pytest.mark.long
def test_a_resumable_one_goes_on_and_another_begins_anew(world: World) -> None:
    kept, anew = started(world, retries=1, resumable=True), started(world, 10, retries=1)
    fail(kept, 100, NETWORK)
    fail(anew, 110, STORAGE)
    retries.judge(at(130))
    kept.refresh_from_db()
    anew.refresh_from_db()
    assert (kept.progress_s, anew.progress_s) == (100, 0)
    assert (kept.state, anew.state) == ("queued", "queued")


def test_who_fails_as_before_within_a_day_is_held_until_a_person_releases_it(world: World, person: Person) -> None:
    workload = started(world, retries=3)
    Workload.objects.filter(pk=workload.pk).update(owner=person)
    fail(workload, 100, NETWORK)
    assert judge(workload, 115) == "queued tried_again"
    world.step(120)
    fail(workload, 200, NETWORK)
    assert judge(workload, 215) == "held failed_alike"
    assert "Release it to try again, or cancel it." in workload.reason_text
    world.step(4_000)
    workload.refresh_from_db()
    assert workload.state == "held"
    stranger = Person.objects.create(username="bo", display_name="Bo")
    with pytest.raises(NotAllowed):
        retries.release(workload=workload, by=stranger, now=at(4_001))
    assert retries.release(workload=workload, by=person, now=at(4_001))
    assert not retries.release(workload=workload, by=person, now=at(4_002))
    workload.refresh_from_db()
    assert (workload.state, workload.retried) == ("queued", 2)
    world.step(4_010)
    workload.refresh_from_db()
    assert workload.state == "running"


@pytest.mark.long
def test_another_workload_of_the_same_owner_counts_for_a_day_and_nobody_elses(world: World, person: Person) -> None:
    other = Person.objects.create(username="bo", display_name="Bo")
    made = [started(world, retries=1) for _ in range(4)]
    for workload, owner in zip(made, [person, other, person, person], strict=True):
        Workload.objects.filter(pk=workload.pk).update(owner=owner)
    first, of_other, soon, late = made
    fail(first, 100, NETWORK)
    fail(of_other, 100, NETWORK)
    assert judge(first, 115) == "queued tried_again"
    assert judge(of_other, 115) == "queued tried_again"
    fail(soon, 86_400, NETWORK)
    assert judge(soon, 86_500) == "held failed_alike"
    fail(late, 86_400 * 2 + 1, NETWORK)
    assert judge(late, 86_400 * 2 + 100) == "queued tried_again"


def test_followers_wait_until_it_is_over(world: World) -> None:
    workload = started(world, retries=1)
    follower = world.submit("B", after=workload, now=10)
    fail(workload, 100, NETWORK)
    world.step(110)
    follower.refresh_from_db()
    assert (follower.state, follower.reason_code) == ("held", "waiting_after")
    assert judge(workload, 115) == "queued tried_again"
    world.step(120)
    fail(workload, 200, OWN)
    follower.refresh_from_db()
    assert (follower.state, second_of(follower.submitted_at)) == ("queued", 200)


@pytest.mark.long
def test_followers_enter_when_it_is_judged_to_have_failed(world: World) -> None:
    workload = started(world, retries=1)
    follower = world.submit("B", after=workload, now=10)
    fail(workload, 100, OWN)
    assert judge(workload, 115) == "failed failed"
    follower.refresh_from_db()
    assert (follower.state, second_of(follower.submitted_at)) == ("queued", 115)


def test_one_that_is_put_aside_can_be_cancelled_and_stays_so(world: World) -> None:
    workload = started(world, retries=1)
    fail(workload, 100, NETWORK)
    assert workloads.cancel(workload=workload, by=None, now=at(105))
    assert judge(workload, 115).startswith("cancelled")
    assert Run.objects.get(workload=workload).failure_class == "network"


@pytest.mark.long
def test_a_preemption_or_a_time_limit_is_no_retry(world: World) -> None:
    workload = world.submit("A", retries=2, time_limit_s=3_600, sim={"startup_s": 0, "duration_s": 9_000})
    for second in (0, 3_590, 3_600, 3_630):
        world.step(second)
    workload.refresh_from_db()
    assert (workload.state, workload.retried) == ("failed", 0)
    assert Run.objects.get(workload=workload).failure_due_at is None


def test_judged_twice_nothing_happens_twice(world: World) -> None:
    workload = started(world, retries=3)
    run = fail(workload, 100, NETWORK)
    run = Run.objects.select_related("workload").get(pk=run.pk)
    assert retries._judge(run, at(115))
    stale = Run.objects.select_related("workload").get(pk=run.pk)
    assert not retries._judge(run, at(116))
    assert not retries._judge(stale, at(116))
    workload.refresh_from_db()
    assert (workload.state, workload.retried) == ("queued", 1)
    assert Event.objects.filter(workload=workload, kind="released").count() == 1
    decisions = Decision.objects.filter(workload=workload, action__in=("hold", "release")).order_by("pk")
    assert list(decisions.values_list("code", flat=True)) == ["failure_unjudged", "tried_again"]


@pytest.mark.long
def test_owners_are_told_what_follows(world: World, person: Person) -> None:
    workload = started(world, retries=2)
    Workload.objects.filter(pk=workload.pk).update(owner=person)
    fail(workload, 100, NETWORK)
    assert bad_ends.tell(at(110)) == 0
    retries.judge(at(115))
    assert bad_ends.tell(at(116)) == 1
    world.step(120)
    fail(workload, 200, NETWORK)
    retries.judge(at(215))
    assert bad_ends.tell(at(216)) == 1
    assert bad_ends.tell(at(217)) == 0
    assert list(Message.objects.order_by("pk").values_list("subject", flat=True)) == [
        f"{workload.code} has failed with exit status 1, and is tried again",
        f"{workload.code} has failed as before, and is held: release or cancel it",
    ]


@pytest.mark.long
def test_passes_around_retries_are_decided_again_alike(make_world: Callable[..., World]) -> None:
    world = make_world(leaf_order="themis")
    plans = {}

    def passes(second: int) -> None:
        result = run_pass(world.cluster.pk, now=at(second))
        assert result is not None
        plans[result.stored.pk] = result.plan

    made = [started(world, retries=1, gpus=2) for _ in range(3)]
    waiting = [world.submit("A", gpus=4, now=5) for _ in range(3)]
    passes(10)
    for workload, line in zip(made, [NETWORK, OWN, STORAGE], strict=True):
        fail(workload, 100, line)
        passes(105)
    retries.judge(at(115))
    passes(116)
    look_at(world.cluster.pk, now=at(120))
    for workload in (made[0], made[2]):
        workload.refresh_from_db()
        if workload.state == "queued":
            workloads.cancel(workload=workload, by=None, now=at(130))
    passes(140)
    assert len(plans) == 6
    assert all(Workload.objects.get(pk=each.pk).state for each in waiting)
    for stored in Pass.objects.filter(pk__in=plans):
        loaded = snapshots.snapshot_at(stored)
        assert decide(loaded.snapshot, loaded.policy) == plans[stored.pk]


def test_retries_are_a_few(world: World) -> None:
    for count in (-1, 4, True, "1", 1.0):
        with pytest.raises(InputError) as caught:
            world.submit("A", retries=count)
        assert caught.value.field == "retries"
    assert not Workload.objects.exists()


def test_a_late_report_leaves_time_for_the_output(world: World) -> None:
    workload = started(world)
    run = Run.objects.get(workload=workload)
    ending = runs.Ending(run.pk, at(100), runs.FAILED, 1, known_at=at(400))
    assert runs.end_all(cluster_id=world.cluster.pk, endings=[ending]) == {run.pk}
    run.refresh_from_db()
    assert (run.ended_at, run.failure_due_at) == (at(100), at(400) + timedelta(seconds=15))
