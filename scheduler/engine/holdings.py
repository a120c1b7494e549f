"""Who holds what on which node: runs, those that leave, and plans (semantics.md sections 4 and 6)."""

from __future__ import annotations

from .cluster import HeldRun, Nodes, NodeState
from .tree import BudgetTree
from .values import DEVICE_MILLI, Claim, Resources, Workload


class Holdings:
    """The part of a snapshot that nodes know: no figure of the tree changes here, but what is held at this instant.

    Attributes: as `Snapshot` has them.
    """

    now_s: int
    tree: BudgetTree
    nodes: Nodes
    runs: dict[str, HeldRun]
    runs_of: dict[str, dict[str, HeldRun]]
    over_in: dict[str, int]
    queued: dict[str, Workload]
    claims: dict[str, Claim]

    def occupy(self, run: HeldRun) -> None:
        """Put a run on its nodes.

        Raises:
            ValueError: unknown node, a run twice, or a node that would hold more than it has.
        """
        if run.id in self.runs:
            raise ValueError(f"run {run.id!r} is given twice")
        self.runs[run.id] = run
        if self.tree.counts_holdings:
            self.tree.hold(run.leaf, run.funded, run.resources, +1)
        if run.funded:
            self.runs_of.setdefault(run.leaf.id, {})[run.id] = run
        for name, amount_milli in run.holdings.items():
            node = self.nodes.by_name.get(name)
            if node is None:
                raise ValueError(f"run {run.id!r} is on node {name!r}, which is not known")
            node.runs[run.id] = run
            if run.leave_by_s is not None:
                node.leaving[run.id] = run
            node.held_milli += amount_milli
            if node.held_milli > node.capacity_milli:
                raise ValueError(f"node {name!r} holds more than it has, with run {run.id!r}")
            if run.leave_by_s is None and not run.funded:
                node.soft_milli += amount_milli
                node.unallocated_milli += amount_milli
            if amount_milli < DEVICE_MILLI:
                node.take_device(run)
            self._resettle(node)

    def vacate(self, run: HeldRun) -> None:
        """Take a run off its nodes."""
        del self.runs[run.id]
        if self.tree.counts_holdings:
            self.tree.hold(run.leaf, run.funded, run.resources, -1)
        if run.funded:
            del self.runs_of[run.leaf.id][run.id]
            if run.is_over and run.leave_by_s is None:
                self._count_over(run, -1)
        for name, amount_milli in run.holdings.items():
            node = self.nodes.by_name[name]
            del node.runs[run.id]
            node.leaving.pop(run.id, None)
            node.held_milli -= amount_milli
            if run.leave_by_s is None and (run.is_over or not run.funded):
                node.soft_milli -= amount_milli
                if not run.funded:
                    node.unallocated_milli -= amount_milli
            if amount_milli < DEVICE_MILLI:
                node.leave_device(run)
            self._resettle(node)

    def mark_leaving(self, run: HeldRun, leave_by_s: int | None) -> None:
        """Note that a run was told to stop; None takes that back."""
        was_leaving = run.leave_by_s is not None
        run.leave_by_s = leave_by_s
        softer = was_leaving - (leave_by_s is not None)
        if run.is_over:
            self._count_over(run, softer)
        for name, amount_milli in run.holdings.items():
            node = self.nodes.by_name[name]
            if leave_by_s is None:
                del node.leaving[run.id]
            else:
                node.leaving[run.id] = run
            if run.is_over or not run.funded:
                node.soft_milli += softer * amount_milli
                if not run.funded:
                    node.unallocated_milli += softer * amount_milli
            self._resettle(node)

    def put_claim(self, claim: Claim) -> None:
        """Hold the devices of a claim, and nothing but that."""
        self.claims[claim.workload] = claim
        self._hold_for(claim, +1)
        for name in claim.holdings:
            node = self.nodes.by_name[name]
            node.claims.append(claim)
            self._resettle(node)

    def take_claim(self, claim: Claim) -> None:
        """Hold them no longer, likewise: what was committed for the workload stays."""
        del self.claims[claim.workload]
        self._hold_for(claim, -1)
        for name in claim.holdings:
            node = self.nodes.by_name[name]
            node.claims.remove(claim)
            self._resettle(node)

    def _hold_for(self, claim: Claim, sign: int) -> None:
        if self.tree.counts_holdings:
            workload = self.queued[claim.workload]
            number = len(claim.holdings)
            size_milli = sum(claim.holdings.values())
            resources = Resources(size_milli, number * workload.cpu_milli, number * workload.memory_mib)
            self.tree.hold(self.tree.nodes[workload.leaf], True, resources, sign)

    def _count_over(self, run: HeldRun, change: int) -> None:
        number = self.over_in.get(run.leaf.id, 0) + change
        if number:
            self.over_in[run.leaf.id] = number
        else:
            self.over_in.pop(run.leaf.id, None)

    def _resettle(self, node: NodeState) -> None:
        node.settle_claims()
        self.nodes.index(node, self.now_s)
