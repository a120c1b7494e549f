"""A cluster shadows first: decided and shown, nothing started; from an instant on contracts are carried out."""

from __future__ import annotations

from datetime import date

import pytest

from budgets.errors import InputError, NotAllowed
from budgets.models import LedgerEntry, Person
from budgets.services import roles
from scheduler.models import Claim, Decision, Pass, Reservation, Run, Workload
from scheduler.queries.replay import replay
from scheduler.services import rollout
from tests.scheduler.conftest import World, at, check_books


@pytest.fixture
def world(transactional_db: None) -> World:
    """One invented node."""
    return World({"A": 5_000, "B": 5_000}, {"h1": 8}, "simulated", {})


def plan(world: World, mode: str, second: int, now: int = 0) -> None:
    rollout.plan(cluster=world.cluster, mode=mode, starts_at=at(second), by=None, reason="we try it", now=at(now))


def test_a_shadow_shows_what_it_would_do_and_starts_nothing(world: World) -> None:
    plan(world, "shadow", 0)
    first = world.submit("A", 8, now=1, sim={"startup_s": 0, "duration_s": 100})
    world.submit("B", 8, now=2, min_runtime_s=0)
    world.live(60, since=2)
    assert not Run.objects.exists()
    assert not Claim.objects.exists()
    assert not Reservation.objects.exists()
    first.refresh_from_db()
    assert (first.state, first.reason_code, first.place) == ("queued", "shadow", 1)
    assert first.reason_text == (
        "Shadow: it would start now on h1. On this cluster decisions are shown, and nothing is started yet."
    )
    last = Pass.objects.latest("pk")
    assert last.shadow is not None
    assert [(each["workload"], each["action"], each["nodes"]) for each in last.shadow] == [
        (first.code, "start", ["h1"])
    ]
    assert Decision.objects.filter(workload=first, code="shadow").count() == 1
    assert not replay(last).differences
    check_books()


def test_from_the_instant_on_contracts_are_carried_out(world: World) -> None:
    plan(world, "shadow", 0)
    plan(world, "contracts", 100)
    workload = world.submit("A", 8, now=1)
    world.live(90, since=2)
    assert not Run.objects.exists()
    assert rollout.mode_of(world.cluster, at(99)) == "shadow"
    step = rollout.next_step(world.cluster, at(50))
    assert step is not None
    assert step.starts_at == at(100)
    world.step(100)
    assert world.runs(workload)[0][0] == 100
    assert Pass.objects.latest("pk").shadow is None


def test_going_back_to_a_shadow_ends_nothing_that_runs(world: World) -> None:
    workload = world.submit("A", 4, now=0, sim={"startup_s": 0, "duration_s": 1_000})
    world.live(20)
    plan(world, "shadow", 30, now=20)
    waiting = world.submit("B", 4, now=31)
    world.live(200, since=30)
    assert world.runs(workload) == [(0, None)]
    assert Workload.objects.get(pk=waiting.pk).reason_code == "shadow"
    world.live(1_100, since=210)
    assert Workload.objects.get(pk=workload.pk).state == "finished"


def test_a_change_stands_in_the_ledger_and_replaces_what_was_planned_later(world: World) -> None:
    plan(world, "shadow", 10)
    plan(world, "contracts", 500)
    plan(world, "contracts", 300)
    assert [str(step.mode) for step in world.cluster.rollout.all()] == ["shadow", "contracts"]
    entry = LedgerEntry.objects.filter(verb="cluster.rules").latest("pk")
    assert (entry.before, entry.after) == (
        {"mode": "shadow"},
        {"mode": "contracts", "from": at(300).isoformat()},
    )
    ((mode, step),) = rollout.now_and_next(at(20)).values()
    assert (mode, step and step.starts_at) == ("shadow", at(300))
    assert rollout.now_and_next(at(300)) == {world.cluster.pk: ("contracts", None)}


def test_only_operators_change_the_rules_with_a_reason_and_not_in_the_past(world: World) -> None:
    person = Person.objects.create(username="ana", display_name="Ana")
    told = {"cluster": world.cluster, "mode": "shadow", "starts_at": at(10), "reason": "why", "now": at(0)}
    with pytest.raises(NotAllowed):
        rollout.plan(**told, by=person)
    roles.grant(person=person, node=world.root, role="operator", valid_from=date(2026, 1, 1), by=None)
    person = Person.objects.get(pk=person.pk)
    for wrong, field in (({"mode": "x"}, "mode"), ({"starts_at": at(-1)}, "starts_at"), ({"reason": " "}, "reason")):
        with pytest.raises(InputError) as caught:
            rollout.plan(**(told | wrong), by=person)
        assert caught.value.field == field
    assert rollout.plan(**told, by=person).made_by == person
