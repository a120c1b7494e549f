"""Why workloads wait (semantics.md section 9). Those of one leaf and shape share the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from .classes import is_reserve_kept_from
from .explain import Explainer
from .host import is_anywhere, is_large_enough
from .maxima import excess, would_hold_milli
from .placing import allowance_milli, is_bound_to_rack, is_whole_nodes, place_on_free
from .policies.locality import ANY_RACK, ONE_RACK, TWICE
from .preemption import find_taking, is_out_of_reach
from .private import cells_aside, is_tenants, keeps_from
from .queues import Group
from .reach import Reach
from .reasons import Code
from .reservations import Certain, certain_at_s, certain_for, is_any_certain
from .snapshot import Snapshot
from .standing import codes_of_sizes
from .trial import Trial
from .values import DEVICE_MILLI, Action, Decision, Reason, Reservation, Workload

Shape = tuple[str, int, int, int, str | None, int, int, tuple[str, ...], bool, int, int | None]
"""What two workloads must have in common to wait for the same reason: leaf, size, contract, urgency, pin, cores,
memory, classes, whether they need the fast ones, how far they may be spread, and, of those bound to one rack, from when
on further."""
Answer = TypeVar("Answer")
SETTLED = (Code.WAITING_NODES, Code.TOO_LARGE, Code.WAITING_MAXIMUM)
"""Whatever contracts end or were promised: it waits for something else."""


class WaitingCodes:
    """Answers about what waits, on the figures of one trial."""

    def __init__(self, trial: Trial) -> None:
        """Nothing was asked yet."""
        self._trial = trial
        self._snapshot = trial.snapshot
        self._memo: dict[tuple[str, int, int, str | None, Shape], object] = {}
        self._has_windows = trial.snapshot.nodes.have_windows
        self._has_cells = bool(trial.snapshot.tree.tenants)
        self._contracts_matter = trial.reaches.has_margin or self._has_windows or self._has_cells
        self._has_maxima = trial.snapshot.tree.has_maxima
        self.are_grouped = not (trial.reaches.has_margin or self._has_windows)
        """Whether the answers are those of the groups that a leaf's queue keeps (queues.py)."""

    def shape(self, workload: Workload) -> Shape:
        """What decides the answer. The length of the contract does only where something could cut it short."""
        min_runtime_s = workload.min_runtime_s
        if min_runtime_s and not self._contracts_matter:
            min_runtime_s = 1
        return (
            workload.leaf,
            workload.size_milli,
            min_runtime_s,
            workload.urgency,
            workload.node,
            workload.cpu_milli,
            workload.memory_mib,
            workload.gpu_classes,
            workload.is_high,
            workload.spread,
            workload.relaxes_s if workload.spread == ONE_RACK else None,
        )

    def _once(self, question: str, workload: Workload, answer: Callable[[Workload], Answer]) -> Answer:
        # What was promised to a workload stands in everybody's way but its own: its answers are not the others'.
        holder = workload.id if workload.id in self._snapshot.reservations else None
        key = (question, self._trial.changes, self._trial.promises, holder, self.shape(workload))
        if key not in self._memo:
            self._memo[key] = answer(workload)
        return self._memo[key]  # type: ignore[return-value]

    def certain(self, workload: Workload) -> Certain | None:
        """The devices that are certain earliest (section 5)."""
        return self._once("certain", workload, lambda each: certain_for(self._trial, each))

    def certain_at_s(self, workload: Workload) -> int | None:
        """The instant from which they are."""
        return self._once("certain at", workload, lambda each: certain_at_s(self._trial, each))

    def is_any_certain(self, workload: Workload) -> bool:
        """Whether any are."""
        return self._once("any", workload, lambda each: is_any_certain(self._trial, each))

    def is_plain(self, workload: Workload) -> bool:
        """Whether only the room on some one node, or on whole nodes in all, decides about it."""
        if self._contracts_matter or workload.node is not None or workload.asks_host:
            return False
        if is_reserve_kept_from(self._snapshot, workload):
            return False
        if is_whole_nodes(self._snapshot, workload.size_milli):
            return workload.spread == ANY_RACK and not self._has_maxima
        return workload.spread < TWICE

    def is_within_reach(self, workload: Workload) -> bool:
        """Whether a funded workload could be placed now if nothing had been promised to others.

        For one that is not plain this is to be asked while the promises are out of the way.
        """
        if self.is_plain(workload):
            return self._trial.reaches.has_now(workload, workload.size_milli)
        return self._once("reach", workload, self._could_be_placed)

    def is_within_reach_but_for_cells(self, workload: Workload) -> bool:
        """The same of a funded workload if nobody had cells, and with what was promised."""
        if not self._has_cells or not workload.min_runtime_s:
            return False
        with cells_aside(self._snapshot):
            return self._once("reach but for cells", workload, self._could_be_placed)

    def _could_be_placed(self, workload: Workload) -> bool:
        return place_on_free(self._snapshot, workload) is not None or find_taking(self._trial, workload) is not None

    def exceeds_maximum(self, workload: Workload) -> bool:
        """Whether its start, or that of any of its leaf that asks for the same, would exceed a budget's maximum.

        Of those to whom nothing was promised: what was promised to anybody counts.
        """
        if not self._has_maxima:
            return False
        size_milli = would_hold_milli(workload.size_milli, self._snapshot.nodes.largest_milli)
        return excess(self._snapshot, workload, size_milli) is not None

    def static_code(self, workload: Workload) -> Code | None:
        """Why it could not start even on an empty cluster, if so."""
        return self._once("static", workload, self._static_code)

    def _static_code(self, workload: Workload) -> Code | None:
        nodes = self._snapshot.nodes
        if not fits_cluster(self._trial, workload):
            return Code.TOO_LARGE
        if not nodes.restless:
            return None
        in_all_milli, most_milli = self._fit_milli(workload)
        is_on_several = workload.spread >= TWICE or is_whole_nodes(self._snapshot, workload.size_milli)
        room_milli = in_all_milli if is_on_several else most_milli
        return None if room_milli >= workload.size_milli else Code.WAITING_NODES

    def _fit_milli(self, workload: Workload) -> tuple[int, int]:
        """What the nodes that are fit for it have, in all and the largest."""
        nodes, now_s = self._snapshot.nodes, self._trial.now_s
        if workload.node is None and not workload.asks_host and not self._has_windows:
            return nodes.fit_milli
        fit = [
            node.capacity_milli
            for node in nodes.by_name.values()
            if node.may_start(now_s)
            and workload.node in (None, node.name)
            and is_large_enough(node, workload)
            and (
                not node.windows
                or keeps_from(self._snapshot, node, workload)
                or allowance_milli(self._snapshot, node, workload, now_s)
            )
        ]
        return sum(fit), max(fit, default=0)


