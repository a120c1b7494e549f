"""What an order among siblings is: which child of a budget node goes first (semantics.md section 3, rules 2 and 4).

Contracts stand above every such order: it says who is next, and between whom rule (b) of section 4 compares, and cuts
nobody's contract short. Lower keys go first; keys of siblings compare exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

from ..values import Workload


class Books(Protocol):
    """What an order may know of a budget node's subtree (tree.py, `Account`)."""

    @property
    def held(self) -> Sequence[Sequence[int]]:
        """What is held at this instant, by kind, as `values.Resources` has it."""

    @property
    def asked_milli(self) -> int:
        """What its funded workloads wait for."""

    def served(self, now_s: int) -> int:
        """Used and committed."""

    def served_uncharged(self, now_s: int) -> int:
        """Used uncharged."""


class Sibling(Protocol):
    """What an order may know of a budget node (tree.py, `TreeNode`)."""

    @property
    def account(self) -> Books:
        """Its figures."""

    @property
    def weight(self) -> int:
        """What turns amounts of siblings into integers that compare as amount / portion do; 0 without a portion."""

    @property
    def shares(self) -> int:
        """Its shares."""

    @property
    def factor_milli(self) -> int:
        """What its shares count times, in thousandths."""

    @property
    def minimum_milli(self) -> int:
        """What it should hold before others go on."""

    @property
    def maximum_milli(self) -> int | None:
        """What it may hold."""

    @property
    def entitlement(self) -> Fraction:
        """Its part of the cluster."""


class TreeOrder(Protocol):
    """An order among siblings.

    Attributes:
        by_holdings: whether it goes by what is held at this instant, and not by what was used.
        ahead, ahead_many: how a sentence goes on that says why one, or several, go before another: "Vision ...".
        took: how it says the same of two sides: "Vision ... Robotics".
    """

    by_holdings: bool
    ahead: str
    ahead_many: str
    took: str

    def portion(self, node: Sibling) -> int:
        """What is divided by: its shares, or what stands for them. Only siblings compare."""

    def funded_key(self, node: Sibling, now_s: int) -> Any:
        """Where a sibling stands among those with funded demand."""

    def funded_key_with(self, node: Sibling, now_s: int, workload: Workload, margin: Fraction) -> Any:
        """The same if so many times what a workload would add to it counted already."""

    def unallocated_key(self, node: Sibling, now_s: int) -> Any:
        """Where it stands among those with unallocated demand."""

    def had(self, node: Sibling, now_s: int) -> int:
        """What it has had: divided by its entitlement, nodes of different levels compare."""

    def uncharged(self, node: Sibling, now_s: int) -> Any:
        """What it has had uncharged."""

    def numbers(self, node: Sibling) -> Mapping[str, Any]:
        """The numbers behind its key that are no part of every order's (`values.LevelFigures`), as JSON has them."""


class Served:
    """Used and committed by shares: in full inside the lookback, or decayed (half_life.py)."""

    by_holdings = False
    ahead = "has had less of its share"
    ahead_many = "have had less of their share"
    took = "had been served less of its share than"

    def portion(self, node: Sibling) -> int:
        """Its shares."""
        return node.shares

    def funded_key(self, node: Sibling, now_s: int) -> int:
        """Used and committed by shares."""
        return node.account.served(now_s) * node.weight

    def funded_key_with(self, node: Sibling, now_s: int, workload: Workload, margin: Fraction) -> Fraction:
        """With so many times the workload's own contract."""
        return (node.account.served(now_s) + margin * workload.size_milli * workload.min_runtime_s) * node.weight

    def unallocated_key(self, node: Sibling, now_s: int) -> int:
        """Used uncharged by shares."""
        return node.account.served_uncharged(now_s) * node.weight

    def had(self, node: Sibling, now_s: int) -> int:
        """Used and committed."""
        return node.account.served(now_s)

    def uncharged(self, node: Sibling, now_s: int) -> int:
        """Used uncharged."""
        return node.account.served_uncharged(now_s)

    def numbers(self, node: Sibling) -> Mapping[str, Any]:
        """None beside those that every order shows."""
        return {}


SERVED = Served()
