"""Which cells of a cluster can be granted."""

import pytest

from scheduler.engine import CellCounts, Node, fitting, layout_of, still_grantable, unmatched


def cluster(**racks: list[int]):
    """Nodes of these sizes, in devices, by rack; "none" is in no rack."""
    return [
        Node(f"{rack}-{number}", 1_000 * size, rack="" if rack == "none" else rack)
        for rack, sizes in racks.items()
        for number, size in enumerate(sizes)
    ]


TWO_RACKS = layout_of(cluster(r1=[8, 8], r2=[8, 8]))


def test_a_rack_counts_if_it_has_as_many_whole_nodes_as_is_usual():
    layout = layout_of(cluster(r1=[8, 8, 4], r2=[8, 8], r3=[8], r4=[8, 8, 8], none=[16, 2]))
    assert layout.racks == ("r1", "r2")
    assert layout.rack_nodes == 2
    assert layout.nodes[""] == ("none-0",), "a larger node counts, a smaller one does not"
    assert layout.number_of_nodes == 9


def test_of_sizes_that_are_as_common_the_larger_is_usual():
    layout = layout_of(cluster(r1=[4], r2=[8, 8], none=[4]))
    assert layout.nodes == {"r2": ("r2-0", "r2-1")}


@pytest.mark.parametrize(
    ("grants", "missing", "left"),
    [
        ([], (0, 0), (4, 2)),
        ([(1, 0)], (0, 0), (3, 1)),
        ([(1, 1)], (0, 0), (1, 0)),
        ([(2, 0), (0, 1)], (0, 0), (0, 0)),
        ([(2, 1), (1, 0)], (1, 0), (0, 0)),
        ([(0, 2), (1, 1)], (1, 1), (0, 0)),
    ],
)
def test_grants_fit_or_it_is_said_what_is_missing(grants, missing, left):
    counts = [CellCounts(*grant) for grant in grants]
    assert unmatched(TWO_RACKS, counts) == missing
    assert still_grantable(TWO_RACKS, counts) == left


def test_without_racks_only_nodes_can_be_granted():
    layout = layout_of(cluster(none=[8, 8]))
    assert still_grantable(layout, []) == (2, 0)
    assert unmatched(layout, [CellCounts(node=2, rack=1)]) == (0, 1)


def test_of_no_nodes_nothing_can_be_granted():
    layout = layout_of([])
    assert still_grantable(layout, []) == (0, 0)
    assert unmatched(layout, [CellCounts(node=1)]) == (1, 0)


def test_while_a_node_cannot_be_had_its_rack_is_but_nodes():
    left = TWO_RACKS.without({"r1-0"})
    assert (left.racks, left.number_of_nodes) == (("r2",), 3)
    assert unmatched(left, [CellCounts(node=1, rack=1)]) == (0, 0)
    assert unmatched(left, [CellCounts(node=2, rack=1)]) == (1, 0)
    assert unmatched(left, [CellCounts(node=1), CellCounts(rack=2)]) == (0, 1)


def test_of_more_than_there_is_what_fits_is_kept_racks_first():
    granted = {"b": CellCounts(node=2, rack=1), "a": CellCounts(node=1, rack=0), "c": CellCounts(node=1, rack=2)}
    assert fitting(TWO_RACKS, granted) == {"a": (0, 0), "b": (0, 1), "c": (0, 1)}
    assert fitting(TWO_RACKS, {"b": CellCounts(node=3, rack=1), "a": CellCounts(node=1)}) == {"a": (1, 0), "b": (1, 1)}
    assert fitting(TWO_RACKS, {"b": CellCounts(node=2, rack=1)}) == {"b": (2, 1)}
