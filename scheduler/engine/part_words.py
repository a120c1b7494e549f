"""What is said of room for a part of one device, with the numbers behind it."""

from __future__ import annotations

from typing import Any, NamedTuple

from .classes import suits
from .cluster import NodeState
from .snapshot import Snapshot
from .values import DEVICE_MILLI, Workload


class Freest(NamedTuple):
    """The most that is free on one device, in thousandths, and on which node: of equals the first by name."""

    milli: int
    node: str


def freest_for(snapshot: Snapshot, workload: Workload) -> Freest | None:
    """Of the nodes that a part of a device may be on; None for whole devices, where there is enough, or nothing."""
    if workload.size_milli >= DEVICE_MILLI:
        return None
    found = [
        Freest(_most_milli(node), node.name)
        for node in snapshot.nodes.by_name.values()
        if node.indexed_milli and workload.node in (None, node.name) and suits(node, workload)
    ]
    most = min(found, key=lambda each: (-each.milli, each.node), default=None)
    return most if most is not None and 0 < most.milli < workload.size_milli else None


def _most_milli(node: NodeState) -> int:
    """The most that a part may have of one device of a node now; where a plan claims some of it, whole ones alone."""
    if node.whole_free_milli() >= DEVICE_MILLI:
        return DEVICE_MILLI
    if node.locked_milli or node.claims:
        return 0
    return max((DEVICE_MILLI - sum(run.size_milli for run in runs) for runs in node.shared.values()), default=0)


def numbers_of(freest: Freest | None) -> dict[str, Any]:
    """The same as JSON has it."""
    return {} if freest is None else {"freest_milli": freest.milli, "freest_node": freest.node}
