"""Private cells: whole nodes and racks that a budget node holds beside its share (HiveD, OSDI'20; policies.md 1).

A *tenant* is a budget node with cells; those of nodes below it count as its own, as the topmost node with cells on a
path is the tenant of all that is below. A node on which something may start is *clean* for a tenant if no contract,
plan or promise of anybody from outside its subtree is on it; a rack, if all its nodes are. Runs that were told to leave
are gone, and runs that are unallocated or whose contract is over may be told to.

**The invariant.** Cells are not bound to nodes but while they are used: as many of all tenants' cells at once as the
state allows are matched to disjoint clean nodes and racks (matching.py), racks first. Nothing that a pass decides makes
fewer of them matched: funded work may start, claim or be promised devices only off nodes that are matched to others, or
that are to become the cells of others that are missing. So whatever happened before,

- a tenant whose cells are all matched starts a gang of n whole nodes at once (when what is there has left) if funded
  work of its own is on at most (its cells, in nodes) - n of them: it never waits for funded work of others;
- in cells that are not in use others run only unallocated, or go on after their contracts;
- contracts, plans and promises of before a grant stand: the cells that are missing for them are matched when these are
  over, as nothing new of others starts there;
- where nodes are unfit, fewer cells are matched, and what is fit is kept for them;
- while tenants keep to their cells level by level (at most as many gangs that need a rack as they have racks, at most
  as many workloads of up to a node as they have nodes), a gang that needs a rack finds one of the tenant's on which
  nothing of its own is: small work goes to the smallest cell that holds it (sparing.py), as in buddy allocation.

A tenant takes over from funded runs of others in its cells whose contract is over, whatever the figures say
(`Code.PREEMPTED_CELL`, rule e). Unallocated work may be anywhere, and is told to leave when the cell is claimed. A
promise counts as its holder's occupation from when it is made, so that it can be kept, and binds even those nodes.

**Preemption is lazy**: no grant, no use of a cell and no other matching tells anybody to leave. A run is told only when
a workload of the tenant takes that very node, nothing that is free will do but what would break up a larger cell of its
own (sparing.py), and it costs least (preemption.py). What HiveD calls lazy preemption, an option to let such a run go
on as an opportunistic one where it still fits, has nothing to do here: whoever can be told to leave a cell runs
unallocated already, or beyond a contract, and runs do not move.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from .cluster import HeldRun, NodeState
from .grants import layout_of
from .matching import Matching, Standing, Whose, match
from .snapshot import Snapshot
from .values import CellCounts, Workload

NEVER_S = 1 << 62
"""When what others hold on a shared cluster will be over."""
NOBODY = Standing("")
"""A node on which nothing is."""
NOTHING = Matching({}, {}, {}, {}, frozenset())
"""What is matched where nobody has cells."""


class Kept:
    """What passes keep of one matching for the next: how nodes stand by their versions, and what is matched.

    `matchings` are by the node that was left out, for the log of changed nodes when it was `seen` long; `last` is the
    one before, with no node left out.
    """

    __slots__ = ("grants", "last", "layout", "matchings", "seen", "standings")

    def __init__(self, snapshot: Snapshot) -> None:
        """Nothing is matched yet."""
        self.grants = snapshot.tree.grants
        self.layout = layout_of(snapshot.nodes.by_name.values())
        self.seen = 0
        self.standings: dict[str, tuple[int, Standing]] = {}
        self.matchings: dict[str | None, Matching] = {}
        self.last: Matching | None = None

    def standing(self, snapshot: Snapshot, node: NodeState) -> Standing:
        """How a node stands."""
        version, found = self.standings.get(node.name, (-1, NOBODY))
        if version != node.version:
            counts = node.name in self.layout.nodes.get(node.rack, ())
            found = _standing(snapshot, node, counts=counts)
            self.standings[node.name] = node.version, found
        return found


def matching_of(snapshot: Snapshot, without: str | None = None) -> Matching:
    """What is matched to the cells of all tenants as things stand; `without` a node, where others do as well."""
    if not snapshot.tree.tenants:
        return NOTHING
    settle(snapshot)
    kept: Kept = snapshot.kept
    found = kept.matchings.get(without)
    if found is None:
        found = kept.matchings[without] = _match(snapshot, kept, without)
    return found


def standing_of(snapshot: Snapshot, node: NodeState) -> Standing:
    """How cells see a node that may be one."""
    settle(snapshot)
    kept: Kept = snapshot.kept
    return kept.standing(snapshot, node)


def set_cells(snapshot: Snapshot, cells: Mapping[str, CellCounts]) -> None:
    """Replace the cells of the budget nodes named, effective at once: any node may be another's cell now."""
    snapshot.tree.set_cells(cells)
    for node in snapshot.nodes.by_name.values():
        snapshot.nodes.promise_changed(node)
    for group in snapshot.stirred.funded:
        group.failure = group.reach = None


