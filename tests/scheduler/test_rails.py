"""Leaves and rails of live nodes: said when they join, and seen by passes, now and when they are decided again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from budgets.errors import InputError
from scheduler import snapshots
from scheduler.models import Event, Pass
from scheduler.queries.replay import replay
from scheduler.services import nodes
from tests.scheduler.conftest import World, at

PLACES = {"h1": ("A", "L1"), "h2": ("A", "L2"), "h3": ("B", "L3"), "h4": ("B", "L3"), "h5": ("", "")}


def register(house: World, name: str, rail: str, leaf: str, now: int = -86_400) -> None:
    """A node of eight devices joins, or says again what it has."""
    nodes.register(cluster=house.cluster, name=name, devices=8, rack="r1", rail=rail, leaf=leaf, now=at(now))


@pytest.fixture
def house(make_world: Callable[..., World]) -> World:
    made = make_world(nodes={"h1": 8})
    for name, (rail, leaf) in PLACES.items():
        register(made, name, rail, leaf)
    return made


def test_a_gang_lands_below_one_leaf_and_the_pass_is_decided_again_alike(house: World) -> None:
    house.submit("A", gpus=16)
    house.step(0)
    run = house.cluster.workloads.get().runs.get()
    assert sorted(set(run.holdings.values_list("device__node__name", flat=True))) == ["h3", "h4"]
    stored = Pass.objects.order_by("pk").first()
    assert stored is not None
    register(house, "h2", "A", "L1", now=5)  # what a node says later does not change what was seen
    again = snapshots.snapshot_at(stored)
    assert {node.name: (node.rail, node.leaf) for node in again.snapshot.nodes.by_name.values()} == PLACES
    assert replay(stored).differences == ()
    now = snapshots.load(house.cluster, at(10)).snapshot
    assert now.nodes.by_name["h2"].leaf == "L1"


def test_saying_the_same_again_changes_nothing(house: World) -> None:
    before = Event.objects.count()
    register(house, "h1", *PLACES["h1"])
    assert Event.objects.count() == before
    register(house, "h1", "A", "L9")
    assert Event.objects.count() == before + 1


@pytest.mark.parametrize("level", ["rail", "leaf"])
def test_a_name_that_is_none_is_refused_with_its_field(house: World, level: str) -> None:
    with pytest.raises(InputError) as error:
        nodes.register(cluster=house.cluster, name="h9", devices=8, now=at(0), **{level: "a b"})
    assert error.value.field == level
    assert not house.cluster.nodes.filter(name="h9").exists()
