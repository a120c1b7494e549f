"""What is made once for all who look at a cluster: until something happens there, and never after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from budgets.models import Cluster
from budgets.services import tree
from scheduler.queries import moments
from scheduler.queries.moments import SLOT_S, Moment, shared
from scheduler.services import workloads
from tests.scheduler.conftest import World, at


def moment_of(cluster: Cluster, now: datetime, *, is_poll: bool = False) -> Moment:
    """The moment that a page would be about, made in no time."""
    with moments.moment_of(cluster, now, "page", is_poll=is_poll) as moment:
        return moment


def test_a_moment_ends_with_a_pass_an_event_an_entry_and_a_while(make_world: Callable[..., World]) -> None:
    world = make_world()
    found = [moment_of(world.cluster, at(0))]

    def then(second: int = 0) -> None:
        found.append(moment_of(world.cluster, at(second)))

    then()
    assert found[0] == found[1]
    row = world.submit("A", gpus=1)
    then()
    world.step(60)
    then()
    workloads.cancel(workload=row, by=None, now=at(61))
    then()
    tree.rename(node=world.leaves["A"], name="Another", by=None, reason="for a test")
    then()
    then(SLOT_S)
    assert len(set(found)) == len(found) - 1


def test_a_poll_is_told_what_was_within_seconds_and_a_person_what_is(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    before = moment_of(world.cluster, at(0))
    world.submit("A", gpus=1)
    assert moment_of(world.cluster, at(1), is_poll=True) == before
    with moments.moment_of(world.cluster, at(1), "another page", is_poll=True) as other:
        assert other != before, "each kind of page has its own"
    now = moment_of(world.cluster, at(1))
    assert now.event_id > before.event_id
    assert moment_of(world.cluster, at(1), is_poll=True) == now
    world.submit("A", gpus=1)
    monkeypatch.setattr(moments, "POLL_S", 0.0)
    assert moment_of(world.cluster, at(1), is_poll=True).event_id > now.event_id


def test_polls_do_not_wait_for_the_one_that_makes_the_next(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    before = moment_of(world.cluster, at(0))
    shared(before, "page", lambda: "old")
    monkeypatch.setattr(moments, "POLL_S", 0.0)
    world.submit("A", gpus=1)
    with moments.moment_of(world.cluster, at(1), "page", is_poll=True) as renewed:
        assert renewed != before
        assert moment_of(world.cluster, at(1), is_poll=True) == before
        assert shared(before, "page", lambda: "made again") == "old", "what was made of it is still there"
        by_hand = moment_of(world.cluster, at(1))
        assert by_hand == renewed
        assert moment_of(world.cluster, at(1), is_poll=True) == by_hand, "the newest that is ready"
    assert moment_of(world.cluster, at(1), is_poll=True) == renewed


def test_one_that_fails_to_make_the_next_leaves_it_to_another(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    before = moment_of(world.cluster, at(0))
    monkeypatch.setattr(moments, "POLL_S", 0.0)
    world.submit("A", gpus=1)

    def fail() -> None:
        with moments.moment_of(world.cluster, at(1), "page", is_poll=True):
            assert moment_of(world.cluster, at(1), is_poll=True) == before
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert moment_of(world.cluster, at(1), is_poll=True) != before


def test_one_that_hangs_is_waited_for_no_longer_than_so(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    before = moment_of(world.cluster, at(0))
    monkeypatch.setattr(moments, "POLL_S", 0.0)
    monkeypatch.setattr(moments, "RENEWED_WITHIN_S", 0.0)
    world.submit("A", gpus=1)
    with moments.moment_of(world.cluster, at(1), "page", is_poll=True) as renewed:
        assert moment_of(world.cluster, at(1), is_poll=True) == renewed != before


def test_many_who_ask_at_once_wait_for_the_first(make_world: Callable[..., World]) -> None:
    moment = moment_of(make_world().cluster, at(0))
    made: list[int] = []

    def make() -> int:
        time.sleep(0.05)
        made.append(threading.get_ident())
        return 7

    with ThreadPoolExecutor(6) as pool:
        found = [pool.submit(shared, moment, "seven", make) for _ in range(6)]
    assert [each.result() for each in found] == [7] * 6
    assert len(made) == 1


def test_what_failed_is_tried_again_and_what_was_is_no_answer_to_what_is(make_world: Callable[..., World]) -> None:
    world = make_world()
    before = moment_of(world.cluster, at(0))

    def fail() -> int:
        raise ValueError

    with pytest.raises(ValueError):
        shared(before, "number", fail)
    assert shared(before, "number", lambda: 1) == 1
    world.submit("A", gpus=1)
    after = moment_of(world.cluster, at(0))
    assert shared(after, "number", lambda: 2) == 2
    assert shared(before, "number", lambda: 3) == 1, "it is still told to some"
    assert shared(after, "number", lambda: 4) == 2
    for slot in range(1, moments.KEPT_MOMENTS + 1):
        later = moment_of(world.cluster, at(0) + timedelta(seconds=slot * SLOT_S))
        assert shared(later, "number", lambda slot=slot: 4 + slot) == 4 + slot  # type: ignore[misc]
    assert shared(before, "number", lambda: -1) == -1, "who began that long ago makes their own"
    assert shared(later, "number", lambda: -2) == 4 + moments.KEPT_MOMENTS


def test_no_more_is_kept_than_is_bound(make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "KEPT", 2)
    moment = moment_of(make_world().cluster, at(0))
    for number in range(4):
        assert shared(moment, number, lambda number=number: number) == number  # type: ignore[misc]
    assert [shared(moment, number, lambda: -1) for number in range(4)] == [0, 1, -1, -1]
