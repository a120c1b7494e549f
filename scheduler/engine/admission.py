"""The rules at the door (semantics.md sections 1, 8 and 9). One of the engine's three seams.

Asked once, when a workload is submitted, the simulator and the portal's submission ask the same function; and in every
pass, whether what was queued may still wait.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .class_words import of_class
from .host import is_anywhere
from .maxima import least_maximum, would_hold_milli
from .policy import Policy
from .reasons import Code
from .snapshot import Snapshot
from .values import DEVICE_MILLI, Reason, Workload


def refusal(
    *,
    policy: Policy,
    size_milli: int,
    min_runtime_s: int,
    is_entitled: bool,
    is_closed: bool,
    room_milli: int,
    leaf_name: str,
    maximum: tuple[str, int] | None = None,
    node_milli: int = 0,
    has_host_room: bool = True,
    gpu_classes: Collection[str] = (),
    known_classes: Collection[str] = (),
) -> Reason | None:
    """Why a workload may not be queued as it is, or None.

    Args:
        policy: the cluster's knobs.
        size_milli, min_runtime_s: what is asked for; 0 s is unallocated.
        is_entitled: whether the leaf's entitlement is above 0.
        is_closed: whether the leaf, or a node above it, takes no workloads any more.
        room_milli: the capacity of the cluster, fit or not; of the one node, for a pinned workload.
        leaf_name: what people call the leaf.
        maximum: what people call the budget node at or above the leaf that may hold least, and how much it may, in
            thousandths; None where none is bound.
        node_milli: what the largest node has, for `maximum`: a larger gang holds whole nodes.
        has_host_room: whether there are nodes with the class, the cores and the memory that it asks for.
        gpu_classes: those that it can run on; none is all.
        known_classes: those of the cluster's nodes.
    """
    numbers: dict[str, Any] = {"size_milli": size_milli, "min_runtime_s": min_runtime_s}
    if is_closed:
        return Reason(Code.CLOSED, f"Refused: {leaf_name} is closed. Submit it elsewhere.", numbers)
    if size_milli > room_milli:
        text = "Refused: it asks for more than there is."
        return Reason(Code.TOO_LARGE, text, {**numbers, "room_milli": room_milli})
    if gpu_classes:
        numbers["gpu_classes"] = sorted(gpu_classes)
    if unknown := sorted(set(gpu_classes).difference(known_classes)):
        known = f"known: {', '.join(sorted(known_classes))}" if known_classes else "no node says its class"
        text = f"Refused: no node is of class {unknown[0]}; {known}."
        return Reason(Code.UNKNOWN_CLASS, text, {**numbers, "known_classes": sorted(known_classes)})
    if not has_host_room:
        text = "Refused: no node has the cores and the memory that it asks for."
        if gpu_classes:
            text = f"Refused: no node of class {of_class(gpu_classes)} has all that it asks for."
        return Reason(Code.TOO_LARGE, text, numbers)
    if maximum is not None and (held_milli := would_hold_milli(size_milli, node_milli)) > maximum[1]:
        most, held = (f"{milli / DEVICE_MILLI:,.3f}".rstrip("0").rstrip(".") for milli in (maximum[1], held_milli))
        text = f"Refused: the maximum of {maximum[0]} is {most}, and it would hold {held}."
        return Reason(Code.TOO_LARGE, text, {**numbers, "maximum_milli": maximum[1], "held_milli": held_milli})
    if not min_runtime_s:
        return None
    if not is_entitled:
        return Reason(Code.NO_ENTITLEMENT, "Refused: no allocation to charge; resubmit with min_runtime 0.", numbers)
    if min_runtime_s > policy.min_runtime_max_s:
        text = f"Refused: a contract of {min_runtime_s:,} s is longer than {policy.min_runtime_max_s:,} s, the longest."
        return Reason(Code.CONTRACT_TOO_LONG, text, {**numbers, "max_s": policy.min_runtime_max_s})
    if min_runtime_s < policy.min_runtime_min_s:
        text = (
            f"Refused: a contract of {min_runtime_s:,} s is shorter than {policy.min_runtime_min_s:,} s, the shortest."
        )
        return Reason(Code.CONTRACT_TOO_SHORT, text, {**numbers, "min_s": policy.min_runtime_min_s})
    return None


def reason_to_hold(snapshot: Snapshot, workload: Workload) -> Code | None:
    """Why a workload that was queued may wait no longer (section 8), or None."""
    leaf = snapshot.leaf(workload.leaf)
    if leaf.is_closed:
        return Code.CLOSED
    if workload.min_runtime_s and not leaf.is_entitled:
        return Code.NO_ENTITLEMENT
    return None


def refusal_in(
    snapshot: Snapshot,
    policy: Policy,
    *,
    leaf: str,
    size_milli: int,
    min_runtime_s: int,
    node: str | None,
    cpu_milli: int = 0,
    memory_mib: int = 0,
    gpu_classes: tuple[str, ...] = (),
) -> Reason | None:
    """The same, with what the snapshot knows about leaf and nodes."""
    budget = snapshot.leaf(leaf)
    nodes = snapshot.nodes
    maximum = least_maximum(budget)
    has_host_room = True
    if cpu_milli or memory_mib or gpu_classes:
        asked = Workload(
            id="",
            leaf=leaf,
            size_milli=size_milli,
            min_runtime_s=min_runtime_s,
            submitted_s=snapshot.now_s,
            node=node,
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
            gpu_classes=gpu_classes,
        )
        has_host_room = is_anywhere(snapshot, asked)
    return refusal(
        policy=policy,
        size_milli=size_milli,
        min_runtime_s=min_runtime_s,
        is_entitled=budget.is_entitled,
        is_closed=budget.is_closed,
        room_milli=nodes.total_milli if node is None else nodes.by_name[node].capacity_milli,
        leaf_name=snapshot.names.get(leaf, leaf),
        maximum=None if maximum is None else (snapshot.names.get(maximum[0], maximum[0]), maximum[1]),
        node_milli=nodes.largest_milli,
        has_host_room=has_host_room,
        gpu_classes=gpu_classes,
        known_classes={each.gpu_class for each in nodes.by_name.values()} - {""} if gpu_classes else (),
    )
