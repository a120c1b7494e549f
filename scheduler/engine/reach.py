"""Who may take over from whom, where, and from when on: rules (b) and (c) of section 4.

What a leaf can reach on each node is kept from pass to pass, and worked out anew only for nodes that changed. A pass
that has to answer for everybody looks at all leaves at once first (horizon.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction

from .classes import is_reserve_kept_from
from .cluster import ALWAYS_S, HeldRun, Nodes, NodeState
from .horizon import Amounts, Horizon
from .private import is_in_cell_of, keeps_tenant_from, leaves_in_cell, settle
from .queues import Group
from .ratios import ranks_from_largest
from .snapshot import Snapshot
from .standing import comparisons
from .tree import SERVED_MOST, Level, TreeNode, may_swap, sides
from .values import DEVICE_MILLI, Workload

MANY = 16
"""So many changes for each node: likely all have changed."""
FEW_WITNESSES = 8
"""So many nodes are looked at before those that have changed are."""
ReachKey = tuple[str, int, tuple[int, ...], bool]
"""Leaf, urgency, (where a margin counts) what is asked for and the contract, and whether private cells count."""


class Reach:
    """What one leaf, at one urgency, could take over on each node, and from when on.

    It follows the log of changed nodes, so that asking costs little where little has changed. `version` grows whenever
    the leaf may take over from others than before. One that began with a bound (`begin_with`) knows no more than that,
    and what has changed since, until the bound does not answer a question: only then it looks at every node.

    Where private cells count (`sees_cells`), others' are out of reach, and what is in its own may be taken over once
    its contract is over. Of a gang that is in one only in part, what is said to be had now is an upper bound.
    """

    __slots__ = (
        "_by_node",
        "_ever",
        "_glanced",
        "_is_bound",
        "_limit_milli",
        "_now",
        "_seen",
        "_shifted",
        "_stale",
        "_swept",
        "_top_ever",
        "_top_now",
        "_unmeasured",
        "_whole_ever_milli",
        "_whole_now_milli",
        "_witness",
        "beaten",
        "checked",
        "leaf",
        "sees_cells",
        "sides",
        "urgency",
        "version",
    )

    def __init__(self, leaf: TreeNode, urgency: int, *, sees_cells: bool = False) -> None:
        """Nobody can be taken over from yet."""
        self.leaf = leaf
        self.urgency = urgency
        self.sees_cells = sees_cells
        self.beaten: frozenset[str] = frozenset()
        self.sides: object = None
        self.version = 0
        self.checked = 0  # the standing (`Reaches.standing`) on which the comparisons were last looked at
        self._by_node: dict[str, tuple[int, list[tuple[int, int]]]] = {}
        self._now: dict[str, int] = {}
        self._ever: dict[str, int] = {}
        self._unmeasured: dict[NodeState, None] = {}  # what these two would say of these nodes was not needed yet
        self._top_now: int | None = 0  # the largest of these, where it is known
        self._top_ever: int | None = 0
        self._whole_now_milli = 0  # capacity of the nodes that could be had whole now
        self._whole_ever_milli = 0  # capacity of the nodes that are certain whole at some instant
        self._is_bound = False  # whether the four above are but upper bounds
        self._seen = 0
        self._stale: dict[str, None] = {}
        self._shifted: dict[str, int] = {}  # nodes by the version since which it reaches other runs there
        self._limit_milli: int | None = None  # no more could be had now on one node; None where that is not known,
        self._glanced = 0  # with the log of changes so long
        self._swept: int | None = None  # likewise: all were measured that might be had whole
        self._witness: tuple[NodeState, int, int] | None = None  # a node, its version, what is certain there

    def begin_with(self, amounts: Amounts, seen: int, beaten: frozenset[str], sides: object) -> None:
        """Start from what was worked out for all leaves at once, when the log of changes was `seen` long."""
        self._top_now, self._top_ever, self._whole_now_milli, self._whole_ever_milli = amounts
        self._seen = seen
        self.beaten = beaten
        self.sides = sides
        self._is_bound = True

    def shift(self, snapshot: Snapshot, beaten: frozenset[str], sides: object) -> None:
        """It may take over from these leaves now: nodes with runs of those that make the difference are stale.

        `sides` is what that was worked out from.
        """
        self.version += 1
        for leaf_id in beaten ^ self.beaten:
            for run in snapshot.runs_of.get(leaf_id, {}).values():
                for name in run.holdings:
                    self._stale[name] = None
                    self._shifted[name] = self.version
                    self._by_node.pop(name, None)
        self.beaten = beaten
        self.sides = sides
        self._limit_milli = self._witness = self._swept = None

    def shifted_since(self, version: int) -> list[str]:
        """The nodes on which it may take over from other runs than at that version of it."""
        if version == self.version:
            return []
        return [name for name, at_version in self._shifted.items() if at_version > version]

    def on(self, node: NodeState) -> list[tuple[int, int]]:
        """(instant, amount) of the runs of a node that may be taken over, in order of instants."""
        kept = self._by_node.get(node.name)
        if kept is not None and kept[0] == node.version:
            return kept[1]
        found = self._on(node, self.beaten)
        self._by_node[node.name] = node.version, found
        return found

    def on_with(self, node: NodeState, leaves: frozenset[str]) -> list[tuple[int, int]]:
        """The same where runs of these leaves may be taken over too."""
        return self._on(node, self.beaten | leaves)

    def _on(self, node: NodeState, beaten: frozenset[str]) -> list[tuple[int, int]]:
        own, urgency = self.leaf, self.urgency
        found = [
            (from_s, amount_milli)
            for from_s, amount_milli, leaf, held_urgency in node.takeable()
            if leaf is None or (leaf.id in beaten if leaf is not own else held_urgency < urgency)
        ]
        if not node.shared:
            return found
        for runs in node.shared.values():
            instants = [self._from(run, beaten) if run.leave_by_s is None else None for run in runs]
            known = [at_s for at_s in instants if at_s is not None]
            if len(known) == len(runs):
                found.append((max(known), DEVICE_MILLI))
        found.sort()
        return found

    def _from(self, run: HeldRun, beaten: frozenset[str]) -> int | None:
        """From when on a run may be taken over by one that beats these leaves; None if never on today's figures."""
        if not run.funded:
            return ALWAYS_S
        is_beaten = run.urgency < self.urgency if run.leaf is self.leaf else run.leaf.id in beaten
        return run.contract_end_s if is_beaten else None

    def now_milli(self, snapshot: Snapshot, node: NodeState) -> int:
        """The most that could be had on one node, if something may start there, by telling runs to leave now."""
        self._follow(snapshot)
        if self._is_bound:
            return self._could_have(snapshot, node)[0]
        if node in self._unmeasured:
            self._measure(snapshot, node)
        return self._now[node.name]

    def has_now(self, snapshot: Snapshot, need_milli: int) -> bool:
        """Whether so much could be had by telling runs to leave now: on one node, or, if it is more, in whole nodes."""
        if self.sees_cells:
            settle(snapshot)
        if need_milli > snapshot.nodes.largest_milli:
            return self._has_whole_now(snapshot, need_milli)
        if self._limit_milli is not None and self._limit_milli < need_milli:
            return self._has_now_since(snapshot, self._limit_milli, need_milli)
        self._follow(snapshot)
        if self._is_bound:
            if self._most_now_milli() < need_milli:
                return False
            self._look_at_all(snapshot)
        if self._most_now_milli() >= need_milli:
            return True
        most_milli = 0
        for node in tuple(self._unmeasured):
            if node.open_milli < need_milli:
                most_milli = max(most_milli, node.open_milli)
            elif self._measure(snapshot, node)[0] >= need_milli:
                return True
        self._limit_milli, self._glanced = max(most_milli, self._most_now_milli()), self._seen
        return False

    def _has_now_since(self, snapshot: Snapshot, limit_milli: int, need_milli: int) -> bool:
        """The same where no node had more than a limit: a look at those that changed since."""
        nodes = snapshot.nodes
        seen = self._glanced
        if seen == len(nodes.changes):
            return False
        most_milli = nodes.most_open_milli(seen)
        if most_milli >= need_milli:
            self._follow(snapshot)
            most_milli = 0
            for node in set(nodes.changes[seen:]):
                now_milli = node.open_milli
                if now_milli >= need_milli:
                    is_unmeasured = node in self._unmeasured
                    now_milli = self._measure(snapshot, node)[0] if is_unmeasured else self._now[node.name]
                    if now_milli >= need_milli:
                        return True
                most_milli = max(most_milli, now_milli)
        self._limit_milli, self._glanced = max(limit_milli, most_milli), len(nodes.changes)
        return False

    def _has_whole_now(self, snapshot: Snapshot, need_milli: int) -> bool:
        """The same in whole nodes."""
        self._follow(snapshot)
        if self._is_bound:
            if self._whole_now_milli < need_milli:
                return False
            self._look_at_all(snapshot)
        if self._swept is None:
            changed: Iterable[NodeState] = tuple(self._unmeasured)
        else:
            changed = set(snapshot.nodes.changes[self._swept :])
        for node in changed:
            if node.open_milli >= node.capacity_milli and node in self._unmeasured:
                self._measure(snapshot, node)
        self._swept = self._seen
        return self._whole_now_milli >= need_milli

    def _is_far_behind(self, nodes: Nodes) -> bool:
        """Whether so much has changed that every node has to be looked at."""
        return not self._seen or len(nodes.changes) - self._seen > MANY * len(nodes.by_name)

    def has_now_unpromised(self, snapshot: Snapshot, need_milli: int) -> bool:
        """The same of nodes of which nothing was promised to anybody."""
        if not self.has_now(snapshot, need_milli):  # else none is but a bound
            return False
        self._measure_all(snapshot)
        by_name, now = snapshot.nodes.by_name, self._now.items()
        if need_milli <= snapshot.nodes.largest_milli:
            return any(now_milli >= need_milli and not by_name[name].reservations for name, now_milli in now)
        whole = [by_name[name] for name, now_milli in now if now_milli == by_name[name].capacity_milli]
        return sum(node.capacity_milli for node in whole if not node.reservations) >= need_milli

    def has_ever(self, snapshot: Snapshot, need_milli: int) -> bool:
        """Whether contracts make so much certain at some instant, beside what is promised to anybody."""
        if self.sees_cells:
            settle(snapshot)
        if self._witness is not None and self._is_witnessed(snapshot, need_milli):
            return True
        self._follow(snapshot)
        is_whole = need_milli > snapshot.nodes.largest_milli
        if self._is_bound:
            if (self._whole_ever_milli if is_whole else self._most_ever_milli()) < need_milli:
                return False
            self._look_at_all(snapshot)
        if is_whole:
            self._measure_all(snapshot)
            return self._whole_ever_milli >= need_milli
        if self._most_ever_milli() >= need_milli:
            name = max(self._ever, key=self._ever.__getitem__)
            node = snapshot.nodes.by_name[name]
            self._witness = node, node.version, self._ever[name]
            return True
        for node in tuple(self._unmeasured):
            certain_milli = self._measure(snapshot, node)[1]
            if certain_milli >= need_milli:
                self._witness = node, node.version, certain_milli
                return True
        return False

    def _is_witnessed(self, snapshot: Snapshot, need_milli: int) -> bool:
        """Whether some node is soon found on which so much is certain, without a look at all that changed."""
        assert self._witness is not None
        node, version, certain_milli = self._witness
        if node.version == version:
            if certain_milli >= need_milli:
                return True
        elif (certain_milli := self._could_have(snapshot, node)[1]) >= need_milli:
            self._witness = node, node.version, certain_milli
            return True
        by_name = snapshot.nodes.by_name
        likely = [name for name, ever_milli in self._ever.items() if ever_milli >= need_milli]
        for name in likely[:FEW_WITNESSES]:
            node = by_name[name]
            certain_milli = self._could_have(snapshot, node)[1]
            if certain_milli >= need_milli:
                self._witness = node, node.version, certain_milli
                return True
        return False

    def _most_now_milli(self) -> int:
        if self._top_now is None:
            self._top_now = max(self._now.values(), default=0)
        return self._top_now

    def _most_ever_milli(self) -> int:
        if self._top_ever is None:
            self._top_ever = max(self._ever.values(), default=0)
        return self._top_ever

    def _look_at_all(self, snapshot: Snapshot) -> None:
        """Be exact from now on: every node is to be measured where it matters."""
        self._is_bound = False
        self._now.clear()
        self._ever.clear()
        self._top_now = self._top_ever = 0
        self._whole_now_milli = self._whole_ever_milli = 0
        self._unmeasured = dict.fromkeys(snapshot.nodes.by_name.values())
        self._seen = len(snapshot.nodes.changes)
        self._stale.clear()
        self._swept = None

    def _follow(self, snapshot: Snapshot) -> None:
        """Note which nodes have changed since it looked last."""
        if self.sees_cells:
            settle(snapshot)
        nodes = snapshot.nodes
        seen = self._seen
        if seen == len(nodes.changes) and not self._stale:
            return
        if self._is_far_behind(nodes):
            self._look_at_all(snapshot)
            return
        changed = set(nodes.changes[seen:])
        if self._stale:
            changed.update([nodes.by_name[name] for name in self._stale])
        for node in changed:
            if self._is_bound:
                self._raise_bounds(snapshot, node)
            elif node not in self._unmeasured:
                self._forget(node)
        self._seen = len(nodes.changes)
        self._stale.clear()

    def _forget(self, node: NodeState) -> None:
        """What was measured on a node counts no more."""
        now_milli, ever_milli = self._now.pop(node.name), self._ever.pop(node.name)
        if now_milli == self._top_now:
            self._top_now = None
        if ever_milli == self._top_ever:
            self._top_ever = None
        if now_milli == node.capacity_milli:
            self._whole_now_milli -= now_milli
        if ever_milli == node.capacity_milli:
            self._whole_ever_milli -= ever_milli
        self._unmeasured[node] = None

    def _measure_all(self, snapshot: Snapshot) -> None:
        for node in tuple(self._unmeasured):
            self._measure(snapshot, node)

    def _measure(self, snapshot: Snapshot, node: NodeState) -> tuple[int, int]:
        """What could be had on a node now, and what is certain there at some instant, which counts from now on."""
        del self._unmeasured[node]
        now_milli, ever_milli = measured = self._could_have(snapshot, node)
        self._now[node.name], self._ever[node.name] = measured
        if self._top_now is not None and now_milli > self._top_now:
            self._top_now = now_milli
        if self._top_ever is not None and ever_milli > self._top_ever:
            self._top_ever = ever_milli
        if now_milli == node.capacity_milli:
            self._whole_now_milli += now_milli
        if ever_milli == node.capacity_milli:
            self._whole_ever_milli += ever_milli
        return measured

    def _could_have(self, snapshot: Snapshot, node: NodeState) -> tuple[int, int]:
        """What could be had on a node by telling runs to leave now, and what is certain at some instant."""
        if node.indexed_milli is None:
            return 0, 0
        if self.sees_cells:
            if keeps_tenant_from(snapshot, node, self.leaf.tenant):
                return 0, 0
            if self.leaf.tenant is not None:
                return self._could_have_as_tenant(snapshot, node)
        return self._could_have_by_figures(node, snapshot.now_s)

    def _could_have_as_tenant(self, snapshot: Snapshot, node: NodeState) -> tuple[int, int]:
        """The same of a leaf with cells, which may take over whatever is in them and has its contract over."""
        tenant = self.leaf.tenant
        if in_cell := leaves_in_cell(snapshot, node, tenant):
            return self._counted(node, self.on_with(node, in_cell), snapshot.now_s)
        now_milli, ever_milli = self._could_have_by_figures(node, snapshot.now_s)
        gangs = (run for run in node.runs.values() if run.is_over and len(run.holdings) > 1)
        if any(is_in_cell_of(snapshot, run, tenant) for run in gangs):
            now_milli = node.open_milli
        return now_milli, ever_milli

    def _could_have_by_figures(self, node: NodeState, now_s: int) -> tuple[int, int]:
        """The same by what leaves have been served alone."""
        if not node.shared:
            open_milli, leaves = node.summary()
            if self.beaten.isdisjoint(leaves) and self.leaf.id not in leaves:
                if not node.reservations:
                    return open_milli, open_milli
                promised_milli = sum(promise.holdings[node.name] for promise in node.reservations)
                return open_milli, open_milli - promised_milli
        return self._counted(node, self.on(node), now_s)

    def _counted(self, node: NodeState, later: Iterable[tuple[int, int]], now_s: int) -> tuple[int, int]:
        """What is free, and what may be taken over, now and at any instant."""
        now_milli = ever_milli = node.whole_free_milli() + node.leaving_milli
        for from_s, amount_milli in later:
            ever_milli += amount_milli
            if from_s <= now_s:
                now_milli += amount_milli
        for promise in node.reservations:
            ever_milli -= promise.holdings[node.name]
        return now_milli, ever_milli

    def _raise_bounds(self, snapshot: Snapshot, node: NodeState) -> None:
        now_milli, ever_milli = self._could_have(snapshot, node)
        assert self._top_now is not None
        assert self._top_ever is not None
        self._top_now = max(self._top_now, now_milli)
        self._top_ever = max(self._top_ever, ever_milli)
        self._whole_now_milli += node.capacity_milli * (now_milli == node.capacity_milli)
        self._whole_ever_milli += node.capacity_milli * (ever_milli == node.capacity_milli)


