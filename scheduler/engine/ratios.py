"""Exact ranks of ratios of whole numbers, without making a fraction of each."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def ranks_from_largest(ratios: Mapping[Key, tuple[int, int]]) -> dict[Key, int]:
    """The rank of each of some ratios (amount, by how much), from 0 for the largest; equal ones share a rank."""
    # Python rounds the quotient of two whole numbers correctly, so that quotients are never the other way round, and
    # only where two are the same they may hide that the ratios are not.
    quotients = {key: amount / by for key, (amount, by) in ratios.items()}
    keys = sorted(quotients, key=quotients.__getitem__, reverse=True)
    alike = [(ratios[one], ratios[other]) for one, other in pairwise(keys) if quotients[one] == quotients[other]]
    if not all(_are_equal(one, other) for one, other in alike):
        keys = sorted(ratios, key=lambda key: Fraction(*ratios[key]), reverse=True)
    ranks: dict[Key, int] = {}
    rank = 0
    for place, key in enumerate(keys):
        rank += place > 0 and not _are_equal(ratios[keys[place - 1]], ratios[key])
        ranks[key] = rank
    return ranks


def _are_equal(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] * other[1] == other[0] * one[1]
