"""What is the same for all who wait alike: how siblings compare, and why unallocated workloads wait."""

from __future__ import annotations

from .reasons import Code
from .snapshot import Snapshot
from .tree import Level


def comparisons(snapshot: Snapshot) -> list[tuple[Level, int]]:
    """The siblings that matter to what waits with a contract in entitled leaves, with the version of their ranks.

    Nobody's matter where nobody waits but for victims to leave. All comparisons of rule (b) of section 4 are between
    siblings (tree.py).
    While these, and everything else, stay, no pass differs: between two events time moves only figures, and figures
    count only by how siblings compare (without a swap margin).
    """
    now_s = snapshot.now_s
    if not snapshot.stirred.funded:
        return []
    return [(level, level.bring_to(now_s)) for level in snapshot.tree.asked_levels()]


def codes_of_sizes(snapshot: Snapshot) -> dict[int, Code]:
    """Why unallocated workloads of each size wait."""
    nodes = snapshot.nodes
    in_all_milli, on_one_milli = nodes.fit_milli
    codes: dict[int, Code] = {}
    for size_milli in snapshot.stirred.sizes:
        fit_milli = in_all_milli if size_milli > nodes.largest_milli else on_one_milli
        if size_milli > nodes.total_milli:
            codes[size_milli] = Code.TOO_LARGE
        elif size_milli > fit_milli:
            codes[size_milli] = Code.WAITING_NODES
        elif nodes.free_milli >= size_milli:
            codes[size_milli] = Code.WAITING_PLACEMENT
        else:
            codes[size_milli] = Code.WAITING_ORDER
    return codes
