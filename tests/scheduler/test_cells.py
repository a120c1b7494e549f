"""Cells of budget nodes: who may grant them, what does not fit, what the ledger says, and nodes that go later."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import BudgetNode, CellGrant, Cluster, LedgerEntry, Person
from budgets.services import roles, tree
from scheduler.engine import CellCounts
from scheduler.models import Node
from scheduler.queries import cells as told
from scheduler.services import cells, nodes
from tests.scheduler.conftest import DAY, World, add_nodes, at


def world_of_racks() -> World:
    """Two racks of two nodes with 8 GPUs, and one node more; A with A1 and A2, and B."""
    made = World({"A": (6_000, {"A1": 5_000, "A2": 5_000}), "B": 4_000}, {}, "simulated", {})
    add_nodes(made.cluster, {"n1": 8, "n2": 8}, rack="r1")
    add_nodes(made.cluster, {"n3": 8, "n4": 8}, rack="r2")
    add_nodes(made.cluster, {"n5": 8})
    return made


@pytest.fixture
def world(db: None) -> World:
    """Five nodes, two racks."""
    return world_of_racks()


def node(code: str) -> BudgetNode:
    """As it is now."""
    return BudgetNode.objects.get(code=code)


def put(world: World, code: str, number: int = 0, racks: int = 0, by: Person | None = None, **more) -> None:
    """Let a node have so many whole nodes and racks."""
    wanted = CellCounts(number, racks)
    cells.set_cells(node=node(code), cluster=world.cluster, cells=wanted, by=by, **({"reason": "as agreed"} | more))


def test_cells_are_kept_with_an_entry_and_changed_and_withdrawn(world: World) -> None:
    version = node("lab").version
    put(world, "B", 1, 1)
    put(world, "B", 1, 1)
    put(world, "B", 2)
    put(world, "B")
    first, second, third = LedgerEntry.objects.filter(verb="cells.changed").order_by("id")
    assert (first.node_code, first.cluster_name, first.reason) == ("B", "north", "as agreed")
    assert (first.before, first.after) == ({"node": 0, "rack": 0}, {"node": 1, "rack": 1})
    assert (second.before, second.after) == (first.after, {"node": 2, "rack": 0})
    assert third.after == {"node": 0, "rack": 0}
    assert not CellGrant.objects.exists()
    assert node("lab").version == version + 3, "the same again is no change"


@pytest.mark.parametrize(
    ("code", "number", "racks", "field", "words"),
    [
        ("B", 6, 0, "cells.node", "north: 1 whole node short of what B would have"),
        ("B", 0, 3, "cells.rack", "north: 1 rack short of what B would have"),
        ("B", 2, 2, "cells.node", "north: 1 whole node short of what B would have"),
        ("B", -1, 0, "cells.node", "must be a whole number from 0 to 10,000"),
        ("B", 0, float("nan"), "cells.rack", "must be a whole number"),
        ("B", True, 0, "cells.node", "must be a whole number"),
        ("lab", 1, 0, "cells", "the organisation has the whole cluster"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_stored(world: World, code, number, racks, field, words) -> None:
    with pytest.raises(InputError, match=words) as caught:
        put(world, code, number, racks)
    assert caught.value.field == field
    assert not CellGrant.objects.exists()
    assert not LedgerEntry.objects.filter(verb="cells.changed").exists()


def test_cells_are_for_all_below_a_node_so_that_none_is_above_another(world: World) -> None:
    put(world, "A", 1)
    with pytest.raises(InputError, match="A has cells, which are for all below it: A1 can't have others") as caught:
        put(world, "A1", 1)
    assert caught.value.field == "cells"
    put(world, "A")
    put(world, "A1", 1)
    put(world, "A2", 0, 1)
    with pytest.raises(InputError, match="A1, below A, has cells of its own: withdraw these first"):
        put(world, "A", 1)
    assert cells.on(world.cluster) == {node("A1").pk: {"node": 1}, node("A2").pk: {"rack": 1}}


def test_a_grant_that_does_not_fit_beside_others_names_all(world: World) -> None:
    put(world, "A1", 1, 1)
    with pytest.raises(InputError, match="north: 1 whole node short of what A1, B would have"):
        put(world, "B", 3)
    put(world, "B", 2)
    with pytest.raises(InputError, match="north: 1 rack short of what A1, B would have"):
        put(world, "B", 0, 2)
    assert cells.on(world.cluster) == {node("A1").pk: {"node": 1, "rack": 1}, node("B").pk: {"node": 2}}


def test_who_sets_the_share_sets_the_cells_and_nobody_raises_what_they_have_a_part_in(world: World) -> None:
    pi, lead = (Person.objects.create_user(name) for name in ("pi", "lead"))
    roles.grant(person=pi, node=node("A"), role="manager", valid_from=DAY, by=None)
    roles.grant(person=lead, node=node("A1"), role="manager", valid_from=DAY, by=None)
    roles.grant(person=pi, node=node("A2"), role="member", valid_from=DAY, by=None)
    for by, code in ((lead, "A1"), (pi, "A"), (pi, "B")):
        with pytest.raises(NotAllowed):
            put(world, code, 1, by=by)
    put(world, "A1", 1, by=pi)
    with pytest.raises(NotAllowed, match="you have a part in A2"):
        put(world, "A2", 1, by=pi)
    put(world, "A2", 2)
    put(world, "A2", 1, by=pi)
    with pytest.raises(InputError, match="reason"):
        put(world, "A1", 0, by=pi, reason="")


def test_a_change_made_from_an_old_version_is_refused(world: World) -> None:
    version = node("A").version
    put(world, "A1", 1)
    with pytest.raises(ConflictError):
        put(world, "A2", 1, version=version)


def test_slurm_that_decides_knows_of_no_cells(world: World) -> None:
    Cluster.objects.filter(pk=world.cluster.pk).update(executor="advised")
    world.cluster.refresh_from_db()
    with pytest.raises(InputError, match="on north Slurm decides"):
        put(world, "B", 1)


def test_closing_and_moving_end_cells_with_an_entry(world: World) -> None:
    put(world, "A1", 1)
    put(world, "B", 0, 1)
    tree.close(node=node("B"), by=None, reason="over")
    other = tree.add_child(parent=node("lab"), kind="program", code="C", name="C", by=None)
    tree.move(node=node("A"), parent=other, by=None)
    assert not CellGrant.objects.exists()
    ends = LedgerEntry.objects.filter(verb="cells.changed", after={"node": 0, "rack": 0}).order_by("id")
    assert [(entry.node_code, entry.reason) for entry in ends] == [("B", "over"), ("A1", "")]
    with pytest.raises(InputError, match="B is closed"):
        put(world, "B", 1)


def test_nodes_that_go_or_move_leave_grants_and_say_what_is_short(world: World) -> None:
    put(world, "B", 0, 2)
    assert cells.faults_of(world.cluster) == []
    Node.objects.filter(name="n3").update(retired_at=at(0))
    [fault] = cells.faults_of(world.cluster)
    assert cells.sentences(fault, world.cluster) == ["north: 1 rack short of what is granted to B"]
    put(world, "B", 0, 1)
    assert cells.faults_of(world.cluster) == []
    nodes.register(cluster=world.cluster, name="n5", devices=8, rack="r2")
    assert told.told_of(node("B"), world.cluster).grantable == (2, 1)


def test_nodes_that_are_unfit_or_to_be_emptied_are_told_beside_those_that_are_gone(world: World) -> None:
    put(world, "A1", 1)
    put(world, "B", 0, 2)
    Node.objects.filter(name="n5").update(drain_asked_at=at(0))
    [empty] = cells.faults_of(world.cluster)
    assert (empty.level, empty.short, empty.unfit, empty.missing) == ("node", 0, 1, 1)
    said = "north: 1 whole node of what is granted to A1, B can't be had today: nodes are unfit"
    assert cells.sentences(empty, world.cluster) == [said]
    Node.objects.filter(name="n1").update(health="down")
    Node.objects.filter(name="n3").update(retired_at=at(0))
    [rack] = cells.faults_of(world.cluster)
    assert (rack.level, rack.short, rack.unfit) == ("rack", 1, 1), "and what is left of the racks does for the node"
    assert told.told_of(node("B"), world.cluster).faults == [rack]


@pytest.mark.django_db(transaction=True)
def test_what_a_node_has_is_told_with_its_use() -> None:
    world = world_of_racks()
    put(world, "B", 1, 1)
    world.submit("B", 16, now=0)
    world.submit("A1", 4, now=0)
    world.live(60)
    found = told.told_of(node("B"), world.cluster)
    assert (found.cells, found.nodes, found.grantable) == ((1, 1), 3, (2, 1))
    assert len(found.used) == 2
    assert (found.devices_milli, found.entitled_milli, found.is_over_entitlement) == (24_000, 16_000, True)
    assert told.last_entry(node("B"), world.cluster).after == {"node": 1, "rack": 1}
    spoken = told.spoken_on(world.cluster)
    assert (spoken.nodes, spoken.of_nodes, spoken.grantable) == (3, 5, (2, 1))
    assert {name: each.code for name, each in spoken.bound.items()} == dict.fromkeys(found.used, "B")
    assert told.told_of(node("A"), world.cluster).cells == (0, 0)


@pytest.mark.django_db(transaction=True)
def test_of_two_grants_at_once_that_do_not_fit_together_one_is_refused() -> None:
    """Under different parents, so that no lock on a parent keeps them apart."""
    made = world_of_racks()
    outcomes: list[str] = []
    begin = threading.Barrier(2, timeout=30)

    def grant(code: str) -> None:
        begin.wait()
        try:
            put(made, code, 3)
            outcomes.append("granted")
        except InputError as error:
            outcomes.append(error.field)
        finally:
            connection.close()

    both = [threading.Thread(target=grant, args=[code]) for code in ("A1", "B")]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    assert sorted(outcomes) == ["cells.node", "granted"]
    assert sum(CellGrant.objects.values_list("count", flat=True)) == 3
