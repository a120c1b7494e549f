"""Whether nothing has moved since a pass that had nothing to decide and nothing to say: then the next has neither.

Between such passes mostly time alone goes by: unallocated work begins, a contract that mattered to nobody ends, the
grid of passes ticks on. What a pass rests on beside time is counted where it changes, so that one look tells.
"""

from __future__ import annotations

from typing import NamedTuple

from .policy import Policy
from .snapshot import Snapshot
from .standing import comparisons
from .tree import Level
from .windows import FOR_EVER_S


class Still(NamedTuple):
    """The state in which a pass found nothing to do.

    Attributes:
        policy: by which it decided.
        moves: how often nodes, and what waits or was told, had changed.
        budgets: the leaves that are closed or entitled to nothing, and how often cells had changed.
        compared: how siblings compared; figures count by nothing else.
        until_s: the instant at which time alone gives the next pass something to do, as a promise is due.
    """

    policy: Policy
    moves: tuple[int, int]
    budgets: tuple[frozenset[str], int]
    compared: list[tuple[Level, int]]
    until_s: int


def note_still(snapshot: Snapshot, policy: Policy, compared: list[tuple[Level, int]]) -> None:
    """A pass found nothing to do, and all who wait know why, as siblings compared then (`comparisons`)."""
    until_s = min([promise.at_s for promise in snapshot.reservations.values()], default=FOR_EVER_S)
    snapshot.still = Still(policy, _moves(snapshot), _budgets(snapshot), compared, until_s)


def is_still(snapshot: Snapshot, policy: Policy) -> bool:
    """Whether it is as it was when that was noted last, so that a pass would find nothing to do again."""
    still: Still | None = snapshot.still
    return (
        still is not None
        and still.moves == _moves(snapshot)
        and snapshot.now_s < still.until_s
        and still.policy is policy
        and still.budgets == _budgets(snapshot)
        and still.compared == comparisons(snapshot)
    )


def _moves(snapshot: Snapshot) -> tuple[int, int]:
    return len(snapshot.nodes.changes), snapshot.stirred.moves


def _budgets(snapshot: Snapshot) -> tuple[frozenset[str], int]:
    return snapshot.tree.bare_leaves, snapshot.tree.grants
