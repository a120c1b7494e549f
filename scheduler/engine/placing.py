"""Where a gang may go (semantics.md section 6). One of the engine's three seams.

Up to one node's worth goes on one node, best fit; more means whole nodes, in one rack if one can hold them, else over
as few as possible; inside racks close together on the network (domains.py). Maintenance windows and promises to others
bound further what a workload may hold on a node. Where a policy relaxes by wait (locality.py), a gang is bound to one
rack at first, and at last may be in equal parts on nodes that it shares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from typing import NamedTuple

from .classes import evenly, leaves_reserve, rank_of, tiers_for
from .cluster import HeldRun, NodeState
from .compatible import CANDIDATES, most_compatible
from .domains import closest
from .host import fits_now, is_bound, keeps_promise
from .policies.classes import Tier
from .policies.locality import ONE_RACK, TWICE, Part, parts
from .private import keeps_from
from .snapshot import Snapshot
from .values import DEVICE_MILLI, Claim, Packing, Reservation, Workload


class Candidate(NamedTuple):
    """A whole node that a gang could have; lower `cost` first, then fewer racks, then lower `finer`, then name."""

    cost: tuple[int, ...]
    finer: tuple[object, ...]
    node: NodeState


def is_whole_nodes(snapshot: Snapshot, size_milli: int) -> bool:
    """Whether a gang of that size is larger than any node, and so takes whole nodes."""
    return size_milli > snapshot.nodes.largest_milli


def allowance_milli(
    snapshot: Snapshot, node: NodeState, workload: Workload, starts_s: int, without: Collection[str] = ()
) -> int:
    """The most that a workload may hold on a node if it starts then, apart from what is free.

    On a private cell of others it may have nothing (private.py). Its contract may not reach into a maintenance window,
    and, beyond the instant of a promise to somebody else, it
    may use only what that promise leaves over (section 5). Runs in `without` are thought away.
    """
    if not workload.min_runtime_s:
        return node.capacity_milli
    if keeps_from(snapshot, node, workload):
        return 0
    if not (node.windows or node.reservations):
        return node.capacity_milli
    ends_s = starts_s + workload.min_runtime_s
    if meets_window(node, starts_s, ends_s):
        return 0
    allowed_milli = node.capacity_milli
    others = [each for each in node.reservations if each.workload != workload.id]
    for promise in others:
        if promise.at_s < ends_s:
            due_milli = sum(each.holdings[node.name] for each in others if each.at_s <= promise.at_s)
            stays_milli = _outlasting_milli(snapshot, node, promise, without)
            if is_bound(node, workload):
                staying = _outlasting(snapshot, node, promise, without)
                if not keeps_promise(snapshot, node, workload, promise, staying):
                    return 0
            allowed_milli = min(allowed_milli, node.capacity_milli - due_milli - stays_milli)
    return max(0, allowed_milli)


def meets_window(node: NodeState, starts_s: int, ends_s: int) -> bool:
    """Whether a contract [starts_s, ends_s) would reach into a maintenance window of the node."""
    return any(from_s < ends_s and starts_s < until_s for from_s, until_s in node.windows)


def _outlasting_milli(snapshot: Snapshot, node: NodeState, promise: Reservation, without: Collection[str]) -> int:
    """What is held on a node by runs and plans that the promise's holder cannot count on at its instant."""
    runs_milli = sum(
        run.holdings[node.name]
        for run in node.runs.values()
        if run.id not in without and run.leave_by_s is None and not yields_to(run, promise)
    )
    return runs_milli + sum(
        claim.holdings[node.name] for claim in node.claims if not _claim_yields(snapshot, claim, promise)
    )


def _outlasting(snapshot: Snapshot, node: NodeState, promise: Reservation, without: Collection[str]) -> set[str]:
    """These runs, and the workloads of these plans."""
    staying = {
        run.id
        for run in node.runs.values()
        if run.id not in without and run.leave_by_s is None and not yields_to(run, promise)
    }
    return staying | {claim.workload for claim in node.claims if not _claim_yields(snapshot, claim, promise)}


def yields_to(run: HeldRun, promise: Reservation) -> bool:
    """Whether a run on a promised node will be the holder's to take at the promised instant."""
    if not run.funded or run.id in promise.counts_on:
        return True
    ends_s = run.contract_end_s if run.contract_end_s is not None else run.started_s + run.min_runtime_s
    return run.started_s >= promise.made_s and ends_s <= promise.at_s


def _claim_yields(snapshot: Snapshot, claim: Claim, promise: Reservation) -> bool:
    workload = snapshot.queued[claim.workload]
    last_exit_s = max(
        (run.leave_by_s or claim.made_s for name in claim.waits_for if (run := snapshot.runs.get(name))),
        default=claim.made_s,
    )
    return claim.made_s >= promise.made_s and last_exit_s + workload.min_runtime_s <= promise.at_s


