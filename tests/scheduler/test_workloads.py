"""Submitting and cancelling: the rules of the door, bad input, codes, arrays, what comes after what."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from budgets.errors import InputError, NotAllowed
from budgets.models import Person
from budgets.services import roles, shares, tree
from scheduler.loop import run_pass
from scheduler.models import Claim, Decision, Event, Workload
from scheduler.services import workloads
from tests.scheduler.conftest import DAY, World, at


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A has half, B the other half, Z nothing; two nodes of 16 devices."""
    return make_world({"A": 5_000, "B": 5_000, "Z": 0}, nodes={"h1": 16, "h2": 16})


# --- the door ---------------------------------------------------------------------------------------------------------


def test_codes_count_up_within_a_leaf(world: World) -> None:
    assert [world.submit(leaf).code for leaf in ("A", "B", "A")] == ["A-0001", "B-0001", "A-0002"]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        pytest.param({"leaf": "Z"}, "no_entitlement", id="nothing to charge"),
        pytest.param({"leaf": "A", "gpus": 33}, "too_large", id="larger than the cluster"),
        pytest.param({"leaf": "A", "min_runtime_s": 299}, "contract_too_short", id="too short"),
        pytest.param({"leaf": "A", "min_runtime_s": 28_801}, "contract_too_long", id="too long"),
    ],
)
def test_what_the_door_refuses_is_kept_with_its_reason(world: World, asked: dict[str, Any], code: str) -> None:
    workload = world.submit(**asked)
    assert (workload.state, workload.reason_code, workload.ended_at) == ("refused", code, at(0))
    assert workload.reason_text.startswith("Refused: ")
    decision = Decision.objects.get(workload=workload)
    assert (decision.action, decision.code) == ("refuse", code)
    run_pass(world.cluster.pk, now=at(1))
    workload.refresh_from_db()
    assert workload.state == "refused"


def test_unallocated_work_needs_no_entitlement(world: World) -> None:
    assert world.submit("Z", min_runtime_s=0).state == "queued"


def test_a_closed_leaf_refuses_and_holds_what_waits(world: World) -> None:
    waiting = world.submit("B", gpus=20, now=0)
    world.submit("A", gpus=32, now=0)
    run_pass(world.cluster.pk, now=at(0))
    tree.close(node=world.leaves["B"], by=None, at=at(5))
    world.leaves["B"].refresh_from_db()
    refused = world.submit("B", now=10)
    assert (refused.state, refused.reason_code) == ("refused", "closed")
    run_pass(world.cluster.pk, now=at(10))
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason_code) == ("held", "closed")
    assert "Move it or cancel it" in waiting.reason_text


def test_a_leaf_that_loses_its_entitlement_holds_and_gets_its_old_place_back(world: World) -> None:
    world.submit("A", gpus=32, now=0)
    run_pass(world.cluster.pk, now=at(0))
    waiting = world.submit("B", now=1)

    def give(amount: int) -> None:
        shares.set_shares(
            parent=world.root, cluster=world.cluster, shares={world.leaves["B"]: amount}, valid_from=DAY, by=None
        )

    run_pass(world.cluster.pk, now=at(2))
    give(0)
    run_pass(world.cluster.pk, now=at(3))
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason_code) == ("held", "no_entitlement")
    give(5_000)
    run_pass(world.cluster.pk, now=at(4))
    waiting.refresh_from_db()
    assert (waiting.state, waiting.place, waiting.submitted_at) == ("queued", 1, at(1))
    kinds = (
        Event.objects.filter(workload=waiting).exclude(kind__startswith="reservation").values_list("kind", flat=True)
    )
    assert list(kinds) == ["submitted", "held", "released"]


