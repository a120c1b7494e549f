"""What is said of classes of GPUs in sentences, with the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from .classes import free_high_end_milli, is_reserve_kept_from, suits
from .cluster import NodeState
from .snapshot import Snapshot
from .values import Workload


def of_class(names: Iterable[str]) -> str:
    """Classes each of which will do, as a sentence has them: "T4/V100"."""
    return "/".join(sorted(names))


class ClassRoom(NamedTuple):
    """What nodes of the classes that a workload names have, in thousandths: the fit ones in all, and free."""

    fit_milli: int
    free_milli: int


def room_of(snapshot: Snapshot, workload: Workload) -> ClassRoom | None:
    """None for one that names no class."""
    if not workload.gpu_classes:
        return None
    nodes: Iterable[NodeState] = (node for node in snapshot.nodes.by_name.values() if suits(node, workload))
    fit = [node for node in nodes if node.indexed_milli is not None]
    return ClassRoom(sum(node.capacity_milli for node in fit), sum(node.indexed_milli or 0 for node in fit))


class Reserve(NamedTuple):
    """What of high-end devices is free, and what of it is kept for work that needs them, in thousandths."""

    free_milli: int
    kept_milli: int


def reserve_against(snapshot: Snapshot, workload: Workload) -> Reserve | None:
    """What is kept free that a workload could run on otherwise; None where nothing is."""
    classes = snapshot.classes
    if classes is None or not is_reserve_kept_from(snapshot, workload):
        return None
    if workload.gpu_classes and classes.high_end.isdisjoint(workload.gpu_classes):
        return None
    free_milli = free_high_end_milli(snapshot)
    return Reserve(free_milli, classes.reserve_milli) if free_milli else None


def numbers_of(room: ClassRoom | None, reserve: Reserve | None, workload: Workload) -> dict[str, Any]:
    """The same as JSON has it."""
    numbers: dict[str, Any] = {}
    if room is not None:
        numbers |= {
            "gpu_classes": list(workload.gpu_classes),
            "class_milli": room.fit_milli,
            "class_free_milli": room.free_milli,
        }
    if reserve is not None:
        numbers |= {"high_end_free_milli": reserve.free_milli, "high_end_reserve_milli": reserve.kept_milli}
    return numbers