def settle(snapshot: Snapshot) -> None:
    """Bring the matching up to date. Nodes that are another's cell now than before are changed nodes, like those of
    which something else has changed: whoever follows the log of these has to ask for this first.
    """
    if not snapshot.tree.tenants:
        return
    kept: Kept | None = snapshot.kept
    if kept is None or kept.grants != snapshot.tree.grants:
        kept = snapshot.kept = Kept(snapshot)
    nodes = snapshot.nodes
    if kept.seen == len(nodes.changes):
        return
    before, now = kept.last, _match(snapshot, kept, None)
    kept.last = now
    if before is not None:
        moved = before.moved(now)
        # Who may take over a gang in its cell may do so on the gang's other nodes as well.
        beside = {name for each in moved for run in nodes.by_name[each].runs.values() for name in run.holdings}
        for name in sorted(moved | beside):
            nodes.promise_changed(nodes.by_name[name])
    kept.matchings = {None: now}
    kept.seen = len(nodes.changes)


def _match(snapshot: Snapshot, kept: Kept, without: str | None) -> Matching:
    nodes = [kept.standing(snapshot, node) for node in snapshot.nodes.by_name.values() if _is_fit(node)]
    unfit = {node.rack for node in snapshot.nodes.restless.values() if not _is_fit(node)}
    racks = [rack for rack in kept.layout.racks if rack not in unfit]
    return match(snapshot.tree.tenants, nodes, racks, without)


def keeps_from(snapshot: Snapshot, node: NodeState, workload: Workload) -> bool:
    """Whether funded work has to stay off a node, as it is others' cell; what was promised to it is its own."""
    if not snapshot.tree.tenants or not workload.min_runtime_s:
        return False
    promise = snapshot.reservations.get(workload.id)
    if promise is not None and node.name in promise.holdings:
        return False
    matching = matching_of(snapshot, workload.node)
    return matching.keeps_from(node.name, snapshot.tree.nodes[workload.leaf].tenant)


def keeps_tenant_from(snapshot: Snapshot, node: NodeState, tenant: Whose) -> bool:
    """The same of all funded work of a tenant, or (None) of those without cells, to which nothing was promised."""
    return matching_of(snapshot).keeps_from(node.name, tenant)


def is_on_others_cell(snapshot: Snapshot, workload: Workload) -> bool:
    """Whether something was promised to a workload where it would have to stay off but for that."""
    promise = snapshot.reservations.get(workload.id)
    if promise is None or not snapshot.tree.tenants:
        return False
    matching, tenant = matching_of(snapshot), snapshot.tree.nodes[workload.leaf].tenant
    return any(matching.keeps_from(name, tenant) for name in promise.holdings)