def test_only_members_submit(world: World, person: Person) -> None:
    with pytest.raises(NotAllowed):
        world.submit("A", owner=person)
    assert not Workload.objects.exists()
    roles.grant(node=world.leaves["A"], person=person, role="member", by=None, valid_from=DAY)
    member = Person.objects.get(pk=person.pk)
    assert world.submit("A", owner=member).owner == member
    with pytest.raises(NotAllowed):
        world.submit("B", owner=member)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"size_milli": 0}, "size_milli"),
        ({"size_milli": -1_000}, "size_milli"),
        ({"size_milli": 1_500}, "size_milli"),
        ({"size_milli": 250}, "size_milli"),  # the cluster gives out whole devices only
        ({"size_milli": 10**12}, "size_milli"),
        ({"size_milli": True}, "size_milli"),
        ({"size_milli": "8"}, "size_milli"),
        ({"min_runtime_s": -1}, "min_runtime_s"),
        ({"min_runtime_s": 3.5}, "min_runtime_s"),
        ({"min_runtime_s": 10**11}, "min_runtime_s"),
        ({"priority": 10**9}, "priority"),
        ({"time_limit_s": 0}, "time_limit_s"),
        ({"time_limit_s": 100}, "time_limit_s"),
        ({"name": "x" * 121}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"command": "python train.py"}, "command"),
        ({"command": []}, "command"),
        ({"command": [""]}, "command"),
        ({"command": ["run", 3]}, "command[1]"),
        ({"command": ["run", "a\0b"]}, "command[1]"),
        ({"command": ["run", "\ud800"]}, "command[1]"),
        ({"command": ["x" * 40_000]}, "command"),
        ({"environment": {"1A": "x"}}, "environment"),
        ({"environment": {"LD_PRELOAD": "x"}}, "environment.LD_PRELOAD"),
        ({"environment": {"ALLOTMENT_RUN": "x"}}, "environment.ALLOTMENT_RUN"),
        ({"environment": {"A": 3}}, "environment.A"),
        ({"environment": ["A"]}, "environment"),
        ({"checkpoint": "/etc/passwd"}, "checkpoint"),
        ({"checkpoint": "../other"}, "checkpoint"),
        ({"resumable": "yes"}, "resumable"),
        ({"cpu_milli_per_rank": -1}, "cpu_milli_per_rank"),
        ({"memory_mib_per_rank": 2**40}, "memory_mib_per_rank"),
        ({"idempotency_key": "k" * 81}, "idempotency_key"),
    ],
)
def test_bad_input_names_its_field_and_changes_nothing(world: World, asked: dict[str, Any], field: str) -> None:
    good = {"size_milli": 1_000, "min_runtime_s": 3_600, "command": ["train"]}
    with pytest.raises(InputError) as caught:
        workloads.submit(cluster=world.cluster, leaf=world.leaves["A"], owner=None, **{**good, **asked})
    assert caught.value.field == field
    assert not Workload.objects.exists()
    assert not Event.objects.filter(workload__isnull=False).exists()


def test_an_inner_node_takes_no_workloads(world: World) -> None:
    with pytest.raises(InputError) as caught:
        workloads.submit(
            cluster=world.cluster, leaf=world.root, owner=None, size_milli=1_000, min_runtime_s=0, command=["train"]
        )
    assert caught.value.field == "leaf"


@pytest.mark.parametrize("count", [0, -1, 1_001, True, 2.0, "3"])
def test_an_array_has_a_number_of_tasks_within_bounds(world: World, count: Any) -> None:
    with pytest.raises(InputError) as caught:
        workloads.submit_array(
            count=count,
            cluster=world.cluster,
            leaf=world.leaves["A"],
            owner=None,
            size_milli=1_000,
            min_runtime_s=0,
            command=["train"],
        )
    assert caught.value.field == "count"


# --- classes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "min_runtime_s", "expected"),
    [
        (1, 900, "debug"),
        (16, 900, "debug"),
        (17, 900, "large"),
        (1, 901, "standard"),
        (2, 901, "large"),
        (1, 0, "unallocated"),
    ],
)
def test_the_class_follows_from_size_and_contract(world: World, gpus: int, min_runtime_s: int, expected: str) -> None:
    assert world.submit("A", gpus=gpus, min_runtime_s=min_runtime_s).workload_class == expected


# --- once, many, after ------------------------------------------------------------------------------------------------


def test_the_same_key_gives_the_same_workload_again(world: World, person: Person) -> None:
    roles.grant(node=world.leaves["A"], person=person, role="member", by=None, valid_from=DAY)
    first = world.submit("A", owner=person, idempotency_key="mine")
    again = world.submit("A", owner=person, idempotency_key="mine", gpus=4)
    other = world.submit("A", owner=person, idempotency_key="other")
    assert again == first
    assert other != first
    assert Workload.objects.count() == 2


