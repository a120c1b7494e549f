"""Rows as the engine sees them: use by path and window, moved and divided projects, nodes, and how many queries."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from budgets.errors import InputError, NotAllowed
from budgets.models import BudgetNode, Person
from budgets.services import roles, tree
from scheduler import snapshots
from scheduler.engine import Health
from scheduler.loop import run_pass
from scheduler.models import Run, TreeVersion, Workload
from scheduler.services import emergency, nodes
from tests.scheduler.conftest import DAY, START, World, at

HOUR_S = 3_600
TREE = {"P": (5_000, {"P1": 5_000, "P2": 5_000}), "Q": (5_000, {"Q1": 10_000})}


def past_run(
    world: World, leaf: str, since: int, until: int, gpus: int = 1, funded: bool = True, number: int = 1
) -> Run:
    """A run that has ended, without devices: as imports store them."""
    node = BudgetNode.objects.get(code=leaf)
    workload = Workload.objects.create(
        code=f"{leaf}-past{Workload.objects.count()}",
        cluster=world.cluster,
        leaf=node,
        size_milli=gpus * 1_000,
        min_runtime_s=600 if funded else 0,
        workload_class="standard",
        state="finished",
        submitted_at=at(since),
        ended_at=at(until),
    )
    return Run.objects.create(
        workload=workload,
        number=number,
        cluster=world.cluster,
        leaf=node,
        path=node.path,
        size_milli=gpus * 1_000,
        funded=funded,
        min_runtime_s=workload.min_runtime_s,
        state="ended",
        started_at=at(since),
        running_at=at(since),
        ended_at=at(until),
        end_reason="finished",
    )


def used(world: World, now: int) -> dict[str, tuple[int, int]]:
    """(charged, uncharged) thousandth-seconds of every budget node that used anything."""
    figures = snapshots.load(world.cluster, at(now)).snapshot.tree.figures(int(at(now).timestamp()))
    return {
        name: (each.used_milli_s, each.uncharged_milli_s)
        for name, each in figures.items()
        if each.used_milli_s or each.uncharged_milli_s
    }


# --- use --------------------------------------------------------------------------------------------------------------


def test_ended_use_is_cut_to_the_second_at_both_ends_of_the_window(make_world: Callable[..., World]) -> None:
    world = make_world(TREE, lookback_s=HOUR_S)
    past_run(world, "P1", since=-HOUR_S - 100, until=-HOUR_S + 7, gpus=2)
    past_run(world, "P1", since=-50, until=0, funded=False)
    past_run(world, "Q1", since=-HOUR_S - 9, until=-HOUR_S)
    assert used(world, now=0) == {"lab": (14_000, 50_000), "P": (14_000, 50_000), "P1": (14_000, 50_000)}
    assert used(world, now=6) == {"lab": (2_000, 50_000), "P": (2_000, 50_000), "P1": (2_000, 50_000)}
    assert used(world, now=7)["P1"] == (0, 50_000)


def test_use_agrees_with_a_plain_sum_over_many_runs(make_world: Callable[..., World]) -> None:
    world = make_world(TREE, lookback_s=10 * HOUR_S)
    draw = random.Random(5)
    expected = {(code, funded): 0 for code in ("P1", "P2", "Q1") for funded in (True, False)}
    for _ in range(60):
        code, funded = draw.choice(("P1", "P2", "Q1")), draw.random() < 0.5
        since = -draw.randrange(20 * HOUR_S)
        until = min(0, since + draw.randrange(6 * HOUR_S))
        past_run(world, code, since, until, gpus=draw.randrange(1, 9), funded=funded)
        size = Run.objects.order_by("-pk").values_list("size_milli", flat=True)[0]
        expected[code, funded] += size * max(0, until - max(since, -10 * HOUR_S))
    found = used(world, now=0)
    assert {code: found[code] for code in ("P1", "P2", "Q1")} == {
        code: (expected[code, True], expected[code, False]) for code in ("P1", "P2", "Q1")
    }


def test_a_moved_project_takes_no_past_along(make_world: Callable[..., World]) -> None:
    """The old program keeps the charge, the new one starts at nothing, and the whole stays the whole.

    A tree can be read as of any past day, so this one has to happen today.
    """
    world = make_world(TREE)
    today = int((timezone.now() - START).total_seconds())
    past_run(world, "P1", since=today - 100, until=today)
    running = world.submit("P1", now=today, sim={"startup_s": 0, "duration_s": 9_000})
    run_pass(world.cluster.pk, now=at(today))
    before = world.leaves["P1"].path
    tree.move(node=world.leaves["P1"], parent=world.leaves["Q"], by=None)
    assert used(world, now=today + 10) == {"lab": (110_000, 0), "P": (110_000, 0), "P~": (110_000, 0)}
    assert running.runs.get().path == before, "its path is the one it was started under"
    later = world.submit("P2", now=today)
    run_pass(world.cluster.pk, now=at(today + 11))
    assert world.runs(later) == [(today + 11, None)]


def test_a_divided_project_keeps_its_past_in_a_closed_child(make_world: Callable[..., World]) -> None:
    world = make_world(TREE)
    past_run(world, "P1", since=-100, until=0)
    waiting = world.submit("P1", gpus=8)
    tree.add_child(parent=world.leaves["P1"], kind="subproject", code="P1a", name="Part", by=None)
    run_pass(world.cluster.pk, now=at(10))
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason_code, waiting.leaf.code) == ("held", "closed", "P1_0")
    assert used(world, now=10)["P1_0"] == used(world, now=10)["P1"] == (100_000, 0)


def test_a_stop_by_an_operator_gives_the_charge_back(make_world: Callable[..., World], person: Person) -> None:
    world = make_world(TREE)
    workload = world.submit("P1", sim={"startup_s": 0, "duration_s": 9_000, "exit_delay_s": 10}, resumable=True)
    world.step(0)
    run = workload.runs.get()
    with pytest.raises(NotAllowed):
        emergency.stop_run(run=run, by=person, reason="fire", now=at(100))
    roles.grant(node=world.root, person=person, role="operator", by=None, valid_from=DAY)
    operator = Person.objects.get(pk=person.pk)
    with pytest.raises(InputError) as caught:
        emergency.stop_run(run=run, by=operator, reason=" ", now=at(100))
    assert caught.value.field == "reason"
    assert emergency.stop_run(run=run, by=operator, reason="fire in rack 3", now=at(100))
    assert not emergency.stop_run(run=run, by=operator, reason="fire in rack 3", now=at(100))
    workload.refresh_from_db()
    assert workload.reason_text == "Stopped by an operator: fire in rack 3"
    world.step(110)
    assert world.runs(workload)[0] == (0, 110)
    assert used(world, now=110)["P1"] == (0, 110_000)


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_node_is_what_its_health_its_drain_and_its_windows_make_of_it(make_world: Callable[..., World]) -> None:
    world = make_world(nodes={"h1": 8, "h2": 8, "h3": 8, "h4": 8}, healthy_dwell_s=100)
    nodes.ask_drain(node=world.node("h1"), now=at(0))
    nodes.set_health(node=world.node("h2"), health="down", now=at(0))
    nodes.set_health(node=world.node("h3"), health="unhealthy", now=at(0))
    nodes.set_health(node=world.node("h3"), health="healthy", now=at(50))
    nodes.add_window(node=world.node("h4"), starts_at=at(60), ends_at=at(90), now=at(0))
    found = snapshots.load(world.cluster, at(80)).snapshot.nodes.by_name
    assert [found[name].health for name in ("h1", "h2", "h3", "h4")] == [
        Health.DRAINING,
        Health.DOWN,
        Health.HEALTHY,
        Health.HEALTHY,
    ]
    second = int(at(80).timestamp())
    assert found["h3"].usable_from_s == int(at(150).timestamp())
    assert [found[name].may_start(second) for name in ("h3", "h4")] == [False, False]
    later = snapshots.load(world.cluster, at(150)).snapshot.nodes.by_name
    assert later["h3"].may_start(int(at(150).timestamp()))
    assert later["h4"].usable_from_s == int(at(190).timestamp()), "after maintenance it has to be fit for the dwell too"


# --- the record -------------------------------------------------------------------------------------------------------


def test_a_tree_is_stored_once_for_as_long_as_it_stays_the_same(make_world: Callable[..., World]) -> None:
    world = make_world(TREE)
    for second in range(3):
        run_pass(world.cluster.pk, now=at(second))
    assert TreeVersion.objects.count() == 1
    tree.rename(node=world.leaves["P"], name="Physics", by=None)
    run_pass(world.cluster.pk, now=at(5))
    assert TreeVersion.objects.count() == 2


def test_no_number_of_rows_raises_the_number_of_queries(make_world: Callable[..., World]) -> None:
    world = make_world(TREE, nodes={"h1": 8, "h2": 8})

    def queries_of_load() -> int:
        with CaptureQueriesContext(connection) as caught:
            snapshots.load(world.cluster, at(100))
        return len(caught)

    def fill(times: int) -> None:
        for _ in range(times):
            past_run(world, "P1", since=-100, until=0)
            world.submit("P1", gpus=4)
            world.submit("Q1", gpus=6)
        run_pass(world.cluster.pk, now=at(100))

    fill(2)
    few = queries_of_load()
    fill(10)
    assert queries_of_load() == few
