"""How long the comparisons of rule (b) of section 4 come out as they do, which are all between siblings (tree.py)."""

from __future__ import annotations

from .snapshot import Snapshot
from .tree import Level


def comparisons(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """The ranks of all siblings that matter to what waits with a contract, by their parent.

    While these, and everything else, stay, no pass differs: between two events time moves only figures, and figures
    count only by how siblings compare (without a swap margin).
    """
    found = {}
    for name, level in _levels(snapshot).items():
        level.bring_to(snapshot.now_s)
        found[name] = level.ranks
    return found


def stay_until_s(snapshot: Snapshot) -> int:
    """The last instant up to which `comparisons` stay as they are, unless something happens."""
    return min(level.until_s(snapshot.now_s) for level in _levels(snapshot).values())


def _levels(snapshot: Snapshot) -> dict[str, Level]:
    return {
        node.parent.id: node.account.level
        for leaf_id, queue in snapshot.queues.items()
        if queue.funded
        for node in snapshot.tree.nodes[leaf_id].path
        if node.parent is not None
    }
