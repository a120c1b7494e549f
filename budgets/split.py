"""Exact splits of a whole number: the parts always sum to the whole (largest remainder, Hamilton 1792)."""

from __future__ import annotations

from collections.abc import Sequence


def in_proportion(whole: int, weights: Sequence[int]) -> list[int]:
    """Split `whole` into one part for each weight, as near to proportion as whole numbers can be.

    Each part is its quota rounded down; what is left goes, one each, to the largest remainders, and among
    equal remainders to the earlier part. So no part is further than 1 from its quota.

    Raises:
        ValueError: a negative whole or weight, no weight, or weights that sum to 0.
    """
    if whole < 0 or any(weight < 0 for weight in weights):
        raise ValueError("a whole and its weights can't be negative")
    total = sum(weights)
    if total == 0:
        raise ValueError("weights must sum to more than 0")
    parts = [whole * weight // total for weight in weights]
    left = whole - sum(parts)
    by_remainder = sorted(range(len(weights)), key=lambda index: (-(whole * weights[index] % total), index))
    for index in by_remainder[:left]:
        parts[index] += 1
    return parts


def evenly(whole: int, count: int) -> list[int]:
    """Split `whole` into `count` parts that differ by at most 1: 10,000 by 3 is 3,334, 3,333, 3,333.

    Raises:
        ValueError: a negative whole, or a count below 1.
    """
    return in_proportion(whole, [1] * count)


def taken(amount: int, weights: Sequence[int], most: Sequence[int]) -> list[int]:
    """What each of several gives so that `amount` comes together: in proportion to their weights, none more than its
    `most`; what one can't give is asked of the others.

    Raises:
        ValueError: a negative number, lists of unlike length, or `amount` is more than all together can give (of
            those with a weight above 0).
    """
    if len(weights) != len(most) or amount < 0 or any(each < 0 for each in (*weights, *most)):
        raise ValueError("amounts and weights are whole numbers from 0, one of each for each giver")
    if amount > sum(most[index] for index, weight in enumerate(weights) if weight):
        raise ValueError("more than all together can give")
    given = [0] * len(weights)
    left = amount
    while left:
        able = [index for index, weight in enumerate(weights) if weight and given[index] < most[index]]
        for index, part in zip(able, in_proportion(left, [weights[index] for index in able]), strict=True):
            part = min(part, most[index] - given[index])
            given[index] += part
            left -= part
    return given
