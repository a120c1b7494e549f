"""Ranks of ratios are those of exact fractions, also where floating point cannot tell them apart."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.ratios import ranks_from_largest

AMOUNTS = st.one_of(st.integers(0, 20), st.integers(10**17, 10**17 + 20), st.integers(0, 1 << 130))
RATIOS = st.lists(st.tuples(AMOUNTS, st.one_of(st.integers(1, 20), st.integers(1, 10**9))), max_size=12)


@given(RATIOS)
def test_ranks_are_exact(ratios: list[tuple[int, int]]) -> None:
    ranks = ranks_from_largest(dict(enumerate(ratios)))
    values = sorted({Fraction(*ratio) for ratio in ratios}, reverse=True)
    assert ranks == {key: values.index(Fraction(*ratio)) for key, ratio in enumerate(ratios)}


def test_what_floating_point_takes_for_equal_is_told_apart() -> None:
    ratios = {"less": (10**17, 3), "more": (10**17 + 1, 3), "same": (2 * 10**17, 6)}
    assert 10**17 / 3 == (10**17 + 1) / 3
    assert ranks_from_largest(ratios) == {"more": 0, "less": 1, "same": 1}
