"""Why a workload waits, as a code (semantics.md section 9). Workloads of one leaf and shape share the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .placing import allowance_milli, is_whole_nodes, place_on_free
from .preemption import find_taking
from .reasons import Code
from .reservations import Certain, certain_for
from .trial import Trial
from .values import Workload

Shape = tuple[str, int, int, int, str | None]
"""What two workloads must have in common to wait for the same reason: leaf, size, contract, priority, pin."""
Answer = TypeVar("Answer")


class WaitingCodes:
    """Answers about what waits, on the figures of one trial."""

    def __init__(self, trial: Trial) -> None:
        """Nothing was asked yet."""
        self._trial = trial
        self._snapshot = trial.snapshot
        self._memo: dict[tuple[str, int, Shape], object] = {}
        self._contracts_matter = bool(trial.policy.swap_margin) or any(
            node.windows for node in trial.snapshot.nodes.by_name.values()
        )

    def shape(self, workload: Workload) -> Shape:
        """What decides the answer. The length of the contract does only where something could cut it short."""
        min_runtime_s = workload.min_runtime_s
        if min_runtime_s and not (self._contracts_matter or self._snapshot.reservations):
            min_runtime_s = 1
        return workload.leaf, workload.size_milli, min_runtime_s, workload.priority, workload.node

    def _once(self, question: str, workload: Workload, answer: Callable[[Workload], Answer]) -> Answer:
        key = (question, self._trial.changes, self.shape(workload))
        if key not in self._memo:
            self._memo[key] = answer(workload)
        return self._memo[key]  # type: ignore[return-value]

    def certain(self, workload: Workload) -> Certain | None:
        """The devices that are certain earliest (section 5)."""
        return self._once("certain", workload, lambda each: certain_for(self._trial, each))

    def is_within_reach(self, workload: Workload) -> bool:
        """Whether it could be placed now: asked once promises to others are out of the way."""
        return self._once(
            "reach",
            workload,
            lambda each: (
                place_on_free(self._snapshot, each) is not None
                or (each.min_runtime_s > 0 and find_taking(self._trial, each) is not None)
            ),
        )

    def static_code(self, workload: Workload) -> Code | None:
        """Why it could not start even on an empty cluster, if so."""
        return self._once("static", workload, self._static_code)

    def _static_code(self, workload: Workload) -> Code | None:
        nodes = self._snapshot.nodes
        if not fits_cluster(self._trial, workload):
            return Code.TOO_LARGE
        fit = [
            node.capacity_milli
            for node in nodes.by_name.values()
            if node.may_start(self._trial.now_s)
            and workload.node in (None, node.name)
            and (not node.windows or allowance_milli(self._snapshot, node, workload, self._trial.now_s))
        ]
        if is_whole_nodes(self._snapshot, workload.size_milli):
            is_enough = sum(fit) >= workload.size_milli
        else:
            is_enough = max(fit, default=0) >= workload.size_milli
        return None if is_enough else Code.WAITING_NODES

    def code(self, workload: Workload, certain: Certain | None) -> Code:
        """The code, given what is certain for it."""
        static = self.static_code(workload)
        if static is not None:
            return static
        if self._snapshot.nodes.free_milli >= workload.size_milli:
            return Code.WAITING_PLACEMENT
        return Code.WAITING_ORDER if certain is None else Code.WAITING_CAPACITY


def fits_cluster(trial: Trial, workload: Workload) -> bool:
    """Whether the cluster is large enough for a workload, fit or not."""
    nodes = trial.snapshot.nodes
    if workload.node is not None:
        node = nodes.by_name.get(workload.node)
        return node is not None and node.capacity_milli >= workload.size_milli
    return workload.size_milli <= nodes.total_milli