class _MostUncharged(dict[TreeNode, int]):
    """By leaf, a figure by which unallocated victims compare: lower for the one that has used more uncharged."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self._snapshot = snapshot

    def __missing__(self, leaf: TreeNode) -> int:
        found = self[leaf] = -int(self._snapshot.tree.order.uncharged(leaf, self._snapshot.now_s))
        return found


class Reaches:
    """The reach of every leaf that asked, on the figures of one pass."""

    def __init__(self, snapshot: Snapshot, swap_margin: Fraction, *, for_all: bool) -> None:
        """Start from what earlier passes on this snapshot have left.

        `for_all` says that everybody who waits will be asked about, so that it is worth while to look at all at once.
        """
        self._snapshot = snapshot
        self._horizon: Horizon | None = None
        self._is_settled = True  # whether no figure has changed since the horizon was made
        self._are_promises_aside = False
        self._margin = swap_margin
        self.has_margin = bool(swap_margin)
        self._for_all = for_all and not self.has_margin
        self._standing = 0
        self._checked: dict[ReachKey, Reach] = {}
        self._most_served: dict[str, dict[str, int]] = {}
        self.most_uncharged_first = _MostUncharged(snapshot)

    def forget_uncharged(self) -> None:
        """What was used uncharged has changed."""
        self.most_uncharged_first.clear()

    def forget(self) -> None:
        """Figures have changed."""
        self._standing = 0
        self._checked.clear()
        self._most_served.clear()
        self.most_uncharged_first.clear()
        self._is_settled = False

    def look_again(self) -> None:
        """What is asked from now on is asked of this state: where all will be asked about, look at all at once."""
        settle(self._snapshot)
        if self._for_all and not self._is_current():
            self._horizon = Horizon(self._snapshot)
            self._is_settled = True

    def _is_current(self) -> bool:
        horizon = self._horizon
        return horizon is not None and self._is_settled and horizon.seen == len(self._snapshot.nodes.changes)

    @contextmanager
    def promises_aside(self) -> Iterator[None]:
        """While the caller takes promises away and makes the same again: they bind nothing that could be had now."""
        self._are_promises_aside = was_current = self._is_current()
        yield
        self._are_promises_aside = False
        if was_current and self._horizon is not None:
            self._horizon.seen = len(self._snapshot.nodes.changes)

    def at_a_glance(self, workload: Workload) -> Horizon | None:
        """What answers for all leaves at once, where it holds now, and for this workload."""
        if self._horizon is None or workload.node is not None or workload.asks_host:
            return None
        if self._snapshot.tree.tenants:  # it knows nothing of cells
            return None
        if is_reserve_kept_from(self._snapshot, workload):
            return None
        if not self._are_promises_aside and not self._is_current():
            return None
        if workload.id in self._snapshot.reservations or not self._horizon.covers(workload.leaf):
            return None
        return self._horizon

    def has_now(self, workload: Workload, need_milli: int) -> bool:
        """Whether so much could be had by telling runs to leave now: on one node, or, if it is more, in whole nodes."""
        if self._horizon is None or (horizon := self.at_a_glance(workload)) is None:
            return self.of(workload).has_now(self._snapshot, need_milli)
        amounts = horizon.amounts(workload.leaf, workload.urgency)
        is_whole = need_milli > self._snapshot.nodes.largest_milli
        return (amounts.whole_now_milli if is_whole else amounts.now_milli) >= need_milli

    def has_ever(self, workload: Workload, need_milli: int) -> bool:
        """Whether contracts make so much certain at some instant, beside what is promised to anybody."""
        if self._horizon is None or (horizon := self.at_a_glance(workload)) is None:
            return self.of(workload).has_ever(self._snapshot, need_milli)
        amounts = horizon.amounts(workload.leaf, workload.urgency)
        is_whole = need_milli > self._snapshot.nodes.largest_milli
        return (amounts.whole_ever_milli if is_whole else amounts.ever_milli) >= need_milli

    def most_served_first(self, leaf: TreeNode) -> Mapping[str, int]:
        """By leaf, a figure by which a leaf's funded victims compare: lower for the side that has been served more.

        Of the leaves that had runs with their contract over when it was first asked for on these figures. What sides
        of different levels have been served compares by their entitlements; a side without counts as served most.
        """
        found = self._most_served.get(leaf.id)
        if found is None:
            snapshot, now_s = self._snapshot, self._snapshot.now_s
            nodes, order = snapshot.tree.nodes, snapshot.tree.order
            victims = [nodes[other] for other in snapshot.over_in]
            side_of = {victim.id: victim if victim is leaf else sides(leaf, victim)[1] for victim in victims}
            ratios: dict[TreeNode, tuple[int, int]] = {}
            for side in side_of.values():
                if side not in ratios:
                    ratios[side] = _by_entitlement(side, order.had(side, now_s), now_s)
            ranks = ranks_from_largest(ratios)
            found = self._most_served[leaf.id] = {name: ranks[side] for name, side in side_of.items()}
        return found

    def standing(self) -> int:
        """A number that is another whenever siblings that matter to what waits compare in another way."""
        if not self._standing:
            snapshot = self._snapshot
            standing = comparisons(snapshot)
            before, number = snapshot.standing
            if standing != before:
                number += 1
                snapshot.standing = standing, number
            self._standing = number
        return self._standing

    def compared(self) -> list[tuple[Level, int]]:
        """How siblings compare that matter to what waits."""
        self.standing()
        return self._snapshot.standing[0]

    def of_group(self, group: Group) -> Reach:
        """What a funded group may take over, where there is no margin."""
        reach: Reach | None = group.reach
        if reach is None or reach.checked != (self._standing or self.standing()):
            reach = group.reach = self.of(group.any())
        return reach

    def but_for_cells(self, group: Group) -> Reach:
        """The same if nobody had private cells."""
        return self.of(group.any(), sees_cells=False)

    def of(self, workload: Workload, *, sees_cells: bool = True) -> Reach:
        """What a workload may take over; as if nobody had private cells, or as cells have it, if somebody does."""
        asked: tuple[int, ...] = ()
        if self.has_margin:
            asked = workload.size_milli, workload.min_runtime_s, workload.cpu_milli, workload.memory_mib
        key = (workload.leaf, workload.urgency, asked, sees_cells and bool(self._snapshot.tree.tenants))
        reach = self._checked.get(key)
        if reach is None:
            reach = self._check(key, workload)
            self._checked[key] = reach
        return reach

    def margin_milli_s(self, workload: Workload) -> Fraction:
        """`swap_margin` times the workload's own contract: what counts before where use orders siblings."""
        if self._snapshot.tree.order.by_holdings:
            return Fraction(0)
        return self._margin * workload.size_milli * workload.min_runtime_s

    def _check(self, key: ReachKey, workload: Workload) -> Reach:
        """The reach that is known from before if the comparisons still come out the same."""
        snapshot = self._snapshot
        leaf = snapshot.leaf(workload.leaf)
        known: Reach | None = snapshot.reaches.get(key)
        sides: object
        if known is None:
            known = snapshot.reaches[key] = self._begin(leaf, workload.urgency, sees_cells=key[3])
        if self.has_margin:
            order = snapshot.tree.order
            sides = beaten = frozenset(
                other.id
                for other in snapshot.tree.leaves()
                if other is not leaf and may_swap(order, leaf, other, self._margin, workload, snapshot.now_s)
            )
        else:
            standing = self.standing() if leaf.is_entitled else 0  # others are not among those that are compared
            if standing and known.checked == standing:
                return known
            known.checked = standing
            sides = leaf.beaten_sides(snapshot.now_s)
            if known.sides is sides or known.sides == sides:
                known.sides = sides
                return known
            beaten = _leaves_below(snapshot, sides)
        if known.sides != sides:
            known.shift(snapshot, beaten, sides)
        return known

    def _begin(self, leaf: TreeNode, urgency: int, *, sees_cells: bool) -> Reach:
        reach = Reach(leaf, urgency, sees_cells=sees_cells)
        if self._for_all and self._horizon is None:
            self.look_again()
        horizon = self._horizon
        is_bound = not sees_cells or leaf.tenant is None  # who has cells could have more by them
        if horizon is not None and is_bound and horizon.covers(leaf.id):
            sides = horizon.sides[leaf.id]
            beaten = _leaves_below(self._snapshot, sides)
            reach.begin_with(horizon.amounts(leaf.id, urgency), horizon.seen, beaten, sides)
        return reach


def _by_entitlement(side: TreeNode, had: int, now_s: int) -> tuple[int, int]:
    """What a side has had by its entitlement, as a ratio; what no other comes to, where it has none."""
    if not side.is_entitled:
        return SERVED_MOST * SERVED_MOST + side.account.served(now_s), 1
    part, of = side.entitlement.as_integer_ratio()
    return had * of, part


def _leaves_below(snapshot: Snapshot, sides: Iterable[Iterable[str]]) -> frozenset[str]:
    """The leaves of all siblings, given by level."""
    nodes = snapshot.tree.nodes
    return frozenset(leaf for level in sides for name in level for leaf in nodes[name].leaf_ids)
