"""Who has been served less than whom: every comparison of rule (b) of section 4 is one between siblings.

So a pass ranks the children of a node once.
"""

from __future__ import annotations

from .snapshot import Snapshot
from .tree import TreeNode

SERVED_MOST = 1 << 62
"""The rank of a side without shares."""


class Standings:
    """The ranks of siblings by what they have been served, on the figures of one pass."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Nothing was compared yet."""
        self._snapshot = snapshot
        self._ranks: dict[str, dict[str, int]] = {}
        self._sides: dict[str, tuple[frozenset[str], ...]] = {}  # by leaf

    def forget(self, leaf: TreeNode) -> None:
        """The figures of a leaf and of all above it have changed."""
        for node in leaf.path:
            assert node.parent is not None
            self._ranks.pop(node.parent.id, None)
        self._sides.clear()

    def ranks(self, parent: TreeNode) -> dict[str, int]:
        """Rank by child, from 0 for the least served; equals share one."""
        found = self._ranks.get(parent.id)
        if found is None:
            now_s = self._snapshot.now_s
            entitled = [child for child in parent.children if child.weight]
            served = sorted([(child.account.served(now_s) * child.weight, child.id) for child in entitled])
            found = {}
            rank, last = -1, None
            for amount, name in served:
                rank += amount != last
                last = amount
                found[name] = rank
            if len(found) < len(parent.children):
                found.update((child.id, SERVED_MOST) for child in parent.children if not child.weight)
            self._ranks[parent.id] = found
        return found

    def known(self) -> dict[str, dict[str, int]]:
        """All ranks asked for so far."""
        return self._ranks

    def beaten_sides(self, leaf: TreeNode) -> tuple[frozenset[str], ...]:
        """By level, the siblings of the leaf's path that have been served strictly more."""
        found = self._sides.get(leaf.id)
        if found is None:
            found = self._sides[leaf.id] = tuple([self._beaten_by(node) for node in leaf.path])
        return found

    def _beaten_by(self, node: TreeNode) -> frozenset[str]:
        """What was worked out for the same ranks before serves again: sides that are the same are one object then."""
        assert node.parent is not None
        ranks = self.ranks(node.parent)
        kept, beaten = self._snapshot.ranks.get(node.parent.id, (None, {}))
        if kept is not ranks and kept != ranks:
            beaten = {}
            self._snapshot.ranks[node.parent.id] = ranks, beaten
        if node.id not in beaten:
            own = ranks[node.id]
            beaten[node.id] = frozenset([name for name, rank in ranks.items() if rank > own])
        return beaten[node.id]


def comparisons(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """All ranks that matter to what waits with a contract. While they, and everything else, stay, no pass differs.

    Between two events time moves only figures, and figures count only by how siblings compare (without a swap margin).
    """
    standings = Standings(snapshot)
    for leaf_id, queue in snapshot.queues.items():
        if queue.funded:
            for node in snapshot.tree.nodes[leaf_id].path:
                assert node.parent is not None
                standings.ranks(node.parent)
    return standings.known()
