"""How long the comparisons of rule (b) of section 4 come out as they do, which are all between siblings (tree.py)."""

from __future__ import annotations

from .snapshot import Snapshot
from .tree import FUNDED, Level


def comparisons(snapshot: Snapshot) -> list[tuple[Level, int]]:
    """The siblings that matter to what waits with a contract in entitled leaves, with the version of their ranks.

    While these, and everything else, stay, no pass differs: between two events time moves only figures, and figures
    count only by how siblings compare (without a swap margin).
    """
    now_s = snapshot.now_s
    asking = [snapshot.tree.root]
    found = []
    while asking:
        node = asking.pop()
        below = node.asking[FUNDED]
        if below:
            found.append((node.level, node.level.bring_to(now_s)))
            asking.extend(below.values())
    return found
