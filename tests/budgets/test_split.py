"""Exact splits."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.split import evenly, in_proportion


@pytest.mark.parametrize(
    ("count", "parts"),
    [
        (1, [10_000]),
        (3, [3_334, 3_333, 3_333]),
        (7, [1_429, 1_429, 1_429, 1_429, 1_428, 1_428, 1_428]),
    ],
)
def test_the_whole_split_evenly(count: int, parts: list[int]) -> None:
    assert evenly(10_000, count) == parts


def test_largest_remainders_come_first_and_then_the_earlier_part() -> None:
    assert in_proportion(10, [1, 1, 1]) == [4, 3, 3]
    assert in_proportion(10, [3, 3, 1]) == [4, 4, 2]  # quotas 4.29, 4.29, 1.43: the third has the largest remainder
    assert in_proportion(5, [0, 1]) == [0, 5]


@pytest.mark.parametrize(("whole", "weights"), [(10, []), (10, [0, 0]), (-1, [1]), (10, [2, -1])])
def test_what_cannot_be_split(whole: int, weights: list[int]) -> None:
    with pytest.raises(ValueError, match=r"weights|negative"):
        in_proportion(whole, weights)


@given(st.integers(0, 20_000), st.lists(st.integers(0, 10**12), min_size=1, max_size=30).filter(any))
def test_parts_sum_to_the_whole_and_keep_to_their_quota(whole: int, weights: list[int]) -> None:
    parts = in_proportion(whole, weights)
    assert sum(parts) == whole
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - Fraction(whole * weight, sum(weights))) < 1
