"""Whether nothing has moved since a pass that had nothing to decide and nothing to say: then the next has neither.

Between such passes mostly time alone goes by: unallocated work begins, a contract that mattered to nobody ends, the
grid of passes ticks on. What a pass rests on beside time is counted where it changes, so that one look tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .explain import Explains
from .policy import Policy
from .queues import Group
from .quiet import has_to_act, may_start_unallocated
from .reasons import Code
from .snapshot import Snapshot
from .standing import codes_of_sizes, comparisons
from .tree import Level
from .windows import FOR_EVER_S


class Still(NamedTuple):
    """The state in which a pass found nothing to do.

    Attributes:
        policy: by which it decided.
        explains: and what it said.
        moves: how often nodes, and what waits or was told, had changed.
        edits: how often budgets had: what is closed, and shares and cells.
        compared: how siblings compared; figures count by nothing else.
        until_s: the instant at which time alone gives the next pass something to do, as a promise is due.
    """

    policy: Policy
    explains: Explains
    moves: tuple[int, int]
    edits: int
    compared: list[tuple[Level, int]]
    until_s: int


def note_still(snapshot: Snapshot, policy: Policy, explains: Explains, compared: list[tuple[Level, int]]) -> None:
    """A pass found nothing to do, and all who wait know why if they are to; siblings compared so (`comparisons`)."""
    until_s = min([promise.at_s for promise in snapshot.reservations.values()], default=FOR_EVER_S)
    snapshot.still = Still(policy, explains, _moves(snapshot), snapshot.tree.edits, compared, until_s)


def is_still(snapshot: Snapshot, policy: Policy, explains: Explains) -> bool:
    """Whether it is as it was when that was noted last, so that a pass would find nothing to do again."""
    still: Still | None = snapshot.still
    return (
        still is not None
        and still.moves == _moves(snapshot)
        and snapshot.now_s < still.until_s
        and still.policy is policy
        and still.explains is explains
        and still.edits == snapshot.tree.edits
        and still.compared == comparisons(snapshot)
    )


def is_idle(snapshot: Snapshot, policy: Policy, explains: Explains) -> bool:
    """Whether a pass would plainly find nothing to do and nothing to say, as nothing waits that could be placed.

    Who has a claim waits for victims to leave, and what is unallocated for room. So it often is where contracts find
    their devices at once.
    """
    if snapshot.stirred.funded or snapshot.reservations or snapshot.held:
        return False
    if policy.swap_margin or snapshot.tree.has_maxima or snapshot.nodes.have_windows:
        return False
    if has_to_act(snapshot) or may_start_unallocated(snapshot):
        return False
    if explains is Explains.NOTHING:
        return True
    codes = codes_of_sizes(snapshot)
    return codes == snapshot.size_codes and all(_is_told(group, codes) for group in snapshot.stirred.unallocated)


def _is_told(group: Group, codes: Mapping[int, Code]) -> bool:
    """Whether all of an unallocated group know why they wait, which follows from its size."""
    return not group.is_particular and group.number_told(codes[group.size_milli]) == len(group.members)


def _moves(snapshot: Snapshot) -> tuple[int, int]:
    return len(snapshot.nodes.changes), snapshot.stirred.moves
