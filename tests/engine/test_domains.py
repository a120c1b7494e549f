"""Leaves and rails: a gang stays close together inside what racks leave open, and nothing else changes."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine import Candidate, Node, choose_whole_nodes
from scheduler.engine.cluster import NodeState


def chosen(nodes: list[Node], count: int, costs: dict[str, int] | None = None) -> list[str]:
    """The names of `count` whole nodes of 8 GPUs; nodes of a higher cost only where they are needed."""
    candidates = [Candidate(((costs or {}).get(node.name, 0),), (), NodeState(node)) for node in nodes]
    found = choose_whole_nodes(candidates, count * 8_000)
    assert found is not None
    return sorted(node.name for node in found)


def nodes(**leaves: str) -> list[Node]:
    """Nodes by the leaf of each, "rail/leaf" or just a leaf; all in one rack."""
    found = []
    for name, place in leaves.items():
        rail, _, leaf = place.rpartition("/")
        found.append(Node(name, 8_000, rail=rail, leaf=leaf))
    return found


def test_a_gang_stays_below_one_leaf_and_takes_the_one_it_fills_best() -> None:
    rack = nodes(h1="L1", h2="L2", h3="L2", h4="L2", h5="L3", h6="L3")
    assert chosen(rack, 2) == ["h5", "h6"]
    assert chosen(rack, 3) == ["h2", "h3", "h4"]


def test_else_it_stays_in_one_rail_over_few_leaves() -> None:
    rack = nodes(h1="A/L1", h2="A/L1", h3="B/L2", h4="B/L2", h5="B/L3", h6="B/L3", h7="B/L4")
    assert chosen(rack, 4) == ["h3", "h4", "h5", "h6"]
    assert chosen(rack, 2) == ["h1", "h2"]  # a leaf that it fills, in the rail that it fills
    assert chosen(rack, 6) == ["h1", "h3", "h4", "h5", "h6", "h7"]  # a whole rail, and one of the other


def test_a_leaf_counts_more_than_a_rail_that_fits_better() -> None:
    rack = nodes(h1="A/L1", h2="A/L2", h3="B/L3", h4="B/L3", h5="B/L3")
    assert chosen(rack, 2) == ["h3", "h4"]


def test_racks_go_first_and_leaves_choose_among_them() -> None:
    two = [
        Node("h1", 8_000, "r1", leaf="L1"),
        Node("h2", 8_000, "r1", leaf="L2"),
        Node("h3", 8_000, "r2", leaf="L3"),
        Node("h4", 8_000, "r2", leaf="L3"),
        Node("h5", 8_000, "r2", leaf="L4"),
    ]
    assert chosen(two, 2) == ["h3", "h4"]  # r1 would be filled, but lies below two leaves
    assert chosen(two, 3) == ["h3", "h4", "h5"]
    across = [
        Node("h1", 8_000, "r1", leaf="L1"),
        Node("h2", 8_000, "r2", leaf="L1"),
        Node("h3", 8_000, "r2", leaf="L2"),
    ]
    assert chosen(across, 2) == ["h2", "h3"]  # in one rack, although one leaf holds two


def test_what_costs_less_is_taken_wherever_it_is() -> None:
    rack = nodes(h1="L1", h2="L2", h3="L2")
    assert chosen(rack, 2, {"h2": 1, "h3": 1}) == ["h1", "h2"]


def test_nodes_that_say_nothing_are_not_taken_to_be_together() -> None:
    rack = nodes(h1="", h2="", h3="L1", h4="L1", h5="L2")
    assert chosen(rack, 2) == ["h3", "h4"]
    assert chosen(rack, 3) == ["h3", "h4", "h5"]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_where_no_node_says_anything_racks_alone_decide(count: int) -> None:
    plain = [Node(f"h{index}", 8_000, f"r{index % 2}") for index in range(6)]
    one = [Node(node.name, 8_000, node.rack, rail="A", leaf="L1") for node in plain]
    assert chosen(plain, count) == chosen(one, count)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["r1", "r2"]), st.sampled_from(["L1", "L2", "L3", ""])), min_size=1, max_size=7),
    st.data(),
)
def test_a_gang_is_in_as_few_racks_and_there_below_one_leaf_where_that_can_be(
    places: list[tuple[str, str]], data: st.DataObject
) -> None:
    every = [Node(f"h{index}", 8_000, rack, leaf=leaf) for index, (rack, leaf) in enumerate(places)]
    count = data.draw(st.integers(1, len(every)))
    taken = [node for node in every if node.name in chosen(every, count)]
    assert len(taken) == count
    groups = [list(each) for each in combinations(every, count)]
    assert len({node.rack for node in taken}) == min(len({node.rack for node in each}) for each in groups)
    below_one = [
        each for each in groups
        if len({node.rack for node in each}) == 1 and len({node.leaf for node in each}) == 1 and each[0].leaf
    ]  # fmt: skip
    if below_one:
        assert len({node.leaf for node in taken}) == 1
