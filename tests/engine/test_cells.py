"""Cells: HiveD's worked examples, what may be granted, and that a grant is always there."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.policies.cells import (
    Cell,
    Cells,
    Chain,
    InfeasibleError,
    NotGrantedError,
    VirtualClusters,
    grantable,
    left_over,
)

TWO_NODES = Chain((2, 2, 2), 2, ("GPU", "switch", "socket", "node"))


def free(cells: Cells) -> list[list[int]]:
    return [list(cells.free(level)) for level in range(1, cells.chain.levels + 1)]


def test_cells_are_broken_up_and_grow_together_again() -> None:
    cells = Cells(TWO_NODES)
    assert free(cells) == [[], [], [], [0, 1]]
    taken = [cells.bind(2)]
    assert (taken[-1], free(cells)) == (Cell(2, 0), [[], [1], [1], [1]])
    taken.append(cells.bind(4))
    assert (taken[-1], free(cells)) == (Cell(4, 1), [[], [1], [1], []])
    taken.append(cells.bind(1))
    assert (taken[-1], free(cells)) == (Cell(1, 2), [[3], [], [1], []])
    taken.append(cells.bind(3))
    assert (taken[-1], free(cells)) == (Cell(3, 1), [[3], [], [], []])
    assert cells.bind(4) is None
    cells.release(Cell(2, 0))
    assert free(cells) == [[3], [0], [], []]
    cells.release(Cell(3, 1))
    assert free(cells) == [[3], [0], [1], []]
    cells.release(Cell(1, 2))
    assert free(cells) == [[], [], [], [0]]
    cells.release(Cell(4, 1))
    assert free(cells) == [[], [], [], [0, 1]]
    with pytest.raises(KeyError):
        cells.release(Cell(4, 1))


def test_grants_must_fit_at_every_level() -> None:
    tight = [{3: 1, 2: 1, 1: 2}, {4: 1}]
    assert left_over(TWO_NODES, tight) == [0, 1, 1, 1]
    with pytest.raises(InfeasibleError, match=r"^GPU: 1 cell is missing$") as refused:
        left_over(TWO_NODES, [*tight, {1: 1}])
    assert (refused.value.level, refused.value.short) == (1, 1)
    with pytest.raises(InfeasibleError, match=r"^node: 3 cells are missing$"):
        left_over(TWO_NODES, [{4: 2}, {4: 3}])


def test_what_is_left_can_be_granted_and_no_more() -> None:
    grants = [{4: 1}, {2: 1}]
    could = grantable(TWO_NODES, grants)
    assert could == [6, 3, 1, 0]
    for level, count in enumerate(could, start=1):
        left_over(TWO_NODES, [*grants, {level: count}])
        with pytest.raises(InfeasibleError):
            left_over(TWO_NODES, [*grants, {level: count + 1}])


@pytest.mark.parametrize(
    ("grant", "said"),
    [
        ({5: 1}, "level 5: there are levels 1 to 4"),
        ({0: 1}, "level 0: there are levels 1 to 4"),
        ({2: -1}, "switch: must be a whole number of at least 0 cells, not -1"),
        ({2: float("nan")}, "switch: must be a whole number of at least 0 cells, not nan"),
        ({2: True}, "switch: must be a whole number of at least 0 cells, not True"),
    ],
)
def test_what_is_no_grant_is_refused_with_its_level(grant: dict[int, int], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        left_over(TWO_NODES, [grant])


def test_what_is_no_chain_is_refused_with_its_attribute() -> None:
    for given_, said in (
        (((2, 0), 1), "fans"),
        (((2.0,), 1), "fans"),
        (((2,), -1), "tops"),
        (((2,), 1, ("GPU",)), "names"),
    ):
        with pytest.raises(ValueError, match=f"^{said}: "):
            Chain(*given_)


def test_nobody_gets_more_than_was_granted() -> None:
    clusters = VirtualClusters(TWO_NODES, {"A": {4: 1}, "B": {3: 1}})
    cell = clusters.bind("A", 4)
    with pytest.raises(NotGrantedError, match=r"^A: has no more cells of node$"):
        clusters.bind("A", 4)
    for tenant, level in (("A", 3), ("B", 4), ("C", 1)):
        with pytest.raises(NotGrantedError):
            clusters.bind(tenant, level)
    assert clusters.in_use("A", 4) == 1
    clusters.release(cell)
    assert clusters.in_use("A", 4) == 0
    assert clusters.bind("A", 4) == cell


def test_the_cell_is_taken_that_disturbs_the_fewest() -> None:
    borrowed = {Cell(4, 0): 3, Cell(4, 1): 1, Cell(3, 2): 1, Cell(3, 3): 0, Cell(2, 6): 0}
    assert Cells(TWO_NODES).bind(4, lambda cell: borrowed.get(cell, 0)) == Cell(4, 1)
    assert Cells(TWO_NODES).bind(3, lambda cell: borrowed.get(cell, 0)) == Cell(3, 3)
    assert Cells(TWO_NODES).bind(1) == Cell(1, 0)


def legal_steps(chain: Chain, steps: int, draw: random.Random) -> int:
    """Bind and release at random inside grants that use up the chain as far as chance has it; how many were bound."""
    grants: dict[str, dict[int, int]] = {}
    for tenant in ("A", "B", "C", "D"):
        level = draw.randint(1, chain.levels)
        most = grantable(chain, list(grants.values()))
        grants[tenant] = {level: draw.randint(0, most[level - 1])}
        more = draw.randint(1, level)
        most = grantable(chain, list(grants.values()))
        grants[tenant][more] = grants[tenant].get(more, 0) + draw.randint(0, most[more - 1])
    clusters = VirtualClusters(chain, grants)
    bound: list[Cell] = []
    count = 0
    for _ in range(steps):
        open_ = [
            (tenant, level)
            for tenant, grant in grants.items()
            for level, granted in grant.items()
            if clusters.in_use(tenant, level) < granted
        ]
        if open_ and (not bound or draw.random() < 0.55):
            bound.append(clusters.bind(*draw.choice(open_)))  # asserts that there is one
            count += 1
        elif bound:
            clusters.release(bound.pop(draw.randrange(len(bound))))
    leaves = [leaf for cell in bound for leaf in leaves_of(chain, cell)]
    assert len(leaves) == len(set(leaves))
    for cell in bound:
        clusters.release(cell)
    assert clusters.cells.free(chain.levels) == list(range(chain.tops))
    return count


def leaves_of(chain: Chain, cell: Cell) -> range:
    size = chain.size(cell.level)
    return range(cell.place * size, (cell.place + 1) * size)


def random_chain(draw: random.Random) -> Chain:
    return Chain(tuple(draw.randint(1, 4) for _ in range(draw.randint(0, 4))), draw.randint(1, 6))


def test_fifty_thousand_requests_inside_grants_and_not_one_fails() -> None:
    draw = random.Random(7)
    bound = sum(legal_steps(random_chain(draw), 300, draw) for _ in range(400))
    assert bound > 50_000


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 60))
def test_a_request_inside_a_grant_never_fails(seed: int, steps: int) -> None:
    draw = random.Random(seed)
    legal_steps(random_chain(draw), steps, draw)
