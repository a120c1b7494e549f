"""The nodes of one cluster: who holds what, what is free, and an index of the free (semantics.md sections 6 and 7)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from .tree import TreeNode
from .values import DEVICE_MILLI, Claim, Health, Node, Reservation, Resources, Run, Workload, urgency_of


class HeldRun:
    """A run as the engine keeps it: its devices, its contract, and whether it was told to leave.

    `contract_end_s` is None for unallocated runs and while the run is starting up. `is_over` says that the
    contract has ended, so that the run is protected no longer. `urgency` is compared inside a leaf. `resources` is all
    that it holds, `cpu_milli` and `memory_mib` what it has on each node.
    """

    __slots__ = (
        "contract_end_s",
        "cpu_milli",
        "device",
        "funded",
        "holdings",
        "id",
        "is_over",
        "leaf",
        "leave_by_s",
        "memory_mib",
        "min_runtime_s",
        "priority",
        "resources",
        "running_s",
        "service",
        "size_milli",
        "started_s",
        "urgency",
        "workload",
    )

    def __init__(self, run: Run, leaf: TreeNode) -> None:
        """Take over a run's values."""
        self.id = run.id
        self.workload = run.workload
        self.leaf = leaf
        self.holdings: Mapping[str, int] = run.holdings
        self.size_milli = run.size_milli
        self.cpu_milli = run.cpu_milli
        self.memory_mib = run.memory_mib
        number = len(run.holdings)
        self.resources = Resources(run.size_milli, number * run.cpu_milli, number * run.memory_mib)
        self.funded = run.funded
        self.min_runtime_s = run.min_runtime_s
        self.started_s = run.started_s
        self.running_s = run.running_s
        self.priority = run.priority
        self.urgency = urgency_of(run.priority)  # and the level that the order inside its leaf gives it
        self.service = run.service
        self.leave_by_s = run.leave_by_s
        self.device = run.device
        self.contract_end_s: int | None = None
        self.is_over = False


_instant_and_amount = itemgetter(0, 1)


class Summary(NamedTuple):
    """What anybody funded could have on a node by telling runs to leave; the leaves whose runs have contracts there."""

    open_milli: int
    leaves: frozenset[str]


NOTHING = Summary(0, frozenset())
ALWAYS_S = -(1 << 62)
"""From when on an unallocated run may be taken over."""


class Held(NamedTuple):
    """Whole devices of one run on a node that might be taken over: from when on; whose, None if it is unallocated."""

    from_s: int
    amount_milli: int
    leaf: TreeNode | None
    urgency: int