def place_on_free(
    snapshot: Snapshot, workload: Workload, spared: Collection[str] = frozenset()
) -> Mapping[str, int] | None:
    """Devices that are free now, for the whole gang; None if there are none such.

    It is spread over nodes only where it may be, and only if it fits nowhere else. It stays off the nodes that are
    `spared` (sparing.py).
    """
    if workload.size_milli > snapshot.nodes.free_milli:
        return None
    together = _place_together(snapshot, workload, spared)
    if together is not None or spared or workload.spread < TWICE or _is_due(snapshot, workload):
        return together
    return _place_in_parts(snapshot, workload)


def is_bound_to_rack(snapshot: Snapshot, workload: Workload) -> bool:
    """Whether it is a gang of several nodes that looks in one rack alone; what was promised to it is its own anyway."""
    return workload.spread == ONE_RACK and not _is_due(snapshot, workload)


def _is_due(snapshot: Snapshot, workload: Workload) -> bool:
    """Whether it waits for nothing but whole nodes that were promised to it for an instant that has come."""
    promise = snapshot.reservations.get(workload.id)
    return promise is not None and promise.at_s <= snapshot.now_s


def _place_together(snapshot: Snapshot, workload: Workload, spared: Collection[str]) -> Mapping[str, int] | None:
    """The same on one node, or, if it is larger, on whole nodes."""
    size_milli = workload.size_milli
    if workload.node is not None:
        node = snapshot.nodes.by_name.get(workload.node)
        return {node.name: size_milli} if node is not None and _fits_free(snapshot, node, workload) else None
    is_whole = is_whole_nodes(snapshot, size_milli)
    for tier in tiers_for(snapshot, workload, is_whole=is_whole):
        if is_whole:
            found = _place_on_empty_nodes(snapshot, workload, tier, spared)
        else:
            found = _place_on_one_node(snapshot, workload, tier, spared)
        if found is not None:
            return found
    return None


def _place_on_one_node(
    snapshot: Snapshot, workload: Workload, tier: Tier | None, spared: Collection[str]
) -> Mapping[str, int] | None:
    size_milli = workload.size_milli
    if size_milli < DEVICE_MILLI and (beside := _beside_others(snapshot, workload, tier, spared)) is not None:
        return {beside.name: size_milli}
    for name in _with_room(snapshot, size_milli):
        if name in spared:
            continue
        node = snapshot.nodes.by_name[name]
        if (tier is None or node.gpu_class in tier) and _fits_free(snapshot, node, workload):
            return {name: size_milli}
    return None


def _with_room(snapshot: Snapshot, size_milli: int) -> Iterator[str]:
    """Nodes that have so much free, in the order in which they are tried."""
    by_free = snapshot.nodes.by_free
    enough = [free for free in by_free if free >= size_milli]
    if snapshot.packing is Packing.FIRST_FIT:
        yield from merge(*(by_free[free] for free in enough))
        return
    for free_milli in sorted(enough, reverse=snapshot.packing is Packing.WORST_FIT):
        yield from evenly(snapshot, by_free[free_milli])


def _beside_others(
    snapshot: Snapshot, workload: Workload, tier: Tier | None, spared: Collection[str]
) -> NodeState | None:
    """The node whose device, shared already, a fraction fills best; None if it needs a device of its own."""
    found: list[tuple[int, str]] = []
    for names in snapshot.nodes.by_free.values():
        for node in (snapshot.nodes.by_name[name] for name in names):
            if not node.shared or node.claims or node.name in spared:
                continue
            if tier is not None and node.gpu_class not in tier:
                continue
            if not _fits_free(snapshot, node, workload):
                continue
            for runs in node.shared.values():
                left_milli = DEVICE_MILLI - sum(run.size_milli for run in runs)
                if left_milli >= workload.size_milli:
                    found.append((left_milli, node.name))
    return snapshot.nodes.by_name[min(found)[1]] if found else None


def _fits_free(snapshot: Snapshot, node: NodeState, workload: Workload, part_milli: int | None = None) -> bool:
    """Whether a workload, or a part of it, may start on what is free on a node."""
    free_milli, need_milli = node.indexed_milli, workload.size_milli if part_milli is None else part_milli
    if free_milli is None or free_milli < need_milli:
        return False
    if node.shared and not node.fits(need_milli):
        return False
    if workload.asks_host and not fits_now(snapshot, node, workload):
        return False
    if not leaves_reserve(snapshot, workload, [node], part_milli):
        return False
    return allowance_milli(snapshot, node, workload, snapshot.now_s) >= need_milli


def _place_in_parts(snapshot: Snapshot, workload: Workload) -> Mapping[str, int] | None:
    """Equal parts on as few nodes as will do, which it may share with others; None if there are none such."""
    for part in parts(workload.spread, workload.size_milli, snapshot.nodes.largest_milli):
        nodes = _with_part(snapshot, workload, part)
        if len(nodes) < part.nodes:
            continue
        for tier in tiers_for(snapshot, workload, is_whole=True):
            suited = nodes if tier is None else [node for node in nodes if node.gpu_class in tier]
            if len(suited) >= part.nodes:
                chosen = closest(suited, part.nodes * part.milli, (), each_milli=part.milli)
                if leaves_reserve(snapshot, workload, chosen, part.milli):
                    return {node.name: part.milli for node in chosen}
    return None