def kept_from(snapshot: Snapshot, workload: Workload) -> tuple[dict[str, str], CellCounts]:
    """Whose cells the nodes are on which a workload could have something, but that it has to stay off; what is missing.

    Of a workload larger than a node these are the nodes that it could have whole.
    """
    nodes = snapshot.nodes.by_name.values() if workload.node is None else [snapshot.nodes.by_name[workload.node]]
    matching = matching_of(snapshot, workload.node)
    owners = {
        node.name: matching.clean.get(node.name) or matching.targets[node.name]
        for node in nodes
        if node.open_milli >= min(workload.size_milli, node.capacity_milli) and keeps_from(snapshot, node, workload)
    }
    return owners, matching.missing_in_all()


def is_tenants(snapshot: Snapshot, workload: Workload) -> bool:
    """Whether a workload is below a node with cells."""
    return bool(snapshot.tree.tenants) and snapshot.tree.nodes[workload.leaf].tenant is not None


def is_in_cell_of(snapshot: Snapshot, run: HeldRun, tenant: Whose) -> bool:
    """Whether a run is in a tenant's cell, and not its own."""
    if not snapshot.tree.tenants or tenant is None or run.leaf.tenant == tenant:
        return False
    matching = matching_of(snapshot)
    return any(matching.is_cell_of(name, tenant) for name in run.holdings)


def leaves_in_cell(snapshot: Snapshot, node: NodeState, tenant: Whose) -> frozenset[str]:
    """The leaves of others with funded runs on a node that is a tenant's cell; of another node none."""
    if not snapshot.tree.tenants or not matching_of(snapshot).is_cell_of(node.name, tenant):
        return frozenset()
    return frozenset(run.leaf.id for run in node.runs.values() if run.funded and run.leaf.tenant != tenant)


@contextmanager
def cells_aside(snapshot: Snapshot) -> Iterator[None]:
    """While it is asked what there would be if nobody had cells."""
    tenants = snapshot.tree.tenants
    snapshot.tree.tenants = {}
    try:
        yield
    finally:
        snapshot.tree.tenants = tenants


def _is_fit(node: NodeState) -> bool:
    return node.indexed_milli is not None


def _standing(snapshot: Snapshot, node: NodeState, *, counts: bool) -> Standing:
    """What cells see of a node."""
    bound: set[Whose] = set()
    over: set[Whose] = set()
    gangs: set[Whose] = set()
    until_s = held_milli = 0
    for run in node.runs.values():
        held_milli += run.holdings[node.name]
        if not run.funded or run.leave_by_s is not None:
            continue
        if run.is_over:
            over.add(run.leaf.tenant)
        else:
            bound.add(run.leaf.tenant)
            begins_s = run.started_s if run.running_s is None else run.running_s
            until_s = max(until_s, begins_s + run.min_runtime_s)
        if _has_further(snapshot, node, run.holdings):
            gangs.add(run.leaf.tenant)
    for plan_s, workload_id, holdings in [
        *((claim.made_s, claim.workload, claim.holdings) for claim in node.claims),
        *((promise.at_s, promise.workload, promise.holdings) for promise in node.reservations),
    ]:
        workload = snapshot.queued[workload_id]
        tenant = snapshot.tree.nodes[workload.leaf].tenant
        bound.add(tenant)
        if _has_further(snapshot, node, holdings):
            gangs.add(tenant)
        until_s = max(until_s, plan_s + workload.min_runtime_s)
    if node.held_milli > held_milli:
        bound.add(None)
        until_s = NEVER_S
    return Standing(
        name=node.name,
        rack=node.rack,
        counts=counts,
        bound=frozenset(bound),
        over=frozenset(over),
        gangs=frozenset(gangs),
        until_s=until_s,
        has_window=bool(node.windows),
        open_milli=node.open_milli,
    )


def _has_further(snapshot: Snapshot, node: NodeState, holdings: Collection[str]) -> bool:
    """Whether what holds a node holds others of its rack, too."""
    if len(holdings) == 1 or not node.rack:
        return False
    return any(name != node.name and snapshot.nodes.by_name[name].rack == node.rack for name in holdings)
