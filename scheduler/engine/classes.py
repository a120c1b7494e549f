"""Which class of GPUs a workload gets (policies/classes.py), under everything else that placement keeps.

A class that a workload names is hard: no other node suits it, whether devices are free, have to be left first, or are
promised. The order of classes only says what is tried first among free devices; it changes nobody's turn, and nobody is
stopped for a better class. The reserve keeps *free* high-end devices from low work; what a promise that is due holds,
and what is taken over from others by the rules of section 4, it does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from .cluster import Nodes, NodeState
from .policies.classes import Classes, Tier
from .policy import Policy
from .snapshot import Snapshot
from .values import DEVICE_MILLI, Workload


def classes_of(policy: Policy, nodes: Nodes) -> Classes | None:
    """How a cluster's policy ranks the classes of its nodes; None where that says nothing about any of them."""
    class_of = {node.name: node.gpu_class for node in nodes.by_name.values()}
    if set(policy.class_order).isdisjoint(class_of.values()):
        return None
    return Classes(policy.class_order, policy.high_end_classes, policy.high_end_reserve * DEVICE_MILLI, class_of)


def suits(node: NodeState, workload: Workload) -> bool:
    """Whether a node is of a class that the workload can run on."""
    return not workload.gpu_classes or node.gpu_class in workload.gpu_classes


def tiers_for(snapshot: Snapshot, workload: Workload, *, is_whole: bool) -> Sequence[Tier | None]:
    """The classes whose free devices a workload tries, one after the other; None is all of them at once.

    A gang of whole nodes is kept to one class where that is enough for it: the slowest device sets its pace.
    """
    if snapshot.classes is None:
        return (None,)
    tiers = snapshot.classes.tiers(is_high=workload.is_high)
    if len(tiers) == 1:
        return (None,)
    return (*tiers, None) if is_whole else tiers


def rank_of(snapshot: Snapshot, node: NodeState, workload: Workload) -> tuple[int, ...]:
    """How late a workload tries a node's class; nothing where classes are not ranked."""
    if snapshot.classes is None:
        return ()
    return (snapshot.classes.rank(node.gpu_class, is_high=workload.is_high),)


def evenly(snapshot: Snapshot, names: Sequence[str]) -> Sequence[str]:
    """Nodes that are as good as each other, by name: the one first of which least is allocated (load balancing)."""
    if snapshot.classes is None or len(names) < 2:
        return names
    by_name = snapshot.nodes.by_name
    return sorted(names, key=lambda name: (allocation_rate(by_name[name]), name))


def allocation_rate(node: NodeState) -> Fraction:
    """How much of a node is allocated, from 0 to 1: the mean over devices, cores and memory, of those that it says."""
    rates = [Fraction(node.held_milli + node.locked_milli, node.capacity_milli)]
    if node.cpu_milli:
        rates.append(Fraction(sum(run.cpu_milli for run in node.runs.values()), node.cpu_milli))
    if node.memory_mib:
        rates.append(Fraction(sum(run.memory_mib for run in node.runs.values()), node.memory_mib))
    return sum(rates, Fraction(0)) / len(rates)


# --- the reserve ------------------------------------------------------------------------------------------------------


def is_reserve_kept_from(snapshot: Snapshot, workload: Workload) -> bool:
    """Whether the reserve bounds where a workload may go."""
    return snapshot.classes is not None and snapshot.classes.reserve_milli > 0 and not workload.is_high


def free_high_end_milli(snapshot: Snapshot) -> int:
    """Whole devices of high-end classes on which something could start now."""
    classes, nodes = snapshot.classes, snapshot.nodes
    if classes is None:
        return 0
    if classes.free[1] != len(nodes.changes):
        high_end = (nodes.by_name[name] for name in classes.nodes)
        free_milli = sum(node.whole_free_milli() for node in high_end if node.indexed_milli is not None)
        classes.free = free_milli, len(nodes.changes)
    return classes.free[0]


def leaves_reserve(
    snapshot: Snapshot, workload: Workload, nodes: Iterable[NodeState], each_milli: int | None = None
) -> bool:
    """Whether the reserve is still free if a workload takes what is free of these nodes, as far as it needs it.

    Where it is in parts, it takes `each_milli` of each. Always so where it takes no free high-end device, and for high
    work and the holder of a promise that is due.
    """
    classes = snapshot.classes
    if classes is None or not is_reserve_kept_from(snapshot, workload):
        return True
    most_milli = each_milli or workload.size_milli
    taken_milli = sum(_taken_milli(node, most_milli) for node in nodes if node.gpu_class in classes.high_end)
    if not taken_milli or free_high_end_milli(snapshot) - taken_milli >= classes.reserve_milli:
        return True
    promise = snapshot.reservations.get(workload.id)
    return promise is not None and promise.at_s <= snapshot.now_s


def _taken_milli(node: NodeState, size_milli: int) -> int:
    """What of a node's free whole devices so much would begin."""
    if size_milli < DEVICE_MILLI and any(
        sum(run.size_milli for run in runs) + size_milli <= DEVICE_MILLI for runs in node.shared.values()
    ):
        return 0
    return min(node.whole_free_milli(), -(-size_milli // DEVICE_MILLI) * DEVICE_MILLI)


def without_reserved(snapshot: Snapshot, nodes: Iterable[NodeState]) -> set[str]:
    """The names of those nodes that have no free high-end device."""
    classes = snapshot.classes
    high_end = frozenset[str]() if classes is None else classes.high_end
    return {node.name for node in nodes if node.gpu_class not in high_end or not node.whole_free_milli()}
