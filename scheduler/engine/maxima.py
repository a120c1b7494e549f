"""What budget nodes may hold at most (`BudgetNode.maximum_milli`), looked at before anything starts, level by level.

A funded start counts beside what funded runs, plans and promises to others hold below the node; an unallocated one
beside what unallocated runs hold there, too: so what is charged never waits for uncharged work of its own budget.
What holds its devices goes on when a maximum is lowered, and a promise that is due is kept.
"""

from __future__ import annotations

from typing import NamedTuple

from .snapshot import Snapshot
from .tree import TreeNode
from .values import FUNDED, UNALLOCATED, Workload


class Excess(NamedTuple):
    """A start would let `node` hold so much more than its maximum; it is the lowest for which that is so.

    `milli` is the most by which any node of the path would, `held_milli` what counts at `node` already.
    """

    node: TreeNode
    milli: int
    held_milli: int

    @property
    def maximum_milli(self) -> int:
        """What the node may hold."""
        assert self.node.maximum_milli is not None
        return self.node.maximum_milli


def excess(snapshot: Snapshot, workload: Workload, size_milli: int, own_promise_milli: int = 0) -> Excess | None:
    """By how much one more start would be too much; None where it is not.

    Args:
        snapshot: the state.
        workload: whose start.
        size_milli: what it would hold.
        own_promise_milli: what of the promises is its own.
    """
    if not snapshot.tree.has_maxima:
        return None
    found = None
    most_milli = 0
    for node in snapshot.tree.nodes[workload.leaf].path:
        if node.maximum_milli is None:
            continue
        account = node.account
        held_milli = account.held[FUNDED][0] + account.promised_milli - own_promise_milli
        if not workload.min_runtime_s:
            held_milli += account.held[UNALLOCATED][0]
        over_milli = held_milli + size_milli - node.maximum_milli
        if over_milli > 0:
            most_milli = max(most_milli, over_milli)
            found = Excess(node, most_milli, held_milli)
    return found


def would_hold_milli(size_milli: int, node_milli: int) -> int:
    """What one that asks for so much holds: whole nodes where it is larger than the largest (section 6)."""
    return size_milli if size_milli <= node_milli else -(-size_milli // node_milli) * node_milli


def excess_of(snapshot: Snapshot, workload: Workload, size_milli: int | None = None) -> Excess | None:
    """The same for a workload as it stands, with what was promised to it; for all that it would hold if not said."""
    if not snapshot.tree.has_maxima:
        return None
    promise = snapshot.reservations.get(workload.id)
    own_milli = 0
    if promise is not None:
        if promise.at_s <= snapshot.now_s:
            return None
        own_milli = sum(promise.holdings.values())
    if size_milli is None:
        size_milli = would_hold_milli(workload.size_milli, snapshot.nodes.largest_milli)
    return excess(snapshot, workload, size_milli, own_milli)


def least_maximum(leaf: TreeNode) -> tuple[str, int] | None:
    """The node at or above a leaf with the least maximum, and that; None where none has any."""
    bounded = [(node.maximum_milli, node.id) for node in leaf.path if node.maximum_milli is not None]
    if not bounded:
        return None
    maximum_milli, name = min(bounded)
    return name, maximum_milli
