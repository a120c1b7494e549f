"""The state that a pass decides on: who holds what, who waits, who was promised what.

The live loop builds one for every pass (`Snapshot.build`); the simulator keeps one and tells it what happens.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

from .cluster import HeldRun, Nodes, NodeState
from .holdings import Holdings
from .policies import tree_order_of
from .policies.cassini import Network
from .policies.classes import Classes
from .policies.crowds import NOBODY, Crowd, Crowds
from .policies.leaf import LeafOrder
from .policies.locality import ANY_RACK, Gang, slowdown_milli
from .policy import Policy
from .queues import LeafQueue, Stirred, entry_of
from .tree import BudgetTree, TreeNode
from .values import (
    FUNDED,
    UNALLOCATED,
    BudgetNode,
    Claim,
    Health,
    LeafUse,
    Node,
    Packing,
    Reservation,
    Run,
    Service,
    Workload,
    urgency_of,
)

DEFAULT_LOOKBACK_S = Policy().lookback_s


class Snapshot(Holdings):
    """One cluster at one instant.

    Attributes:
        now_s: the instant it stands at.
        tree, nodes: budgets with their accounts; nodes with what they hold.
        runs, queued, held, claims, reservations: by id; claims and reservations by their workload's.
        queues: what waits, by leaf; leaves where nothing does are left out.
        stirred: what has moved among those that wait.
        runs_of: the funded runs of each leaf, by id.
        over_in: by leaf, the number of runs whose contract is over and which were not told to leave.
        told: the reason code that a workload was told last, by id, where the caller keeps it here (`tell`).
        names: how to call a budget node in sentences, where that is not its id.
        unit: what the cluster is made of, as people call one of it.
        packing: on which node what is free is taken; set before the first pass.
        network: what gangs send through the uplinks of leaves, where the policy's score goes by it; set likewise.
        classes: how the policy ranks the classes of nodes, where it does (classes.py); set likewise.
        leaf_order: who goes first inside a leaf, of one priority; None is by first submission (section 3, rule 3).
        crowds: who contends inside leaves, where the order has rounds; else None.
        tree_order: which sibling goes first (`policy.TREE_ORDERS`).
        locality_waits_s: after what waits those that wait look further (policies/locality.py); none is never.
    """

    def __init__(
        self,
        *,
        now_s: int,
        tree: Iterable[BudgetNode],
        nodes: Iterable[Node],
        lookback_s: int,
        names: Mapping[str, str] | None = None,
        unit: str = "GPU",
        leaf_order: LeafOrder | None = None,
        half_life_s: int | None = None,
        crowds: Mapping[str, Crowd] | None = None,
        tree_order: str = "lookback",
        locality_waits_s: Sequence[int] = (),
    ) -> None:
        """An idle cluster with an empty queue and no past; `crowds` as `build` has it."""
        rows = list(nodes)
        self.now_s = now_s
        self.lookback_s = lookback_s
        self.half_life_s = half_life_s
        self.tree_order = tree_order
        self.locality_waits_s = tuple(locality_waits_s)
        self.tree = BudgetTree(tree, lookback_s, now_s, half_life_s, tree_order_of(tree_order, rows))
        self.nodes = Nodes(rows, now_s)
        self.names = names or {}
        self.unit = unit
        self.packing = Packing.BEST_FIT
        self.network: Network | None = None
        self.classes: Classes | None = None
        self.leaf_order = leaf_order
        self.runs: dict[str, HeldRun] = {}
        self.queued: dict[str, Workload] = {}
        self.held: dict[str, Workload] = {}
        self.queues: dict[str, LeafQueue] = {}
        self.stirred = Stirred()
        self.claims: dict[str, Claim] = {}
        self.reservations: dict[str, Reservation] = {}
        self.told: dict[str, str] = {}
        self.runs_of: dict[str, dict[str, HeldRun]] = {}
        self.over_in: dict[str, int] = {}
        self.reaches: dict[Any, Any] = {}  # what passes keep from one to the next (reach.py)
        self.standing: tuple[list[Any], int] = [], 1  # likewise: how siblings compared, and how often that has changed
        self.outlooks: dict[str, Any] = {}  # likewise, by workload (reservations.py)
        self.size_codes: Mapping[int, str] = {}  # likewise, what unallocated workloads that ask for so much were told
        self.calm: Any = None  # likewise, when nobody funded could be moved (quiet.py)
        self.still: Any = None  # likewise, when there was nothing to do or to say (still.py)
        self.checked: Policy | None = None  # likewise, what was found to be the policy that it was built for
        self.kept: Any = None  # likewise, what is matched to private cells (private.py)
        self._timers: list[tuple[int, str, str]] = []  # (instant, kind, id): what time alone will change
        self._changes_s: dict[str, int] = {}  # when time alone gives one that waits another place in its leaf
        self._relaxes_s: dict[str, int] = {}  # when one that waits looks further
        self.crowds: Crowds | None = None
        if leaf_order is not None and leaf_order.round_s is not None:
            self.crowds = Crowds(leaf_order.round_s, now_s, crowds or {})
            heappush(self._timers, (self.crowds.next_round_s(now_s), "round", ""))
        for node in self.nodes.by_name.values():
            self._watch(node)

    @classmethod
    def build(
        cls,
        *,
        now_s: int,
        tree: Iterable[BudgetNode],
        use: Mapping[str, LeafUse],
        nodes: Iterable[Node],
        runs: Iterable[Run] = (),
        queue: Iterable[Workload] = (),
        claims: Iterable[Claim] = (),
        reservations: Iterable[Reservation] = (),
        held: Iterable[Workload] = (),
        lookback_s: int = DEFAULT_LOOKBACK_S,
        names: Mapping[str, str] | None = None,
        unit: str = "GPU",
        leaf_order: LeafOrder | None = None,
        half_life_s: int | None = None,
        crowds: Mapping[str, Crowd] | None = None,
        tree_order: str = "lookback",
        locality_waits_s: Sequence[int] = (),
    ) -> Snapshot:
        """A snapshot from frozen values, as rows give them.

        Args:
            now_s: the instant of the pass.
            tree: every budget node, the root with parent None.
            use: what ended runs used inside the lookback, by leaf.
            nodes: every node of the cluster, also the unfit.
            runs: every run that has not ended, also those that are leaving.
            queue: workloads that wait, also those with a claim; `held` those that a pass held (closed, or no
                entitlement), which it may release.
            claims: pending plans.
            reservations: promises that stand.
            lookback_s: the policy's; `decide` refuses another.
            names: how to call a budget node in sentences, where that is not its id.
            unit: what the cluster is made of, as people call one of it ("GPU", "core").
            leaf_order: who goes first inside a leaf, of one priority; None is by first submission.
            half_life_s: the policy's `decay_s`.
            crowds: who contended inside each leaf at the beginning of the round, where the order has rounds.
            tree_order, locality_waits_s: the policy's; `decide` refuses others.

        Raises:
            ValueError: values that contradict each other; names which.
        """
        snapshot = cls(
            now_s=now_s,
            tree=tree,
            nodes=nodes,
            lookback_s=lookback_s,
            names=names,
            unit=unit,
            leaf_order=leaf_order,
            half_life_s=half_life_s,
            crowds=crowds,
            tree_order=tree_order,
            locality_waits_s=locality_waits_s,
        )
        snapshot.tree.add_ended_use(use)
        for run in runs:
            snapshot.start(run)
        for workload in queue:
            snapshot.enqueue(workload)
        for workload in held:
            snapshot.leaf(workload.leaf)
            snapshot.held[workload.id] = workload
            snapshot._contend(workload.leaf, +1)
        for claim in claims:
            if claim.workload in snapshot.queued:
                snapshot.claim(claim)
            else:
                raise ValueError(f"claim of {claim.workload!r}, which is not in the queue")
        for reservation in reservations:
            if reservation.workload not in snapshot.queued:
                raise ValueError(f"reservation for {reservation.workload!r}, which is not in the queue")
            snapshot.reserve(reservation)
        return snapshot

    def leaf(self, name: str) -> TreeNode:
        """The leaf of that id.

        Raises:
            ValueError: there is none.
        """
        node = self.tree.nodes.get(name)
        if node is None or node.children:
            raise ValueError(f"{name!r} is not a leaf of the budget tree")
        return node

    # --- time -----------------------------------------------------------------------------------------------------

    def advance(self, now_s: int) -> None:
        """Move on to a later instant; contracts that end on the way are over, and nodes become usable or not."""
        while self._timers and self._timers[0][0] <= now_s:
            at_s, kind, name = heappop(self._timers)
            self.now_s = at_s
            if not self._still_counts(at_s, kind, name):
                continue
            if kind == "run":
                self._end_contract(self.runs[name])
            elif kind == "level":
                self._rank_run(self.runs[name])
            elif kind == "turn":
                self._rank_again(self.queued[name])
            elif kind == "spread":
                self._replace(self.queued[name], self._relaxed(self.queued[name]))
            elif kind == "round":
                self._begin_round()
            else:
                self.nodes.index(self.nodes.by_name[name], at_s)
        self.now_s = now_s

    def next_timer_s(self) -> int | None:
        """The next instant at which time alone changes something: a contract, a node, a place in a leaf, a level."""
        while self._timers and not self._still_counts(*self._timers[0]):
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _still_counts(self, at_s: int, kind: str, name: str) -> bool:
        """Whether a timer was not overtaken: its run goes on, its node still changes then."""
        if kind == "level":
            return name in self.runs and self.runs[name].leave_by_s is None
        if kind == "turn":
            return self._changes_s.get(name) == at_s
        if kind == "spread":
            return self._relaxes_s.get(name) == at_s
        if kind == "round":
            return True
        if kind == "run":
            run = self.runs.get(name)
            return run is not None and run.contract_end_s == at_s and run.leave_by_s is None
        node = self.nodes.by_name[name]
        return at_s == node.usable_from_s or any(at_s in window for window in node.windows)

    def _watch(self, node: NodeState) -> None:
        for at_s in [node.usable_from_s, *(edge_s for window in node.windows for edge_s in window)]:
            if at_s is not None and at_s > self.now_s:
                heappush(self._timers, (at_s, "node", node.name))

    # --- the queue ------------------------------------------------------------------------------------------------

    def enqueue(self, workload: Workload) -> None:
        """A workload waits, from now on or again.

        Raises:
            ValueError: unknown leaf, or the workload waits already.
        """
        leaf = self.leaf(workload.leaf)
        if workload.id in self.queued:
            raise ValueError(f"workload {workload.id!r} is in the queue twice")
        if self.leaf_order is not None:
            workload = self._ranked(workload, self.leaf_order)
        if self.locality_waits_s or workload.spread != ANY_RACK:
            workload = self._relaxed(workload)
        self.queued[workload.id] = workload
        queue = self.queues.get(leaf.id)
        if queue is None:
            queue = self.queues[leaf.id] = LeafQueue(self.stirred)
        entries = queue.of(workload)
        if not entries:
            self.tree.ask(leaf, _kind(workload), asks=True)
        insort(entries, entry_of(workload))
        self.join_group(workload)
        self._contend(leaf.id, +1)

    def join_group(self, workload: Workload) -> None:
        """It waits for devices."""
        self.queues[workload.leaf].join_group(workload, self.told)
        self._ask(workload, workload.size_milli)

    def leave_group(self, workload: Workload) -> None:
        """It waits for devices no longer: they were chosen, or it leaves the queue."""
        self.queues[workload.leaf].leave_group(workload, self.told)
        self._ask(workload, -workload.size_milli)

    def _ask(self, workload: Workload, milli: int) -> None:
        if self.tree.counts_holdings and workload.min_runtime_s:
            for node in self.tree.nodes[workload.leaf].path:
                node.account.asked_milli += milli
                if node.minimum_milli:  # it counts as far as there is demand
                    node.account.level.is_stale = True

    def _ranked(self, workload: Workload, order: LeafOrder) -> Workload:
        """The same with its place in the leaf, as it is from now on."""
        standing = order.waiting(workload, self.now_s, self._crowd_of(workload.leaf))
        if standing.changes_at_s is None:
            self._changes_s.pop(workload.id, None)
        elif self._changes_s.get(workload.id) != standing.changes_at_s:
            self._changes_s[workload.id] = standing.changes_at_s
            heappush(self._timers, (standing.changes_at_s, "turn", workload.id))
        if (standing.level, standing.turn) == (workload.level, workload.turn):
            return workload
        return replace(workload, level=standing.level, turn=standing.turn)

    def _rank_again(self, workload: Workload) -> None:
        """Time has passed: give one that waits the place in its leaf that it has from now on."""
        assert self.leaf_order is not None
        self._replace(workload, self._ranked(workload, self.leaf_order))

    def _replace(self, workload: Workload, other: Workload) -> None:
        """One that waits has another place, or looks further, from now on."""
        if other is workload:
            return
        queue = self.queues[workload.leaf]
        entries = queue.of(workload)
        del entries[bisect_left(entries, entry_of(workload))]
        insort(entries, entry_of(other))
        if workload.id not in self.claims:
            queue.leave_group(workload, self.told)
            queue.join_group(other, self.told)
        self.queued[workload.id] = other

    def _relaxed(self, workload: Workload) -> Workload:
        """The same with the level at which it looks for devices from now on."""
        asks = self.gang(workload).asks(workload.waits_since_s, self.now_s)
        if asks.relaxes_s is None:
            self._relaxes_s.pop(workload.id, None)
        elif self._relaxes_s.get(workload.id) != asks.relaxes_s:
            self._relaxes_s[workload.id] = asks.relaxes_s
            heappush(self._timers, (asks.relaxes_s, "spread", workload.id))
        if asks == (workload.spread, workload.relaxes_s):
            return workload
        return replace(workload, spread=asks.level, relaxes_s=asks.relaxes_s)

    def gang(self, workload: Workload) -> Gang:
        """What decides how far a workload looks."""
        fits_rack, is_pinned = self.nodes.has_rack_for(workload), workload.node is not None
        sizes = workload.size_milli, self.nodes.largest_milli
        return Gang(self.locality_waits_s, workload.locality, *sizes, fits_rack, is_pinned)

    def _begin_round(self) -> None:
        """Everybody's place in a leaf is worked out anew."""
        assert self.crowds is not None
        self.crowds.begin_round(self.now_s)
        for workload in list(self.queued.values()):
            self._rank_again(workload)
        for run in self.runs.values():
            self._rank_run(run)
        heappush(self._timers, (self.crowds.next_round_s(self.now_s), "round", ""))

    def _crowd_of(self, leaf: str) -> Crowd:
        return NOBODY if self.crowds is None else self.crowds.at_round.get(leaf, NOBODY)

    def _contend(self, leaf: str, number: int) -> None:
        """So many more workloads contend inside a leaf; where `number` is negative, fewer."""
        if self.crowds is not None:
            self.crowds.come(leaf, number, self.now_s)

    def _rank_run(self, run: HeldRun) -> None:
        """Note how urgent a run is among those of its leaf, from now on."""
        if self.leaf_order is None:
            return
        slowdown = slowdown_milli(run.size_milli, len(run.holdings), self.nodes.largest_milli)
        crowd = self._crowd_of(run.leaf.id)
        standing = self.leaf_order.running(run.size_milli, run.service, run.running_s, self.now_s, crowd, slowdown)
        if standing.changes_at_s is not None:
            heappush(self._timers, (standing.changes_at_s, "level", run.id))
        urgency = urgency_of(run.priority, standing.level)
        if urgency != run.urgency:
            run.urgency = urgency
            for name in run.holdings:
                self.nodes.index(self.nodes.by_name[name], self.now_s)

    def dequeue(self, workload_id: str) -> Workload:
        """A workload waits no longer: it starts, is held or cancelled. Its claim and its reservation end."""
        if workload_id in self.reservations:
            self.drop_reservation(workload_id)
        if workload_id in self.claims:
            self._forget_claim(workload_id)
        elif workload_id in self.stirred.group_of:  # whom a pass placed has left it
            self.leave_group(self.queued[workload_id])
        workload = self.queued.pop(workload_id)
        queue = self.queues[workload.leaf]
        entries = queue.of(workload)
        del entries[bisect_left(entries, entry_of(workload))]
        if not entries:
            self.tree.ask(self.leaf(workload.leaf), _kind(workload), asks=False)
        if not queue.funded and not queue.unallocated:
            del self.queues[workload.leaf]
        self._changes_s.pop(workload_id, None)
        self._relaxes_s.pop(workload_id, None)
        self.outlooks.pop(workload_id, None)
        self._contend(workload.leaf, -1)
        return workload

    def tell(self, workload_id: str, code: str) -> None:
        """A workload was told that code: passes that are asked for news only do not repeat it."""
        self._retell(workload_id, code)
        self.told[workload_id] = code

    def forget_told(self, workload_id: str) -> None:
        """What a workload was told last counts no more."""
        if workload_id in self.told:
            self._retell(workload_id, None)
            del self.told[workload_id]

    def _retell(self, workload_id: str, code: str | None) -> None:
        workload = self.queued.get(workload_id)
        if workload is not None and workload_id not in self.claims:
            self.queues[workload.leaf].group(workload).retell(self.told.get(workload_id), code)

    def hold(self, workload_id: str) -> None:
        """Take a workload out of the queue until it may return."""
        workload = self.held[workload_id] = self.dequeue(workload_id)
        self._contend(workload.leaf, +1)

    def release(self, workload_id: str) -> None:
        """A held workload returns to its old place."""
        self.enqueue(self.forget_held(workload_id))

    def forget_held(self, workload_id: str) -> Workload:
        """A held workload is held no longer: it returns, or was cancelled."""
        workload = self.held.pop(workload_id)
        self._contend(workload.leaf, -1)
        return workload

    # --- runs -----------------------------------------------------------------------------------------------------

    def start(self, run: Run) -> None:
        """A run holds its devices: from now, or, when a snapshot is built, from its start on.

        Raises:
            ValueError: unknown leaf or node, a run twice, or a node that holds more than it has.
        """
        held = HeldRun(run, self.leaf(run.leaf))
        self.occupy(held)
        if held.funded and held.leave_by_s is None:
            self.commit(held.leaf, held.size_milli * held.min_runtime_s)
        self._count_from_start(held)
        if held.running_s is not None:
            self._run_contract(held, held.running_s)
        self._contend(held.leaf.id, +1)
        self._rank_run(held)

    def confirm(self, run_id: str, service: Service) -> None:
        """A run that a pass put on its nodes, and committed for, holds its devices from now.

        `service` is by what its leaf orders it.
        """
        held = self.runs[run_id]
        held.service = service
        self._count_from_start(held)
        self._contend(held.leaf.id, +1)
        self._rank_run(held)

    def _count_from_start(self, held: HeldRun) -> None:
        for node in held.leaf.line:
            window = node.account.window(funded=held.funded)
            window.bring_to(self.now_s)
            window.hold_since(held.size_milli, held.started_s)

    def begin(self, run_id: str) -> None:
        """Every rank of a run really runs: its contract begins now."""
        run = self.runs[run_id]
        run.running_s = self.now_s
        self._run_contract(run, self.now_s)
        self._rank_run(run)

    def leave(self, run_id: str, leave_by_s: int) -> None:
        """A run was told to stop and leaves by that instant. What was left of its contract will not come."""
        run = self.runs[run_id]
        if run.funded:
            self._drop_contract(run)
        if run.leave_by_s != leave_by_s:  # else a pass has noted it
            self.mark_leaving(run, leave_by_s)

    def end(self, run_id: str) -> None:
        """A run holds its devices no longer."""
        run = self.runs[run_id]
        if run.funded and run.leave_by_s is None:
            self._drop_contract(run)
        self.vacate(run)
        self._contend(run.leaf.id, -1)
        for node in run.leaf.line:
            window = node.account.window(funded=run.funded)
            window.bring_to(self.now_s)
            window.hold(-run.size_milli)

    def add_past_use(self, leaf: str, size_milli: int, from_s: int, until_s: int, *, funded: bool = True) -> None:
        """Count use of before this snapshot's instant (it may exceed what the cluster has today)."""
        for node in self.leaf(leaf).line:
            window = node.account.window(funded=funded)
            window.add_past(size_milli, from_s, until_s)

    def commit(self, leaf: TreeNode, milli_s: int) -> None:
        """Promise a leaf, and all above it, so much more device time, or (negative) take it back."""
        for node in leaf.line:
            node.account.commit(milli_s)

    def _run_contract(self, run: HeldRun, began_s: int) -> None:
        """Let the contract of a run, committed whole so far, pass since `began_s`."""
        if not run.funded or run.leave_by_s is not None:
            return
        run.contract_end_s = began_s + run.min_runtime_s
        passed_s = min(self.now_s, run.contract_end_s) - began_s
        for node in run.leaf.line:
            node.account.run_contracts(self.now_s, run.size_milli)
            node.account.commit(-run.size_milli * passed_s)
        for name in run.holdings:
            self.nodes.index(self.nodes.by_name[name], self.now_s)
        if run.contract_end_s > self.now_s:
            heappush(self._timers, (run.contract_end_s, "run", run.id))
        else:
            self._end_contract(run)

    def _end_contract(self, run: HeldRun) -> None:
        run.is_over = True
        self._count_over(run, +1)
        for node in run.leaf.line:
            node.account.run_contracts(self.now_s, -run.size_milli)
        self._soften(run, +1)

    def _drop_contract(self, run: HeldRun) -> None:
        """Take back the part of a contract that will not come."""
        if run.contract_end_s is None:
            self.commit(run.leaf, -run.size_milli * run.min_runtime_s)
        elif not run.is_over:
            for node in run.leaf.line:
                node.account.run_contracts(self.now_s, -run.size_milli)
                node.account.commit(-run.size_milli * (run.contract_end_s - self.now_s))

    def _soften(self, run: HeldRun, sign: int) -> None:
        for name, amount_milli in run.holdings.items():
            node = self.nodes.by_name[name]
            node.soft_milli += sign * amount_milli
            self.nodes.index(node, self.now_s)

    # --- nodes ----------------------------------------------------------------------------------------------------

    def set_health(self, name: str, health: Health, usable_from_s: int | None = None) -> None:
        """A node became fit or unfit; a fit one starts nothing before `usable_from_s`."""
        node = self.nodes.by_name[name]
        node.health = health
        node.usable_from_s = usable_from_s
        self._watch(node)
        self.nodes.index(node, self.now_s)

    def set_windows(self, name: str, windows: tuple[tuple[int, int], ...]) -> None:
        """Replace the maintenance windows of a node."""
        node = self.nodes.by_name[name]
        node.windows = windows
        self._watch(node)
        self.nodes.index(node, self.now_s)

    # --- claims and reservations ----------------------------------------------------------------------------------

    def claim(self, claim: Claim) -> None:
        """Hold devices for a workload whose victims are leaving; its whole contract counts as committed."""
        workload = self.queued[claim.workload]
        self.leave_group(workload)
        self.put_claim(claim)
        self.commit(self.leaf(workload.leaf), sum(claim.holdings.values()) * workload.min_runtime_s)

    def drop_claim(self, workload_id: str) -> Claim:
        """Hold nothing any longer for a workload with a claim: its plan ended."""
        claim = self._forget_claim(workload_id)
        self.join_group(self.queued[workload_id])
        return claim

    def _forget_claim(self, workload_id: str) -> Claim:
        """The same, of one that does not wait for other devices: it starts, or leaves the queue."""
        claim, workload = self.claims[workload_id], self.queued[workload_id]
        self.take_claim(claim)
        self.commit(self.leaf(workload.leaf), -sum(claim.holdings.values()) * workload.min_runtime_s)
        return claim

    def reserve(self, reservation: Reservation) -> None:
        """Promise devices to a workload; an earlier promise to it is replaced."""
        if reservation.workload in self.reservations:
            self.drop_reservation(reservation.workload)
        self.reservations[reservation.workload] = reservation
        self._keep_for(reservation, +1)
        for name in reservation.holdings:
            node = self.nodes.by_name[name]
            node.reservations.append(reservation)
            self.nodes.promise_changed(node)

    def drop_reservation(self, workload_id: str) -> Reservation:
        """A promise ends."""
        reservation = self.reservations.pop(workload_id)
        self._keep_for(reservation, -1)
        for name in reservation.holdings:
            node = self.nodes.by_name[name]
            node.reservations.remove(reservation)
            self.nodes.promise_changed(node)
        return reservation

    def _keep_for(self, promise: Reservation, sign: int) -> None:
        if self.tree.has_maxima:
            for node in self.leaf(self.queued[promise.workload].leaf).line:
                node.account.promised_milli += sign * sum(promise.holdings.values())


def _kind(workload: Workload) -> int:
    return FUNDED if workload.min_runtime_s else UNALLOCATED