def _with_part(snapshot: Snapshot, workload: Workload, part: Part) -> list[NodeState]:
    """Nodes with room for a part, the fullest first, as for one node; none where they are too few at a glance."""
    by_free, by_name = snapshot.nodes.by_free, snapshot.nodes.by_name
    enough = sorted(free_milli for free_milli in by_free if free_milli >= part.milli)
    if sum(len(by_free[free_milli]) for free_milli in enough) < part.nodes:
        return []
    return [
        node
        for free_milli in enough
        for name in evenly(snapshot, by_free[free_milli])
        if _fits_free(snapshot, node := by_name[name], workload, part.milli)
    ]


def _place_on_empty_nodes(
    snapshot: Snapshot, workload: Workload, tier: Tier | None, spared: Collection[str]
) -> Mapping[str, int] | None:
    nodes = snapshot.nodes
    empty = [nodes.by_name[name] for names in nodes.empty.values() for name in names if name not in spared]
    if tier is not None:
        empty = [node for node in empty if node.gpu_class in tier]
    if sum(node.capacity_milli for node in empty) < workload.size_milli:
        return None
    candidates = [
        Candidate(rank_of(snapshot, node, workload), (), node)
        for node in empty
        if fits_now(snapshot, node, workload)
        and allowance_milli(snapshot, node, workload, snapshot.now_s) >= node.capacity_milli
    ]
    placements: Iterable[list[NodeState] | None]
    placements = (choose_whole_nodes(candidates, workload.size_milli, turn) for turn in range(CANDIDATES))
    if is_bound_to_rack(snapshot, workload):
        placements = _in_one_rack(snapshot, placements, candidates, workload.size_milli)
    chosen = most_compatible(snapshot, workload, placements)
    if chosen is None or not leaves_reserve(snapshot, workload, chosen):
        return None
    return {node.name: node.capacity_milli for node in chosen}


def _in_one_rack(
    snapshot: Snapshot, placements: Iterable[list[NodeState] | None], candidates: Sequence[Candidate], size_milli: int
) -> Iterator[list[NodeState]]:
    """Those of some placements that are in one rack: the first is, where one can be, unless classes lead elsewhere."""
    is_any = False
    for nodes in placements:
        if nodes is None or (not is_any and len({node.rack for node in nodes}) > 1):
            break
        is_any = True
        yield nodes
    if not is_any and snapshot.classes is not None:
        for rack in by_rack(candidates):
            if (nodes := choose_whole_nodes(rack, size_milli)) is not None:
                yield nodes


def by_rack(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """The candidates of each rack, in the order of the racks' names."""
    racks: dict[str, list[Candidate]] = {}
    for each in candidates:
        racks.setdefault(each.node.rack, []).append(each)
    return [racks[name] for name in sorted(racks)]


def choose_whole_nodes(candidates: Iterable[Candidate], size_milli: int, turn: int = 0) -> list[NodeState] | None:
    """Whole nodes for a gang: least cost first, then as few racks as possible; None if they are not enough.

    The nodes of least cost that are enough are taken; racks, leaves, `finer` and names choose only among nodes of the
    highest cost taken, since the others are all needed. No node can be put back.
    With another `turn`, racks, rails and leaves that differ by their names alone are tried from a later name on.
    """
    ranked = sorted(candidates, key=lambda each: (each.cost, -each.node.capacity_milli, each.finer, each.node.name))
    last_cost = highest_cost(ranked, size_milli)
    if last_cost is None:
        return None
    chosen = [each.node for each in ranked if each.cost < last_cost]
    equals = [each.node for each in ranked if each.cost == last_cost]
    missing_milli = size_milli - sum(node.capacity_milli for node in chosen)
    chosen += closest(equals, missing_milli, chosen, turn)
    return _put_back(chosen, size_milli)


def highest_cost(ranked: Iterable[Candidate], size_milli: int) -> tuple[int, ...] | None:
    """What the last costs that is needed of nodes in the order of their costs; None if they are not enough."""
    missing_milli = size_milli
    for each in ranked:
        missing_milli -= each.node.capacity_milli
        if missing_milli <= 0:
            return each.cost
    return None


def _put_back(chosen: list[NodeState], size_milli: int) -> list[NodeState]:
    """Drop nodes that a gang does not need (nodes of several sizes), the most costly, which come last, first."""
    spare_milli = sum(node.capacity_milli for node in chosen) - size_milli
    for node in reversed(chosen.copy()):
        if node.capacity_milli <= spare_milli:
            chosen.remove(node)
            spare_milli -= node.capacity_milli
    return chosen
