"""The rules at the door (semantics.md sections 1, 8 and 9). One of the engine's three seams.

Asked once, when a workload is submitted, the simulator and the portal's submission ask the same function; and in every
pass, whether what was queued may still wait.
"""

from __future__ import annotations

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
        has_host_room: whether there are nodes with the cores and the memory that it asks for.
    """
    numbers = {"size_milli": size_milli, "min_runtime_s": min_runtime_s}
    if is_closed:
        return Reason(Code.CLOSED, f"Refused: {leaf_name} is closed. Submit it elsewhere.", numbers)
    if size_milli > room_milli:
        text = "Refused: it asks for more than there is."
        return Reason(Code.TOO_LARGE, text, {**numbers, "room_milli": room_milli})
    if not has_host_room:
        text = "Refused: no node has the cores and the memory that it asks for."
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
    if workload.min_runtime_s and not snapshot.is_fundable(leaf):
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
) -> Reason | None:
    """The same, with what the snapshot knows about leaf and nodes."""
    budget = snapshot.leaf(leaf)
    nodes = snapshot.nodes
    maximum = least_maximum(budget)
    asked = Workload(
        "", leaf, size_milli, min_runtime_s, snapshot.now_s, node=node, cpu_milli=cpu_milli, memory_mib=memory_mib
    )
    return refusal(
        policy=policy,
        size_milli=size_milli,
        min_runtime_s=min_runtime_s,
        is_entitled=snapshot.is_fundable(budget),
        is_closed=budget.is_closed,
        room_milli=nodes.total_milli if node is None else nodes.by_name[node].capacity_milli,
        leaf_name=snapshot.names.get(leaf, leaf),
        maximum=None if maximum is None else (snapshot.names.get(maximum[0], maximum[0]), maximum[1]),
        node_milli=nodes.largest_milli,
        has_host_room=is_anywhere(snapshot, asked),
    )