class NodeState:
    """A node with what it holds. Amounts in thousandths.

    Attributes:
        held_milli: by all runs, also those that are leaving, and by others.
        locked_milli: free, but claimed by a pending plan.
        leaving: its runs that were told to leave.
        leaving_milli: held by runs that were told to leave, and claimed by nobody (whole devices only).
        shared: the runs on each device that is given out in fractions, by its index.
        open_milli: the most that anybody could have here by telling runs to leave now; 0 where nothing may start.
        soft_milli: held by runs that some funded workload might preempt: unallocated, or with their contract over.
        unallocated_milli: the part of it that unallocated runs hold.
    """

    __slots__ = (
        "_summary",
        "_takeable",
        "capacity_milli",
        "claims",
        "cpu_milli",
        "gpu_class",
        "health",
        "held_milli",
        "indexed_milli",
        "leaf",
        "leaving",
        "leaving_milli",
        "locked_milli",
        "memory_mib",
        "name",
        "open_milli",
        "rack",
        "rail",
        "reservations",
        "runs",
        "shared",
        "soft_milli",
        "unallocated_milli",
        "usable_from_s",
        "version",
        "windows",
    )

    def __init__(self, node: Node) -> None:
        """An empty node."""
        self.name = node.name
        self.capacity_milli = node.capacity_milli
        self.rack = node.rack
        self.rail = node.rail
        self.leaf = node.leaf
        self.cpu_milli = node.cpu_milli
        self.memory_mib = node.memory_mib
        self.gpu_class = node.gpu_class
        self.health = node.health
        self.windows = node.windows
        self.usable_from_s = node.usable_from_s
        self.held_milli = node.taken_milli
        self.locked_milli = 0
        self.leaving_milli = 0
        self.open_milli = 0
        self.soft_milli = 0
        self.unallocated_milli = 0
        self.runs: dict[str, HeldRun] = {}
        self.leaving: dict[str, HeldRun] = {}
        self.shared: dict[int, list[HeldRun]] = {}
        self.claims: list[Claim] = []
        self.reservations: list[Reservation] = []
        self.indexed_milli: int | None = None
        self.version = 0  # grows with every change
        self._summary: tuple[int, Summary] = (-1, NOTHING)
        self._takeable: tuple[int, list[Held]] = (-1, [])

    @property
    def free_milli(self) -> int:
        """What could start here at once."""
        return self.capacity_milli - self.held_milli - self.locked_milli

    def whole_free_milli(self, without: Collection[str] = ()) -> int:
        """What of the free is whole devices, with the runs in `without` thought away."""
        free_milli = self.free_milli
        if not without and not self.shared:
            return free_milli
        if without:
            left, _ = self._cover_claims()  # what a claim waits for is not free for anybody else when it is left
            free_milli += sum(
                left.get(run.id, run.holdings[self.name]) for run in self.runs.values() if run.id in without
            )
        for runs in self.shared.values():
            staying_milli = sum(run.size_milli for run in runs if run.id not in without)
            if staying_milli:
                free_milli -= DEVICE_MILLI - staying_milli
        return free_milli

    def fits(self, size_milli: int, without: Collection[str] = ()) -> bool:
        """Whether so much could start here, on whole devices or as a fraction of one."""
        if not self.shared or size_milli >= DEVICE_MILLI:
            needed_milli = -(-size_milli // DEVICE_MILLI) * DEVICE_MILLI
            return self.whole_free_milli(without) >= needed_milli
        if self.whole_free_milli(without) >= DEVICE_MILLI:
            return True
        is_free = self.locked_milli == 0 and not self.claims
        return is_free and any(
            DEVICE_MILLI - sum(run.size_milli for run in runs if run.id not in without) >= size_milli
            for runs in self.shared.values()
        )

    def summary(self) -> Summary:
        """What stands on it in short, for whoever may take over from none of its leaves. Of whole devices only."""
        version, found = self._summary
        if version != self.version:
            leaves = {run.leaf.id for run in self.runs.values() if run.contract_end_s is not None}
            found = Summary(self.free_milli + self.leaving_milli + self.unallocated_milli, frozenset(leaves))
            self._summary = self.version, found
        return found

    def takeable(self) -> list[Held]:
        """What runs hold here in whole devices that somebody might take over at some instant, in order of instants."""
        version, found = self._takeable
        if version != self.version:
            name = self.name
            found = []
            for run in self.runs.values():
                if run.leave_by_s is None and (amount_milli := run.holdings[name]) >= DEVICE_MILLI:
                    if not run.funded:
                        found.append(Held(ALWAYS_S, amount_milli, None, run.urgency))
                    elif run.contract_end_s is not None:
                        found.append(Held(run.contract_end_s, amount_milli, run.leaf, run.urgency))
            found.sort(key=_instant_and_amount)
            self._takeable = self.version, found
        return found

    def take_device(self, run: HeldRun) -> None:
        """Note on which device a fraction is: the one given, else the fullest where it fits, else a new one."""
        if run.device is None:
            used = {index: sum(each.size_milli for each in runs) for index, runs in self.shared.items()}
            fitting = [(-milli, index) for index, milli in used.items() if milli + run.size_milli <= DEVICE_MILLI]
            unused = next(index for index in range(len(used) + 1) if index not in used)
            run.device = min(fitting)[1] if fitting else unused
        self.shared.setdefault(run.device, []).append(run)

    def leave_device(self, run: HeldRun) -> None:
        """A fraction is on its device no longer."""
        assert run.device is not None
        self.shared[run.device].remove(run)
        if not self.shared[run.device]:
            del self.shared[run.device]

    def in_window(self, now_s: int) -> bool:
        """Whether a maintenance window is open."""
        if not self.windows:
            return False
        return any(start_s <= now_s < until_s for start_s, until_s in self.windows)

    def may_start(self, now_s: int) -> bool:
        """Whether anything may start here: healthy, for long enough, and outside maintenance."""
        if self.health is not Health.HEALTHY:
            return False
        if self.usable_from_s is not None and now_s < self.usable_from_s:
            return False
        return not (self.windows and self.in_window(now_s))

    def must_empty(self, now_s: int) -> bool:
        """Whether its runs have to leave: unallocated ones at once, funded ones when their contract ends."""
        return self.health is Health.DRAINING or (self.health is Health.HEALTHY and self.in_window(now_s))

    def settle_claims(self) -> None:
        """Work out which claims are covered by runs that are leaving; the rest locks free devices."""
        if not self.claims and not self.leaving:
            self.locked_milli = self.leaving_milli = 0
            return
        left, self.locked_milli = self._cover_claims()
        self.leaving_milli = sum(amount_milli for amount_milli in left.values() if amount_milli % DEVICE_MILLI == 0)

    def left_for_nobody(self) -> list[tuple[str, int]]:
        """Runs that are leaving with what of theirs nobody has claimed, soonest gone first."""
        left, _ = self._cover_claims()
        return sorted(
            ((name, amount) for name, amount in left.items() if amount and amount % DEVICE_MILLI == 0),
            key=lambda each: (self.runs[each[0]].leave_by_s, each[0]),
        )

    def _cover_claims(self) -> tuple[dict[str, int], int]:
        """What of leaving runs is left after the claims, by run, and what claims need beside."""
        left = {run_id: run.holdings[self.name] for run_id, run in self.leaving.items()}
        locked_milli = 0
        claims = self.claims
        if len(claims) > 1:
            claims = sorted(claims, key=lambda each: (each.made_s, each.workload))
        for claim in claims:
            missing_milli = claim.holdings[self.name]
            for run_id in claim.waits_for:
                covered_milli = min(missing_milli, left.get(run_id, 0))
                if covered_milli:
                    left[run_id] -= covered_milli
                    missing_milli -= covered_milli
            locked_milli += missing_milli
        return left, locked_milli


class Nodes:
    """All nodes by name, with the free ones in order.

    `by_free` lists the names of the nodes where something may start by what is free there, `free_milli` in all;
    `empty` those that are wholly free, by rack, `empty_milli` in all. `fit_milli` is what the nodes where something may
    start have, in all and the largest of them. `soft` are the nodes on which preemption might find something;
    `restless` those that are, or will be, unfit. `changes` lists every node that changed, in time.
    """

    def __init__(self, nodes: list[Node], now_s: int) -> None:
        """Index empty nodes.

        Raises:
            ValueError: a name twice, or no capacity.
        """
        self.by_name: dict[str, NodeState] = {}
        self.by_free: dict[int, list[str]] = {}
        self.empty: dict[str, list[str]] = {}
        self.fit_milli = 0, 0
        self._fit: dict[int, int] = {}  # the number of such nodes by their capacity
        self.soft: dict[str, NodeState] = {}
        self.restless: dict[str, NodeState] = {}
        self.changes: list[NodeState] = []
        self._most_open = 0, 0, 0  # of the changes from one position to another, which is known
        self.free_milli = 0
        self.empty_milli = 0
        for node in nodes:
            if node.name in self.by_name:
                raise ValueError(f"node {node.name!r} is given twice")
            if node.capacity_milli < 1:
                raise ValueError(f"node {node.name!r} has no capacity")
            self.by_name[node.name] = NodeState(node)
        self.largest_milli = max((node.capacity_milli for node in nodes), default=0)
        self.total_milli = sum(node.capacity_milli for node in nodes)
        racks_milli: dict[str, int] = {}
        for node in nodes:
            racks_milli[node.rack] = racks_milli.get(node.rack, 0) + node.capacity_milli
        self.largest_rack_milli = max(racks_milli.values(), default=0)
        for state in self.by_name.values():
            self.index(state, now_s)

    def has_rack_for(self, workload: Workload) -> bool:
        """Whether some rack has nodes enough for it, of its class and with the cores and memory, whoever holds them."""
        size_milli, classes = workload.size_milli, workload.gpu_classes
        if size_milli > self.largest_rack_milli or not workload.asks_host:
            return size_milli <= self.largest_rack_milli
        racks_milli: dict[str, int] = {}
        for node in self.by_name.values():
            cores, memory = node.cpu_milli, node.memory_mib
            has_host = (cores is None or workload.cpu_milli <= cores) and (
                memory is None or workload.memory_mib <= memory
            )
            if has_host and (not classes or node.gpu_class in classes):
                racks_milli[node.rack] = racks_milli.get(node.rack, 0) + node.capacity_milli
        return max(racks_milli.values(), default=0) >= size_milli

    @property
    def have_windows(self) -> bool:
        """Whether a maintenance window of any is still to come or to end."""
        return any(node.windows for node in self.restless.values())

    def must_empty(self, now_s: int) -> bool:
        """Whether any has to be empty, and runs on it that may be told to leave."""
        return any(node.soft_milli and node.must_empty(now_s) for node in self.restless.values())

    def index(self, node: NodeState, now_s: int) -> None:
        """Bring the indexes up to date after a change of one node."""
        node.version += 1
        self.changes.append(node)
        is_dwelling = node.usable_from_s is not None and now_s < node.usable_from_s
        is_restless = is_dwelling or node.health is not Health.HEALTHY or bool(node.windows)
        if is_restless:
            self.restless[node.name] = node
        else:
            self.restless.pop(node.name, None)
        if node.soft_milli or node.leaving_milli:
            self.soft[node.name] = node
        else:
            self.soft.pop(node.name, None)
        free_milli = None
        if not is_restless or node.may_start(now_s):
            free_milli = node.capacity_milli - node.held_milli - node.locked_milli
        node.open_milli = 0 if free_milli is None else free_milli + node.leaving_milli + node.soft_milli
        if free_milli == node.indexed_milli:
            return
        if node.indexed_milli:
            self.free_milli -= node.indexed_milli
            _take_out(self.by_free, node.indexed_milli, node.name)
            if node.indexed_milli == node.capacity_milli:
                _take_out(self.empty, node.rack, node.name)
                self.empty_milli -= node.capacity_milli
        if (free_milli is None) != (node.indexed_milli is None):
            change = -1 if free_milli is None else 1
            self._fit[node.capacity_milli] = self._fit.get(node.capacity_milli, 0) + change
            sizes = {capacity_milli: number for capacity_milli, number in self._fit.items() if number}
            in_all_milli = sum(capacity_milli * number for capacity_milli, number in sizes.items())
            self.fit_milli = in_all_milli, max(sizes, default=0)
        node.indexed_milli = free_milli
        if free_milli:
            self.free_milli += free_milli
            insort(self.by_free.setdefault(free_milli, []), node.name)
            if free_milli == node.capacity_milli:
                insort(self.empty.setdefault(node.rack, []), node.name)
                self.empty_milli += node.capacity_milli

    def promise_changed(self, node: NodeState) -> None:
        """What is promised on a node has changed."""
        node.version += 1
        self.changes.append(node)

    def most_open_milli(self, seen: int) -> int:
        """What anybody could have at most on any one of the nodes that changed since the log was `seen` long."""
        from_place, to_place, most_milli = self._most_open
        if from_place != seen or to_place != len(self.changes):
            most_milli = max([node.open_milli for node in self.changes[seen:]], default=0)
            self._most_open = seen, len(self.changes), most_milli
        return most_milli


def _take_out(index: dict[Any, list[str]], key: object, name: str) -> None:
    names = index[key]
    del names[bisect_left(names, name)]
    if not names:
        del index[key]
