"""Processor cores, memory and the class of devices: what a workload asks for on each node bounds where it may go.

A node that does not say how many cores and how much memory it has is not bound by them; one that does not say its class
is of none that a workload could name. Devices are what is charged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from .classes import suits
from .cluster import HeldRun, NodeState
from .snapshot import Snapshot
from .values import Claim, Reservation, Workload


class Host(NamedTuple):
    """Thousandths of a core, and MiB."""

    cpu_milli: int
    memory_mib: int


def is_bound(node: NodeState, workload: Workload) -> bool:
    """Whether cores or memory decide about a workload on a node."""
    asks = workload.cpu_milli or workload.memory_mib
    return bool(asks) and (node.cpu_milli is not None or node.memory_mib is not None)


def is_large_enough(node: NodeState, workload: Workload) -> bool:
    """Whether the node is of a class that suits, with as many cores and as much memory, whoever holds them."""
    return suits(node, workload) and (not is_bound(node, workload) or _is_room(node, workload, ()))


def is_anywhere(snapshot: Snapshot, workload: Workload) -> bool:
    """Whether nodes of such a class, with as many cores and as much memory, have the devices, whoever holds them."""
    if not workload.asks_host:
        return True
    nodes, size_milli = snapshot.nodes, workload.size_milli
    if workload.node is not None:
        return is_large_enough(nodes.by_name[workload.node], workload)
    rooms = [node.capacity_milli for node in nodes.by_name.values() if is_large_enough(node, workload)]
    return (sum(rooms) if size_milli > nodes.largest_milli else max(rooms, default=0)) >= size_milli


def fits_now(snapshot: Snapshot, node: NodeState, workload: Workload, without: Collection[str] = ()) -> bool:
    """Whether enough is free, with the runs in `without` thought away.

    What plans of others keep is not, nor what the runs that they wait for still hold. A node of another class never is.
    """
    if not suits(node, workload):
        return False
    if not is_bound(node, workload):
        return True
    held = [_of_run(run) for run in node.runs.values() if run.id not in without]
    return _is_room(node, workload, [*held, *_kept(snapshot, node.claims, workload)])


def keeps_promise(
    snapshot: Snapshot, node: NodeState, workload: Workload, promise: Reservation, staying: Collection[str]
) -> bool:
    """Whether a workload that is there when a promise is due leaves enough for it, and for what was promised before.

    `staying` are the runs, and the workloads of plans, that the promise's holder cannot count on then.
    """
    held = [_of_run(run) for run in node.runs.values() if run.id in staying]
    claims = [claim for claim in node.claims if claim.workload in staying]
    due = [each for each in node.reservations if each.at_s <= promise.at_s]
    return _is_room(node, workload, [*held, *_kept(snapshot, claims, workload), *_kept(snapshot, due, workload)])


def certain_from_s(snapshot: Snapshot, node: NodeState, workload: Workload, leaves: Mapping[str, int]) -> int | None:
    """The first instant from which enough is certain; None if there is none.

    `leaves` says from when on runs count as gone, by id; what plans and promises of others keep is not certain.
    """
    now_s = snapshot.now_s
    if not is_bound(node, workload):
        return now_s
    kept = [*_kept(snapshot, node.claims, workload), *_kept(snapshot, node.reservations, workload)]
    for at_s in sorted({now_s, *(max(now_s, each) for each in leaves.values())}):
        held = [_of_run(run) for run in node.runs.values() if run.id not in leaves or leaves[run.id] > at_s]
        if _is_room(node, workload, [*held, *kept]):
            return at_s
    return None


def _is_room(node: NodeState, workload: Workload, held: Iterable[Host]) -> bool:
    """Whether the node has what is asked for beside what is held."""
    cpu_milli, memory_mib = workload.cpu_milli, workload.memory_mib
    for each in held:
        cpu_milli += each.cpu_milli
        memory_mib += each.memory_mib
    if node.cpu_milli is not None and workload.cpu_milli and cpu_milli > node.cpu_milli:
        return False
    return node.memory_mib is None or not workload.memory_mib or memory_mib <= node.memory_mib


def _of_run(run: HeldRun) -> Host:
    return Host(run.cpu_milli, run.memory_mib)


def _kept(snapshot: Snapshot, plans: Iterable[Claim | Reservation], workload: Workload) -> list[Host]:
    """What plans or promises of others keep on a node."""
    holders = [snapshot.queued[plan.workload] for plan in plans if plan.workload != workload.id]
    return [Host(each.cpu_milli, each.memory_mib) for each in holders]
