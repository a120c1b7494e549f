"""A gang that is spread over nodes live: it waits level by level, holds equal parts, and is charged for these."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from budgets.errors import InputError
from scheduler.models import Holding, Pass, Rank, Run, Workload
from scheduler.queries import delays, spreading
from scheduler.queries.replay import replay
from scheduler.services import facts, nodes
from tests.scheduler.conftest import World, at

WAITS_S = [100, 200, 300]
LASTS = {"startup_s": 0, "duration_s": 10_000}


def house(make_world: Callable[..., World]) -> World:
    """Four nodes of 8 devices in two racks, of each of which half is held, and relaxing waits."""
    world = make_world(nodes=dict.fromkeys(("h1", "h2", "h3", "h4"), 8), locality_waits_s=WAITS_S, reservations=0)
    for name, rack in (("h1", "r1"), ("h2", "r1"), ("h3", "r2"), ("h4", "r2")):
        nodes.register(cluster=world.cluster, name=name, devices=8, rack=rack, now=at(-86_400))
        world.submit("B", gpus=4, node=world.node(name), sim=LASTS)
    world.step(0)
    return world


def told(workload: Workload) -> tuple[str, str, object]:
    """Its state, the last sentence of its reason, and at which level it looks."""
    workload.refresh_from_db()
    level = workload.reason_numbers.get("locality", {}).get("level")
    return workload.state, workload.reason_text.split(". ")[-1], level


def test_a_gang_waits_level_by_level_and_is_spread_in_equal_parts(make_world: Callable[..., World]) -> None:
    world = house(make_world)
    gang = world.submit("A", gpus=16, now=0, locality=2, time_limit_s=3_600, sim={"startup_s": 0, "duration_s": 500})
    world.step(10)
    assert told(gang) == ("queued", "It asks for 2 nodes of one rack, later of any rack.", 0)
    found = spreading.of_workload(gang)
    assert found is not None
    assert (found.fewest, found.servers, found.worth_s) == (2, 4, 239)
    assert found.look is not None
    assert (found.look.relaxes_at, found.look.later_level) == (at(100), 1)
    world.step(100)
    assert told(gang) == ("queued", "It asks for 2 nodes, later for up to 4.", 1)
    world.step(190)
    assert told(gang)[0] == "queued"
    world.step(200)
    assert told(gang) == ("running", "It is spread over 4 nodes, where 2 would do.", 2)
    run = Run.objects.get(workload=gang)
    held = Holding.objects.filter(run=run)
    assert {name: held.filter(node__name=name).count() for name in ("h1", "h2", "h3", "h4")} == dict.fromkeys(
        ("h1", "h2", "h3", "h4"), 4
    )
    assert run.size_milli == 16_000
    ranks = Rank.objects.filter(run=run).order_by("index")
    assert [(rank.index, rank.node.name) for rank in ranks] == [(0, "h1"), (1, "h2"), (2, "h3"), (3, "h4")]
    assert [len(facts.desired(world.node(name))) for name in ("h1", "h4")] == [2, 2]
    (waited,) = [each.waited_s for each in delays.of_workload(gang, at(400)) if each.cause == "fragmentation"]
    assert waited == 190
    on = spreading.of_workload(gang)
    assert on is not None
    assert (on.is_held, on.servers, round(on.price, 3)) == (True, 4, 1.066)
    world.step(700)
    gang.refresh_from_db()
    assert gang.state == "finished"
    assert all(replay(each).differences == () for each in Pass.objects.all())


def test_its_owner_says_how_far(make_world: Callable[..., World]) -> None:
    world = house(make_world)
    with pytest.raises(InputError, match="must be 0 to 3, not 4"):
        world.submit("A", gpus=16, locality=4)
    gang = world.submit("A", gpus=16, now=0, locality=0)
    world.step(900)
    assert told(gang) == ("queued", "It asks for 2 nodes of one rack, and for no others.", 0)
