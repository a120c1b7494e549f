"""The part of a cluster that each budget node is entitled to."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from scheduler.engine import BudgetNode

UNASSIGNED = "~unassigned"
"""Ends the name of the child that stands for what its parent has not given to anybody."""


def entitlements(tree: Sequence[BudgetNode]) -> dict[str, Fraction]:
    """The part of the cluster that each budget node is entitled to; parents come before their children."""
    found: dict[str, Fraction] = {}
    for node in tree:
        part = Fraction(node.shares, node.whole) if node.whole else Fraction(0)
        found[node.id] = part if node.parent is None else found[node.parent] * part
    return found
