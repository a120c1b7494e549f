"""Minima, maxima and weights of budget nodes: who may set them, what cannot be kept, and what a pass makes of them."""

from __future__ import annotations

import pytest

from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import BudgetNode, LedgerEntry, Limit, Person
from budgets.services import roles
from scheduler.services import limits, workloads
from scheduler.services.limits import Limits
from scheduler.snapshots.present import tree_nodes
from tests.scheduler.conftest import DAY, START, World, at


@pytest.fixture
def world(db: None) -> World:
    """16 GPUs; A with A1 and A2, and B."""
    return World({"A": (6_000, {"A1": 5_000, "A2": 5_000}), "B": 4_000}, {"n1": 8, "n2": 8}, "simulated", {})


def node(code: str) -> BudgetNode:
    """As it is now."""
    return BudgetNode.objects.get(code=code)


def put(world: World, parent: str, by=None, **given: Limits) -> None:
    """Set limits of children."""
    wanted = {node(code): each for code, each in given.items()}
    limits.set_limits(parent=node(parent), cluster=world.cluster, limits=wanted, by=by, reason="as agreed")


def test_limits_are_kept_with_an_entry_in_the_ledger_and_in_force_at_once(world: World) -> None:
    put(world, "A", A1=Limits(2_000, 6_000, 1_500), A2=Limits())
    assert limits.on(world.cluster) == {node("A1").pk: Limits(2_000, 6_000, 1_500)}
    [entry] = LedgerEntry.objects.filter(verb="limits.changed")
    assert (entry.node_code, entry.cluster_name, entry.reason) == ("A1", "north", "as agreed")
    assert entry.before == {"minimum_milli": 0, "maximum_milli": None, "factor_milli": 1_000}
    assert entry.after == {"minimum_milli": 2_000, "maximum_milli": 6_000, "factor_milli": 1_500}
    found = {row["id"]: row.get("limits") for row in tree_nodes(world.cluster, at(0), also=set())}
    assert found == {"lab": None, "A": None, "B": None, "A1": entry.after, "A2": None}
    put(world, "A", A1=Limits(2_000, 6_000, 1_500))
    assert LedgerEntry.objects.filter(verb="limits.changed").count() == 1, "nothing changed"


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"A1": Limits(9_000), "A2": Limits(8_000)}, "limits", "minima below A come to 17, and it may hold 16"),
        ({"A1": Limits(5_000, 4_000)}, "limits[A1].minimum_milli", "is more than the maximum"),
        ({"A1": Limits(factor_milli=0)}, "limits[A1].factor_milli", "from 1 to 1,000,000"),
        ({"A1": Limits(factor_milli=float("nan"))}, "limits[A1].factor_milli", "from 1 to 1,000,000"),
        ({"A1": Limits(minimum_milli=-1)}, "limits[A1].minimum_milli", "from 0 to"),
        ({"B": Limits(1_000)}, "limits[B]", "B is no child of A"),
    ],
    ids=["above the cluster", "above the maximum", "no weight", "no number", "negative", "no child"],
)
def test_what_cannot_be_kept_is_refused_where_it_stands(
    world: World, given: dict[str, Limits], field: str, words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        put(world, "A", **given)
    assert caught.value.field == field
    assert not Limit.objects.exists()


def test_minima_count_with_the_maximum_above_them(world: World) -> None:
    put(world, "lab", A=Limits(0, 4_000))
    with pytest.raises(InputError, match="minima below A come to 6, and it may hold 4 at most on north"):
        put(world, "A", A1=Limits(3_000), A2=Limits(3_000))


def test_who_divides_the_parent_sets_them_and_nobody_raises_what_they_have_a_part_in(world: World) -> None:
    pi, lead = (Person.objects.create_user(name) for name in ("pi", "lead"))
    roles.grant(person=pi, node=node("A"), role="manager", valid_from=DAY, by=None)
    roles.grant(person=lead, node=node("A1"), role="manager", valid_from=DAY, by=None)
    roles.grant(person=pi, node=node("A2"), role="member", valid_from=DAY, by=None)
    with pytest.raises(NotAllowed):
        put(world, "A", by=lead, A1=Limits(1_000))
    put(world, "A", by=pi, A1=Limits(1_000, 8_000))
    put(world, "A", by=pi, A2=Limits(0, 8_000))
    with pytest.raises(NotAllowed, match="you have a part in A2"):
        put(world, "A", by=pi, A2=Limits())
    with pytest.raises(InputError, match="reason"):
        limits.set_limits(parent=node("A"), cluster=world.cluster, limits={node("A1"): Limits()}, by=pi)


def test_a_change_made_from_an_old_version_is_refused(world: World) -> None:
    version = node("A").version
    put(world, "A", A1=Limits(1_000))
    with pytest.raises(ConflictError):
        limits.set_limits(
            parent=node("A"), cluster=world.cluster, limits={node("A1"): Limits()}, by=None, version=version
        )


def test_fair_shares_are_those_of_all_devices(world: World) -> None:
    put(world, "A", A1=Limits(0, 2_000))
    assert limits.fair_shares(world.cluster) == {"lab": 16_000, "A": 9_600, "B": 6_400, "A1": 2_000, "A2": 7_600}


def test_more_than_a_maximum_is_refused_at_the_door(world: World) -> None:
    put(world, "lab", A=Limits(0, 4_000))
    row = workloads.submit(
        cluster=world.cluster, leaf=node("A1"), owner=None, size_milli=5_000, min_runtime_s=600, command=["run"],
        now=START,
    )  # fmt: skip
    assert (row.state, row.reason_code) == ("refused", "too_large")
    assert row.reason_text == "Refused: the maximum of Project A is 4, and it would hold 5."


def test_more_memory_than_any_node_has_is_refused_at_the_door(world: World) -> None:
    world.cluster.nodes.filter(name="n1").update(memory_mib=64 * 1_024, cpu_milli=32_000)
    asked = {"cluster": world.cluster, "leaf": node("A1"), "owner": None, "min_runtime_s": 600, "command": ["run"]}
    free = workloads.submit(size_milli=1_000, memory_mib_per_rank=10**6, now=START, **asked)
    assert free.state == "queued", "the other node does not say what it has"
    world.cluster.nodes.filter(name="n2").update(memory_mib=32 * 1_024)
    row = workloads.submit(size_milli=1_000, memory_mib_per_rank=65 * 1_024, now=START, **asked)
    assert row.reason_text == "Refused: no node has the cores and the memory that it asks for."
    wide = workloads.submit(size_milli=16_000, memory_mib_per_rank=33 * 1_024, now=START, **asked)
    assert wide.state == "refused"
