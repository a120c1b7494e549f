"""Which nodes and racks are matched to tenants' cells: two racks of two nodes, worked out by hand."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine import CellCounts
from scheduler.engine.matching import Matching, Standing, is_worse, match

RACK_OF = {"h1": "r1", "h2": "r1", "h3": "r2", "h4": "r2"}
OTHERS = frozenset([None])


def matched(tenants: dict[str, tuple[int, int]], without: str | None = None, **bound: set[str | None]) -> Matching:
    """Cells as (nodes, racks) on the two racks, of which some nodes have contracts of these."""
    nodes = [Standing(name, rack, bound=frozenset(bound.get(name, ()))) for name, rack in RACK_OF.items()]
    return match({name: CellCounts(*counts) for name, counts in tenants.items()}, nodes, ("r1", "r2"), without)


def test_cells_are_disjoint_and_a_rack_is_kept_whole() -> None:
    found = matched({"t": (1, 1)})
    assert found.missing == {}
    assert found.targets == {}
    assert sorted(found.clean) == ["h1", "h2", "h3"]
    assert not found.keeps_from("h1", "t")
    assert found.keeps_from("h1", None)
    assert found.keeps_from("h1", "u")
    assert not found.keeps_from("h4", None)


def test_a_node_cell_takes_a_rack_that_is_in_use_and_leaves_the_whole_one() -> None:
    assert matched({"t": (1, 0)}, h1={None}).clean == {"h2": "t"}


def test_what_a_tenant_uses_are_its_cells() -> None:
    found = matched({"t": (1, 0), "u": (1, 0)}, h1={"u"}, h2={"t"}, h3={None}, h4={None})
    assert found.clean == {"h1": "u", "h2": "t"}


def test_a_rack_cell_is_where_most_of_the_tenant_is() -> None:
    found = matched({"t": (0, 1), "u": (0, 1)}, h3={"t"})
    assert found.clean == {"h1": "u", "h2": "u", "h3": "t", "h4": "t"}


def test_a_node_that_two_use_is_neithers_cell() -> None:
    found = matched({"t": (1, 0), "u": (1, 0)}, h1={"t", "u"}, h3={None}, h4={None})
    assert found.clean == {"h2": "t"}
    assert found.missing == {"u": CellCounts(node=1)}


def test_what_is_missing_gets_what_will_be_clean_soonest() -> None:
    """No rack is clean: r2 lacks one node and r1 two, so r2 is left alone until it is."""
    found = matched({"t": (0, 1)}, h1={None}, h2={None}, h4={None})
    assert found.missing == {"t": CellCounts(rack=1)}
    assert found.clean == {}
    assert found.targets == {"h3": "t", "h4": "t"}
    assert found.keeps_from("h3", None)
    assert found.is_cell_of("h4", "t")
    assert not found.keeps_from("h1", None)


def test_a_target_may_hold_anothers_clean_cell_which_gets_a_target_elsewhere() -> None:
    """u's node cell is h3 while it is the only clean node; t waits for its rack, so u's next will be h2, the sooner."""
    nodes = [
        Standing("h1", "r1", bound=OTHERS, until_s=90),
        Standing("h2", "r1", bound=OTHERS, until_s=80),
        Standing("h3", "r2"),
        Standing("h4", "r2", bound=OTHERS, until_s=30),
    ]
    found = match({"t": CellCounts(rack=1), "u": CellCounts(node=1)}, nodes, ("r1", "r2"))
    assert found.clean == {"h3": "u"}
    assert found.targets == {"h2": "u", "h3": "t", "h4": "t"}
    assert not found.keeps_from("h3", "u")
    assert found.keeps_from("h3", "t")


def test_runs_with_their_contract_over_are_in_nobodys_way_but_are_spared() -> None:
    nodes = [
        Standing("h1", over=OTHERS),
        Standing("h2", over=frozenset(["u"])),
        Standing("h3"),
        Standing("h4", over=frozenset(["t"])),
    ]
    one, two, three, four = (set(match({"t": CellCounts(node=number)}, nodes, ()).clean) for number in (1, 2, 3, 4))
    assert (one, two, three, four) == ({"h4"}, {"h3", "h4"}, {"h1", "h3", "h4"}, {"h1", "h2", "h3", "h4"})


def test_a_node_is_left_out_where_others_do_as_well() -> None:
    assert "h1" in matched({"t": (1, 0)}).clean
    assert "h1" not in matched({"t": (1, 0)}, without="h1").clean
    assert "h1" in matched({"t": (4, 0)}, without="h1").clean


def test_more_racks_missing_is_worse_than_more_nodes() -> None:
    assert is_worse(CellCounts(node=0, rack=1), CellCounts(node=3, rack=0))
    assert is_worse(CellCounts(node=2), CellCounts(node=1))
    assert not is_worse(CellCounts(node=1), CellCounts(node=1))


def best(tenants: dict[str, CellCounts], nodes: list[Standing], racks: list[str]) -> tuple[int, int]:
    """The fewest racks, and then nodes, that can be missing: racks given out in every way, and of the nodes that are
    left to each tenant first what nobody else can have.
    """
    members = {rack: [node for node in nodes if node.rack == rack] for rack in racks}
    fewest = (sum(counts.rack for counts in tenants.values()) + 1, 0)
    for owners in product([None, *tenants], repeat=len(racks)):
        given = dict(zip(racks, owners, strict=True))
        if any(
            owner is not None and not all(node.is_clean_for(owner) for node in members[rack])
            for rack, owner in given.items()
        ):
            continue
        if any(owners.count(tenant) > counts.rack for tenant, counts in tenants.items()):
            continue
        missing_racks = sum(counts.rack for counts in tenants.values()) - sum(owner is not None for owner in owners)
        left = [node for node in nodes if given.get(node.rack) is None]
        own = {tenant: sum(node.bound == {tenant} for node in left) for tenant in tenants}
        wanted = sum(counts.node for counts in tenants.values())
        most = sum(min(own[tenant], counts.node) for tenant, counts in tenants.items())
        most += min(wanted - most, sum(not node.bound for node in left))
        fewest = min(fewest, (missing_racks, wanted - most))
    return fewest


WHOSE = st.sampled_from([frozenset(), frozenset(), frozenset("t"), frozenset("u"), OTHERS, frozenset("tu")])


@st.composite
def standings(draw: st.DrawFn) -> list[Standing]:
    """Two racks of three nodes and one node more, with gangs of the tenants that use them."""
    found = []
    for index in range(7):
        bound, over = draw(WHOSE), draw(WHOSE)
        gangs = frozenset(each for each in bound | over if each is not None and draw(st.booleans()))
        rack = ("r1", "r1", "r1", "r2", "r2", "r2", "")[index]
        found.append(Standing(f"h{index}", rack, bound=bound, over=over, gangs=gangs))
    return found


@settings(max_examples=100, deadline=None)
@given(standings(), st.tuples(st.integers(0, 3), st.integers(0, 2)), st.tuples(st.integers(0, 3), st.integers(0, 1)))
def test_as_many_cells_are_matched_as_can_be(
    nodes: list[Standing], own: tuple[int, int], others: tuple[int, int]
) -> None:
    tenants = {"t": CellCounts(*own), "u": CellCounts(*others)}
    found = match(tenants, nodes, ("r1", "r2"))
    missing = found.missing_in_all()
    assert (missing.rack, missing.node) == best(tenants, nodes, ["r1", "r2"])
    assert all(node.is_clean_for(found.clean[node.name]) for node in nodes if node.name in found.clean)
    assert all(found.clean[node.name] == found.racks[node.rack] for node in nodes if node.rack in found.racks)


def test_what_is_on_single_nodes_are_node_cells_and_leaves_the_rack_cell_whole() -> None:
    found = matched({"t": (1, 1)}, h3={"t"})
    assert (found.clean, found.racks) == ({"h1": "t", "h2": "t", "h3": "t"}, {"r1": "t"})
    assert matched({"t": (1, 1)}, h1={None}, h3={"t"}).racks == {"r2": "t"}, "no other rack is clean"
    assert matched({"t": (1, 1), "u": (0, 1)}, h3={"t"}).racks == {"r1": "u", "r2": "t"}, "another needs the other one"
    assert matched({"t": (1, 1)}, h2={"t"}, h3={"t"}, h4={"t"}).racks == {"r2": "t"}, "it is on more than it has nodes"


def test_a_rack_in_which_a_workload_has_several_nodes_is_the_rack_cell() -> None:
    gang = {"bound": frozenset("t"), "gangs": frozenset("t")}
    nodes = [Standing("h1", "r1"), Standing("h2", "r1"), Standing("h3", "r2", **gang), Standing("h4", "r2", **gang)]
    found = match({"t": CellCounts(2, 1)}, nodes, ("r1", "r2"))
    assert (found.racks, found.spare_racks, len(found.clean)) == ({"r2": "t"}, {"r1"}, 4)
