"""What the packages above do when the tree changes. They register here, so that nothing here imports them.

Registered once, in an `AppConfig.ready`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from budgets.models import BudgetNode, Person

tree_changed: list[Callable[[Collection[int]], None]] = []
"""Called after the commit of a change of tree or shares, with the ids of the clusters that it concerns."""

has_past: list[Callable[[BudgetNode], bool]] = []
"""Asked, inside the transaction, whether something was ever submitted to this leaf."""

past_moves: list[Callable[[BudgetNode, BudgetNode, Person | None], None]] = []
"""Called, inside the transaction, to move all that is of a leaf (first) to its new closed child (second)."""

submits_at: list[Callable[[Collection[int]], Iterable[tuple[int, Sequence[int]]]]] = []
"""Asked for the paths of the leaves at which these people (ids) submit workloads, each with the person: they have a
part in all that is on them."""

person_disabled: list[Callable[[Person], None]] = []
"""Called, inside the transaction, when somebody loses the right to sign in, to end what else they hold (tokens)."""