class Waits:
    """The decisions of a pass about those that it looked at and left waiting (step 7)."""

    def __init__(self, trial: Trial, explainer: Explainer, codes: WaitingCodes) -> None:
        """Explain what this trial has come to."""
        self._trial = trial
        self._explainer = explainer
        self._codes = codes
        self._promises = dict(trial.snapshot.reservations)

    def decisions(self, waiting: Sequence[tuple[Workload, int]], told: Mapping[str, str] | None) -> list[Decision]:
        """One decision for each, but for those whose code the caller knows already."""
        self._trial.reaches.look_again()
        codes = self._by_shape([workload for workload, _ in waiting])
        reasons: dict[object, Reason] = {}
        found = []
        for workload, place in waiting:
            shape = self._codes.shape(workload)
            promise = self._promises.get(workload.id)
            code = self._own_code(codes[shape], promise)
            if told is not None and told.get(workload.id) == code:
                continue
            key = (code, shape, workload.id if promise is not None else "", workload.relaxes_s)
            if key not in reasons:
                reasons[key] = self._reason(workload, code, promise)
            found.append(Decision(workload=workload.id, action=Action.WAIT, reason=reasons[key], place=place or None))
        return found

    def news(self) -> list[Decision]:
        """Those of whom the snapshot was told another code last, in the order of their ids.

        Groups in which everybody was told so already are passed by.
        """
        snapshot = self._trial.snapshot
        groups = list(snapshot.stirred.funded)
        codes = self._by_group(groups)
        promised: dict[Group, list[Reservation]] = {}
        closer: list[Workload] = []
        for promise in self._promises.values():
            workload = snapshot.queued[promise.workload]
            promised.setdefault(snapshot.queues[workload.leaf].group(workload), []).append(promise)
        found: list[Decision] = []
        for group, code in zip(groups, codes, strict=True):
            if code is None:
                closer += group.members.values()
                continue
            if group in promised:
                known = self._number_told(group, code, promised[group])
            else:
                known = group.number_told(code)
            if known != len(group.members):
                found += self._news_for(group, code, len(group.members) - known)
        for group, code in self._unallocated():
            known = group.number_told(code)
            if known != len(group.members):
                found += self._news_for(group, code, len(group.members) - known)
        if closer:
            found += self.decisions([(workload, 0) for workload in closer], snapshot.told)
        found.sort(key=lambda each: each.workload)
        return found

    def _number_told(self, group: Group, code: Code, promises: Sequence[Reservation]) -> int:
        """How many of a group know already why they wait, if some of it have these promises."""
        told = self._trial.snapshot.told
        known = group.number_told(code)
        for promise in promises:
            if promise.workload in group.members:
                own = self._own_code(code, promise)
                known += (told.get(promise.workload) == own) - (told.get(promise.workload) == code)
        return known

    def _news_for(self, group: Group, code: Code, number: int) -> list[Decision]:
        """What so many of a group are told, who do not know it yet: mostly those that joined it last."""
        told = self._trial.snapshot.told
        found: list[Decision] = []
        reason: Reason | None = None
        for workload in reversed(group.members.values()):
            if len(found) == number:
                break
            promise_to_it = self._promises.get(workload.id)
            own = self._own_code(code, promise_to_it)
            if told.get(workload.id) == own:
                continue
            if promise_to_it is not None or workload.relaxes_s is not None:  # its instants are its own
                said = self._reason(workload, own, promise_to_it)
            else:
                said = reason = reason or self._reason(workload, own, None)
            found.append(Decision(workload=workload.id, action=Action.WAIT, reason=said))
        return found

    def _unallocated(self) -> list[tuple[Group, Code]]:
        """The unallocated groups that might hear something new, with their codes.

        Why one waits follows from its size, unless it is particular or bound by a maximum. Groups of a size that is
        told what it was told before are looked at only if they have moved.
        """
        stirred = self._trial.snapshot.stirred
        codes = codes_of_sizes(self._trial.snapshot)
        self._stir(codes)
        found = []
        for group in list(stirred.unallocated):
            code = codes[group.size_milli]
            if group.is_particular or self._codes.exceeds_maximum(group.any()):
                code = self._code(group.any())
            elif group.number_told(code) == len(group.members):
                del stirred.unallocated[group]
                continue
            found.append((group, code))
        return found

    def _stir(self, codes: dict[int, Code]) -> None:
        """Note the groups whose answers may have become others."""
        snapshot = self._trial.snapshot
        stirred = snapshot.stirred
        if snapshot.tree.has_maxima:  # then what others of a budget hold decides, too
            for queue in snapshot.queues.values():
                stirred.unallocated.update(dict.fromkeys(queue.unallocated_groups.values()))
        elif codes != snapshot.size_codes:
            others = {size_milli for size_milli in codes if snapshot.size_codes.get(size_milli) != codes[size_milli]}
            for queue in snapshot.queues.values():
                for group in queue.unallocated_groups.values():
                    if group.size_milli in others or group.is_particular:
                        stirred.unallocated[group] = None
        snapshot.size_codes = codes

    def _by_group(self, groups: Sequence[Group]) -> list[Code | None]:
        """The code of every funded group. Those that take a closer look are looked at by shape.

        None where private cells and promises both count, so that not all of a group may wait for the same.
        """
        codes: list[Code | None] = []
        closer: dict[int, Workload] = {}
        snapshot, reaches = self._trial.snapshot, self._trial.reaches
        nodes = snapshot.nodes
        free_milli, largest_milli, total_milli = nodes.free_milli, nodes.largest_milli, nodes.total_milli
        in_all_milli, on_one_milli = nodes.fit_milli
        is_anything_promised = bool(self._promises)
        has_cells = bool(snapshot.tree.tenants)
        for index, group in enumerate(groups):
            code = None
            size_milli = group.size_milli
            if group.is_particular or size_milli > total_milli or is_reserve_kept_from(snapshot, group.any()):
                closer[index] = group.last()
            elif size_milli > (in_all_milli if size_milli > largest_milli else on_one_milli):
                code = Code.WAITING_NODES
            elif self._codes.exceeds_maximum(group.any()):
                code = Code.WAITING_MAXIMUM
            elif has_cells and self._may_wait_for_cells(group, reaches.but_for_cells(group)):
                if self._waits_for_cells(group, reaches.but_for_cells(group)):
                    code = Code.WAITING_CELLS
                else:
                    closer[index] = group.any()
            else:
                reach = reaches.of_group(group)
                if is_anything_promised and (size_milli < DEVICE_MILLI or reach.has_now(snapshot, size_milli)):
                    if size_milli >= DEVICE_MILLI and self._codes.is_plain(group.any()):
                        code = Code.WAITING_RESERVATION
                    else:
                        closer[index] = group.any()
                elif free_milli >= size_milli:
                    code = Code.WAITING_PLACEMENT
                elif reach.has_ever(snapshot, max(size_milli, DEVICE_MILLI)):
                    code = Code.WAITING_CAPACITY
                else:
                    code = Code.WAITING_ORDER
            codes.append(code)
        if not closer or (has_cells and is_anything_promised):
            return codes
        found = self._by_shape(list(closer.values()))
        return [code or found[self._codes.shape(closer[index])] for index, code in enumerate(codes)]

    def _may_wait_for_cells(self, group: Group, but_for_cells: Reach) -> bool:
        """Whether private cells might be why a group waits, or decide with promises what it stays off."""
        snapshot, size_milli = self._trial.snapshot, group.size_milli
        if size_milli < DEVICE_MILLI or but_for_cells.has_now(snapshot, size_milli):
            return True
        return bool(self._promises) and is_tenants(snapshot, group.any()) and is_on_any(snapshot, size_milli)

    def _waits_for_cells(self, group: Group, but_for_cells: Reach) -> bool:
        """Whether they surely are, whatever its contracts: there is enough of which nothing was promised."""
        snapshot, size_milli = self._trial.snapshot, group.size_milli
        if size_milli < DEVICE_MILLI:
            return False
        if self._promises:
            return but_for_cells.has_now_unpromised(snapshot, size_milli)
        return but_for_cells.has_now(snapshot, size_milli)

    def _own_code(self, code: Code, promise: Reservation | None) -> Code:
        """The code of one of a shape: what was promised to it comes before what the others are told.

        But for a gang that might have enough at once in several racks, and looks in one: that is what it waits for.
        """
        if promise is None or code is Code.WAITING_NODES:
            return code
        snapshot = self._trial.snapshot
        if code is Code.WAITING_PLACEMENT and is_bound_to_rack(snapshot, snapshot.queued[promise.workload]):
            return code
        return Code.WAITING_CAPACITY

    def _by_shape(self, waiting: Sequence[Workload]) -> dict[Shape, Code]:
        """The code of every shape that waits."""
        shapes = {self._codes.shape(workload): workload for workload in waiting}
        codes = {shape: self._code(workload) for shape, workload in shapes.items()}
        for shape, workload in shapes.items():
            if codes[shape] not in SETTLED and self._codes.is_within_reach_but_for_cells(workload):
                codes[shape] = Code.WAITING_CELLS
        if not self._promises:
            return codes
        funded = {
            shape: workload
            for shape, workload in shapes.items()
            if workload.min_runtime_s and codes[shape] not in (*SETTLED, Code.WAITING_CELLS)
        }
        if self._codes.are_grouped:
            funded = {shape: workload for shape, workload in funded.items() if self._may_be_within_reach(workload)}
        plain = {shape: workload for shape, workload in funded.items() if self._codes.is_plain(workload)}
        within = [shape for shape, workload in plain.items() if self._codes.is_within_reach(workload)]
        if len(plain) < len(funded):
            others = funded.keys() - plain.keys()
            with self._trial.reaches.promises_aside():
                for workload_id in sorted(self._promises):
                    self._trial.end_reservation(workload_id)
                within += [shape for shape in shapes if shape in others and self._codes.is_within_reach(funded[shape])]
                for workload_id in sorted(self._promises):
                    self._trial.reserve(self._promises[workload_id])
        codes.update(dict.fromkeys(within, Code.WAITING_RESERVATION))
        return codes

    def _may_be_within_reach(self, workload: Workload) -> bool:
        """Whether it might be placed now if nothing had been promised, whatever cells are matched then."""
        snapshot = self._trial.snapshot
        if is_tenants(snapshot, workload):
            return workload.size_milli < DEVICE_MILLI or is_on_any(snapshot, workload.size_milli)
        with cells_aside(snapshot):
            return not is_out_of_reach(self._trial, workload)

    def _code(self, workload: Workload) -> Code:
        """Its code, but for what promises to others keep from it."""
        static = self._codes.static_code(workload)
        if static is not None:
            return static
        if self._codes.exceeds_maximum(workload):
            return Code.WAITING_MAXIMUM
        if self._trial.snapshot.nodes.free_milli >= workload.size_milli:
            return Code.WAITING_PLACEMENT
        if workload.min_runtime_s and self._codes.is_any_certain(workload):
            return Code.WAITING_CAPACITY
        return Code.WAITING_ORDER

    def _reason(self, workload: Workload, code: Code, promise: Reservation | None) -> Reason:
        if promise is not None and code is Code.WAITING_CAPACITY:
            return self._explainer.promised(workload, promise.holdings, promise.at_s, promise.counts_on)
        if not workload.min_runtime_s or code in SETTLED:
            return self._explainer.waits(workload, code, None)
        if promise is not None:
            return self._explainer.waits(workload, code, promise.at_s)
        at_s = None
        if self._codes.is_any_certain(workload):
            at_s = self._codes.certain_at_s(workload)
        return self._explainer.waits(workload, code, at_s)


def is_on_any(snapshot: Snapshot, size_milli: int) -> bool:
    """Whether so much would be on one node, or, if it is more, on whole nodes, if all left who may have to."""
    nodes = snapshot.nodes.by_name.values()
    if is_whole_nodes(snapshot, size_milli):
        return sum(node.capacity_milli for node in nodes if node.open_milli >= node.capacity_milli) >= size_milli
    return any(node.open_milli >= size_milli for node in nodes)


def fits_cluster(trial: Trial, workload: Workload) -> bool:
    """Whether the cluster is large enough for a workload, fit or not."""
    nodes = trial.snapshot.nodes
    if workload.node is not None:
        node = nodes.by_name.get(workload.node)
        return node is not None and node.capacity_milli >= workload.size_milli and is_large_enough(node, workload)
    return workload.size_milli <= nodes.total_milli and is_anywhere(trial.snapshot, workload)
