"""Time shifts of runs that start: who gets one, beside whom, and what the run is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from budgets.errors import InputError
from scheduler.models import Node, Pass, Run, Workload
from scheduler.queries.replay import replay
from scheduler.services import facts, nodes, shifts, workloads
from tests.scheduler.conftest import World, at

LEAVES = {"h1": "L1", "h2": "L1", "h3": "L2", "h4": "L2", "h5": "L3", "h6": "L3"}
"""A gang of three nodes fills one leaf and half of another."""
SLOW = {"period_ms": 60, "phases": [{"from_ms": 50, "until_ms": 60, "gbps": 50}]}
FAST = {"period_ms": 40, "phases": [{"from_ms": 30, "until_ms": 40, "gbps": 50}]}


@pytest.fixture
def house(make_world: Callable[..., World]) -> World:
    return house_of(make_world, leaf_uplink_gbps=50)


def house_of(make_world: Callable[..., World], **knobs: Any) -> World:
    """Six nodes below three leaves."""
    made = make_world(nodes=dict.fromkeys(LEAVES, 8), **knobs)
    for name, leaf in LEAVES.items():
        nodes.register(cluster=made.cluster, name=name, devices=8, leaf=leaf, now=at(-86_400))
    return made


def start(house: World, leaf: str, communication: dict[str, Any] | None, second: int, gpus: int = 24) -> Workload:
    """A gang that starts at once."""
    workload = house.submit(leaf, gpus=gpus, now=second, communication=communication)
    house.step(second)
    return workload


def place_of(workload: Workload) -> dict[str, Any] | None:
    return Run.objects.get(workload=workload).time_shift


def test_who_starts_is_laid_beside_those_that_run(house: World) -> None:
    first = start(house, "A", FAST, 0)
    second = start(house, "B", SLOW, 10)
    assert place_of(first) == {"shift_ms": 0, "period_ms": 40, "score": 1.0, "links": []}
    assert place_of(second) == {
        "shift_ms": 10,
        "period_ms": 60,
        "score": 1.0,
        "links": [{"leaf": "L2", "beside": [first.code], "score": 1.0}],
    }


def test_two_that_start_in_one_pass_know_of_each_other(house: World) -> None:
    first = house.submit("A", gpus=24, communication=FAST)
    second = house.submit("B", gpus=24, communication=SLOW)
    house.step(0)
    told = {each.code: place_of(each) for each in (first, second)}
    assert sorted(each["shift_ms"] for each in told.values() if each) in ([0, 10], [0, 20])
    assert sum(bool(each["links"]) for each in told.values() if each) == 1


def test_the_run_is_told_its_place(house: World) -> None:
    start(house, "A", FAST, 0)
    run = Run.objects.get(workload=start(house, "B", SLOW, 10))
    told = {
        "ALLOTMENT_TIME_SHIFT_MS": "10",
        "ALLOTMENT_PERIOD_MS": "60",
        "ALLOTMENT_TIME_SHIFT_KEEPS": "1",
    }
    assert shifts.variables_of(run) == told
    node = Node.objects.get(name=sorted(set(run.holdings.values_list("node__name", flat=True)))[0])
    wanted = [each for each in facts.desired(node, at(11)) if each.run == run.pk]
    assert wanted
    assert all(told.items() <= each.environment.items() for each in wanted)


def test_whose_links_are_too_full_keep_no_place(house: World) -> None:
    always = {"period_ms": 100, "phases": [{"from_ms": 0, "until_ms": 100, "gbps": 45}]}
    start(house, "A", always, 0)
    run = Run.objects.get(workload=start(house, "B", always, 10))
    assert run.time_shift["score"] == pytest.approx(1 - 40 / 50)
    assert shifts.variables_of(run)["ALLOTMENT_TIME_SHIFT_KEEPS"] == ""


def test_nobody_is_shifted_without_something_to_go_by(make_world: Callable[..., World]) -> None:
    house = house_of(make_world, leaf_uplink_gbps=50)
    assert place_of(start(house, "A", None, 0)) is None  # says nothing of what it sends
    assert place_of(start(house, "B", FAST, 10, gpus=16)) is None  # below one leaf
    nodes.register(cluster=house.cluster, name="h4", devices=8, leaf="", now=at(20))
    assert shifts.variables_of(Run.objects.latest("pk")) == {}


def test_a_cluster_that_does_not_say_what_its_uplinks_carry_shifts_nobody(make_world: Callable[..., World]) -> None:
    house = house_of(make_world)
    with CaptureQueriesContext(connection) as queries:
        assert place_of(start(house, "A", FAST, 0)) is None
    assert not any("time_shift" in each["sql"] and "UPDATE" in each["sql"] for each in queries)


@pytest.mark.parametrize(
    ("communication", "message"),
    [
        ({"period_ms": 0, "phases": SLOW["phases"]}, "period_ms: must be a whole number from 1 to 3,600,000, but is 0"),
        ({"period_ms": 60, "phases": []}, "phases: must be 1 to 32, but are 0"),
        (
            {"period_ms": 60, "phases": [{"from_ms": 0, "until_ms": 1, "gbps": float("nan")}]},
            "phases[0].gbps: must be a number, but is nan",
        ),
        ("60", "must be an object with period_ms, phases"),
        ({}, "period_ms: is missing"),
    ],
)
def test_what_is_no_profile_is_refused_and_nothing_stored(house: World, communication: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        house.submit("A", communication=communication)
    assert (error.value.field, error.value.message) == ("communication", message)
    assert not Workload.objects.exists()


def test_a_gang_lands_where_it_is_in_nobody_s_way_and_the_pass_is_decided_again_alike(
    make_world: Callable[..., World],
) -> None:
    """Each leaf has a node that is free: two beside a gang that mostly sends, two beside one that seldom does."""
    house = make_world(nodes=dict.fromkeys(("h1", "h2", "h3", "h4"), 8), leaf_uplink_gbps=50, placement_score="cassini")
    for index in range(1, 9):
        nodes.register(cluster=house.cluster, name=f"h{index}", devices=8, leaf=f"L{(index + 1) // 2}", now=at(-86_400))
    pins = [house.submit("A", gpus=8, node=house.node(f"h{index}")) for index in (1, 3, 5, 7)]
    house.step(0)
    heavy = {"period_ms": 100, "phases": [{"from_ms": 0, "until_ms": 80, "gbps": 45}]}
    light = {"period_ms": 100, "phases": [{"from_ms": 0, "until_ms": 20, "gbps": 45}]}
    start(house, "A", heavy, 10, gpus=16)
    beside = start(house, "A", light, 20, gpus=16)
    for pin in pins:
        workloads.cancel(workload=pin, by=None, reason="over", now=at(30))
    house.live(200, since=30)
    placed = Run.objects.get(workload=start(house, "A", heavy, 210, gpus=16))
    assert sorted(set(placed.holdings.values_list("node__name", flat=True))) == ["h5", "h7"]
    assert [(each["leaf"], each["beside"], each["score"]) for each in placed.time_shift["links"]] == [
        ("L3", [beside.code], 1.0),
        ("L4", [beside.code], 1.0),
    ]
    for stored in Pass.objects.order_by("pk"):
        assert replay(stored).differences == ()
