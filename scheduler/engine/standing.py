"""How long the comparisons of rule (b) of section 4 come out as they do, which are all between siblings (tree.py)."""

from __future__ import annotations

from .snapshot import Snapshot
from .tree import Level


def comparisons(snapshot: Snapshot) -> list[tuple[Level, int]]:
    """The siblings that matter to what waits with a contract in entitled leaves, with the version of their ranks.

    While these, and everything else, stay, no pass differs: between two events time moves only figures, and figures
    count only by how siblings compare (without a swap margin).
    """
    now_s = snapshot.now_s
    return [(level, level.bring_to(now_s)) for level in snapshot.tree.asked_levels()]