def test_an_array_is_as_many_workloads_that_know_their_index(world: World) -> None:
    tasks = workloads.submit_array(
        count=3,
        cluster=world.cluster,
        leaf=world.leaves["A"],
        owner=None,
        size_milli=1_000,
        min_runtime_s=600,
        command=["sweep"],
        environment={"LR": "1"},
    )
    assert [(task.code, task.array_index) for task in tasks] == [("A-0001", 0), ("A-0002", 1), ("A-0003", 2)]
    assert len({task.array for task in tasks}) == 1
    assert [task.environment for task in tasks] == [
        {"LR": "1", "ALLOTMENT_ARRAY_INDEX": index} for index in ("0", "1", "2")
    ]


def test_submissions_at_once_get_different_codes(world: World) -> None:
    """Eight threads with connections of their own: the database keeps the codes apart."""
    codes: list[str] = []

    def submit() -> None:
        try:
            codes.extend(world.submit("A").code for _ in range(5))
        finally:
            connection.close()

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [f"A-{number:04d}" for number in range(1, 41)]
    ids = list(Event.objects.filter(kind="submitted").order_by("pk").values_list("workload__code", flat=True))
    assert sorted(ids) == sorted(codes)


def test_one_that_comes_after_another_waits_for_its_end(world: World) -> None:
    first = world.submit("A", sim={"startup_s": 0, "duration_s": 60})
    second = world.submit("A", after=first, sim={"startup_s": 0, "duration_s": 60})
    assert (second.state, second.reason_code) == ("held", "waiting_after")
    world.step(0)
    world.step(30)
    second.refresh_from_db()
    assert second.state == "held"
    world.step(60)
    second.refresh_from_db()
    first.refresh_from_db()
    assert first.state == "finished"
    assert second.submitted_at == at(60)
    assert world.runs(second) == [(60, None)]
    assert world.submit("A", after=first).state == "queued", "the first has ended already"


# --- cancelling -------------------------------------------------------------------------------------------------------


def test_what_waits_is_cancelled_at_once(world: World) -> None:
    workload = world.submit("A")
    assert workloads.cancel(workload=workload, by=None, now=at(5))
    workload.refresh_from_db()
    assert (workload.state, workload.ended_at) == ("cancelled", at(5))
    assert not workloads.cancel(workload=workload, by=None, now=at(6)), "a second click changes nothing"
    run_pass(world.cluster.pk, now=at(6))
    assert world.runs(workload) == []


def test_what_runs_is_told_to_stop_and_gets_its_grace(world: World) -> None:
    workload = world.submit("A", sim={"startup_s": 0, "duration_s": 9_000, "exit_delay_s": 20}, resumable=True)
    world.step(0)
    world.step(10)
    assert workloads.cancel(workload=workload, by=None, now=at(10))
    world.step(20)
    workload.refresh_from_db()
    assert workload.state == "leaving"
    world.step(30)
    workload.refresh_from_db()
    assert (workload.state, workload.ended_at, workload.preemptions) == ("cancelled", at(30), 0)
    assert world.runs(workload) == [(0, 30)]


def test_a_cancelled_preemptor_gives_its_claim_back(world: World) -> None:
    victim = world.submit("A", gpus=32, min_runtime_s=0, sim={"startup_s": 0, "duration_s": 9_000, "exit_delay_s": 50})
    world.step(0)
    newcomer = world.submit("B", gpus=32, now=10)
    world.step(10)
    claim = Claim.objects.get(workload=newcomer)
    workloads.cancel(workload=newcomer, by=None, now=at(20))
    claim.refresh_from_db()
    assert (claim.ended_at, claim.outcome) == (at(20), "cancelled")
    other = world.submit("A", gpus=1, now=25)
    world.step(60)
    victim.refresh_from_db()
    assert victim.state == "preempted"
    assert world.runs(other) == [(60, None)], "the devices that were left are free for others"


def test_strangers_cancel_nothing(world: World, person: Person) -> None:
    workload = world.submit("A")
    with pytest.raises(NotAllowed):
        workloads.cancel(workload=workload, by=person)
    workload.refresh_from_db()
    assert workload.cancel_asked_at is None


def test_a_time_limit_counts_over_all_runs(world: World) -> None:
    workload = world.submit(
        "A", min_runtime_s=600, time_limit_s=700, sim={"startup_s": 10, "duration_s": 9_000, "exit_delay_s": 5}
    )
    world.live(until=730)
    workload.refresh_from_db()
    assert (workload.state, workload.runs.get().end_reason) == ("failed", "time_limit")
    assert world.runs(workload) == [(0, 715)]
