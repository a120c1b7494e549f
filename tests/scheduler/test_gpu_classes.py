"""Classes of GPUs in the live system: said of nodes, asked for at the door, kept by passes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from budgets.errors import InputError
from scheduler import snapshots
from scheduler.models import Event, Node, Run, Workload
from scheduler.services import efficiency, nodes, policies, utilization
from scheduler.services.utilization import Measured
from tests.scheduler.conftest import World, at

RANKED = {"class_order": ["V100", "T4"], "high_end_classes": ["V100"]}


@pytest.fixture
def house(make_world: Callable[..., World]) -> World:
    """A node of each class."""
    world = make_world(nodes={"a": 8, "b": 8})
    for name, gpu_class in (("a", "V100"), ("b", "T4")):
        nodes.register(cluster=world.cluster, name=name, devices=8, gpu_class=gpu_class, now=at(0))
    policies.change(cluster=world.cluster, knobs=RANKED)
    return world


def where(workload: Workload) -> set[str]:
    rows = Run.objects.filter(workload=workload)
    return set(rows.values_list("holdings__device__node__name", flat=True))


def test_low_work_is_packed_on_the_weaker_class_and_high_work_has_the_faster_one(house: World) -> None:
    low, high = house.submit("A", 8), house.submit("A", 8, needs_fast=True)
    house.live(30)
    assert (where(low), where(high)) == ({"b"}, {"a"})
    hard = house.submit("B", 8, gpu_classes=["T4"], now=40)
    house.live(60, since=40)
    hard.refresh_from_db()
    assert (hard.state, hard.reason_code) == ("queued", "waiting_capacity")
    seen = snapshots.load(house.cluster, at(60)).snapshot
    assert seen.queued[hard.code].gpu_classes == ("T4",)


def test_the_door_names_the_classes_that_there_are(house: World) -> None:
    row = house.submit("A", 1, gpu_classes=["H200"])
    assert (row.state, row.reason_code) == ("refused", "unknown_class")
    assert row.reason_text == "Refused: no node is of class H200; known: T4, V100."
    with pytest.raises(InputError, match="must be up to 32 names of classes"):
        house.submit("A", 1, gpu_classes="T4")
    nodes.register(cluster=house.cluster, name="small", devices=2, gpu_class="P100", now=at(0))
    row = house.submit("A", 4, gpu_classes=["P100"])
    assert row.reason_text == "Refused: no node of class P100 has all that it asks for."


def test_a_class_is_in_what_passes_see(house: World) -> None:
    event = Event.objects.filter(node__name="a").latest("id")
    assert event.data["node"]["gpu_class"] == "V100"
    nodes.register(cluster=house.cluster, name="a", devices=8, gpu_class="A100", now=at(5))
    assert Node.objects.get(name="a").gpu_class == "A100"
    assert Event.objects.filter(node__name="a").latest("id").data["node"]["gpu_class"] == "A100"
    with pytest.raises(InputError) as caught:
        nodes.register(cluster=house.cluster, name="a", devices=8, gpu_class="A 100", now=at(5))
    assert caught.value.field == "gpu_class"


def measured(house: World, name: str, percent: int, hours: int = 1) -> None:
    """A run of that name that has used so much of its GPU."""
    row = house.submit("A", 1, name=name)
    house.live(30)
    run = Run.objects.filter(workload=row).get()
    milli_s = hours * 3_600_000
    told = Measured(run.pk, int(at(0).timestamp()), milli_s, milli_s * percent // 100)
    utilization.add(house.cluster.pk, [told])


def test_who_does_not_say_is_judged_by_what_work_like_it_has_used(house: World) -> None:
    measured(house, "busy", 80)
    measured(house, "idle", 20)
    policies.change(cluster=house.cluster, knobs={"high_efficiency_percent": 60})
    asked = {"busy": (True, 80), "idle": (False, 20), "new": (False, None)}
    for name, judged in asked.items():
        row = house.submit("A", 1, name=name, now=7_200)
        assert (row.needs_fast, row.efficiency_percent) == judged
    row = house.submit("A", 1, name="busy", needs_fast=False, now=7_200)
    assert (row.needs_fast, row.efficiency_percent) == (False, None)
    later = at(0) + timedelta(days=40)
    assert efficiency.percent_used(house.cluster, None, "busy", later) is None


def test_knobs_that_are_lists_of_words(house: World) -> None:
    assert policies.effective(policies.latest(house.cluster))["class_order"] == ["V100", "T4"]
    with pytest.raises(InputError, match="is not a list of words"):
        policies.change(cluster=house.cluster, knobs={"class_order": [1]})
    with pytest.raises(InputError, match="'A100' is not in class_order"):
        policies.change(cluster=house.cluster, knobs={"high_end_classes": ["A100"]})
