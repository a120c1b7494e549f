"""One plain sentence and the numbers behind every decision (semantics.md section 9).

Sentences name what is so, because of whom or what. They hold no instants: those stand in `Reason.earliest_start_s` and
in the numbers, on the caller's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from . import part_words
from .class_words import ClassRoom, Reserve, numbers_of, of_class, reserve_against, room_of
from .cluster import HeldRun
from .maxima import excess, would_hold_milli
from .part_words import freest_for
from .policies.locality import ANY_RACK, ONE_RACK, Looks, fewest_nodes
from .preemption import Claimant, Taking
from .private import kept_from
from .reasons import Code
from .snapshot import Snapshot
from .tree import TreeNode, sides
from .trial import Trial
from .values import DEVICE_MILLI, FUNDED, LEVELS, NO_CELLS, UNALLOCATED, Reason, Workload

CODE_ALONE = {code: Reason(code, "") for code in Code}
"""Reasons without a sentence."""
FOR_ROOM = (Code.WAITING_PLACEMENT, Code.WAITING_CAPACITY, Code.WAITING_ORDER)
"""Why those wait for whom no device has room."""


def amount(snapshot: Snapshot, size_milli: int) -> str:
    """An amount in the cluster's unit: "1 GPU", "8 GPUs", "0.25 GPU"."""
    whole, rest = divmod(size_milli, 1_000)
    number = f"{whole:,}" if not rest else f"{size_milli / 1_000:,.3f}".rstrip("0")
    return f"{number} {snapshot.unit}{'s' if size_milli > 1_000 else ''}"


def is_or_are(size_milli: int) -> str:
    """What goes with such an amount."""
    return "is" if size_milli <= DEVICE_MILLI else "are"


def beside_devices(workload: Workload) -> str:
    """What is asked for beside a number of devices: " of class V100 with 16 cores and 64 GiB"; "" if nothing is."""
    which = f" of class {of_class(workload.gpu_classes)}" if workload.gpu_classes else ""
    asked = []
    if workload.cpu_milli:
        asked.append(f"{_short(workload.cpu_milli / 1_000)} core{'s' if workload.cpu_milli > 1_000 else ''}")
    if workload.memory_mib:
        asked.append(f"{_short(workload.memory_mib / 1_024)} GiB")
    return which + (f" with {' and '.join(asked)}" if asked else "")


def _short(number: float) -> str:
    return f"{number:,.2f}".rstrip("0").rstrip(".")


def named(snapshot: Snapshot, nodes: Iterable[TreeNode]) -> str:
    """Budget nodes as people call them: "Vision", "Vision and Robotics", "Vision and 3 others"."""
    names = [snapshot.names.get(node.id, node.id) for node in nodes]
    if len(names) > 3:
        return f"{names[0]}, {names[1]} and {len(names) - 2} others"
    return " and ".join(names) if len(names) < 3 else f"{names[0]}, {names[1]} and {names[2]}"


def _spread_over(workload: Workload, number: int, fewest: int) -> str:
    """Over how many nodes a gang of several is, and at which level it looked."""
    if number > fewest:
        return f"It is spread over {number:,} nodes, where {fewest:,} would do."
    if workload.spread == ONE_RACK:
        return f"Its {number:,} nodes are of one rack."
    return f"Its {number:,} nodes could be of any rack."


def places(holdings: Mapping[str, int]) -> str:
    """Nodes of a holding, shortened when there are many."""
    names = sorted(holdings)
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} and {len(names) - 1} other nodes"


class Explains(Enum):
    """What a plan says beside what is to be done.

    Attributes:
        ALL: why each workload waits and what starts, with the figures of its levels; places, figures and the order.
        NEWS: only why those wait who were told another code last (`Snapshot.tell`), and why what is done is done.
        NOTHING: codes alone, of what is done: somebody asks what will be, and not why.
    """

    ALL = "all"
    NEWS = "news"
    NOTHING = "nothing"


class Explainer:
    """Writes the reasons of one pass. What workloads of one leaf have in common is worked out once.

    Where nothing is explained, what is done has its code, and the numbers by which a plan is carried out.
    """

    def __init__(self, trial: Trial, explains: Explains) -> None:
        """Explain what this trial decides."""
        self._with_figures = explains is Explains.ALL
        self._says_why = explains is not Explains.NOTHING
        self._trial = trial
        self._snapshot = trial.snapshot
        self._levels: dict[tuple[str, bool, int], tuple[list[dict[str, Any]], str]] = {}
        self._demand: dict[bool, set[str]] = {}

    # --- the order ------------------------------------------------------------------------------------------------

    def levels(self, leaf: TreeNode, is_funded: bool) -> tuple[list[dict[str, Any]], str]:
        """The figures of each node from the top down to the leaf beside the sibling that goes first, and who is ahead.

        The second part names the siblings that have had less, at the highest level at which there are any.
        """
        key = (leaf.id, is_funded, self._trial.changes)
        if key not in self._levels:
            self._levels[key] = self._compare(leaf, is_funded)
        return self._levels[key]

    def _compare(self, leaf: TreeNode, is_funded: bool) -> tuple[list[dict[str, Any]], str]:
        rows: list[dict[str, Any]] = []
        ahead_of_it = ""
        for node in leaf.path:
            assert node.parent is not None
            rivals = [each for each in node.parent.children if each is node or self._has_demand(each, is_funded)]
            less = [each for each in rivals if each is not node and self._served(each, is_funded, node)]
            first = min(less, key=lambda each: self._sort_key(each, is_funded), default=None)
            if less and not ahead_of_it:
                less.sort(key=lambda each: self._sort_key(each, is_funded))
                ahead_of_it = named(self._snapshot, less)
                order = self._snapshot.tree.order
                ahead_of_it += f" {order.ahead if len(less) == 1 else order.ahead_many}"
            if self._with_figures:
                rows.append({**self.figures(node), "first": None if first is None else self.figures(first)})
            elif ahead_of_it:
                break
        return rows, ahead_of_it

    def _has_demand(self, node: TreeNode, is_funded: bool) -> bool:
        """Whether something of that kind waits below a node."""
        if not self._snapshot.tree.bare_leaves:  # then the tree knows of all that waits
            assert node.parent is not None
            return node.id in node.parent.asking[FUNDED if is_funded else UNALLOCATED]
        if is_funded not in self._demand:
            waiting = {
                each.id
                for leaf_id, queue in self._snapshot.queues.items()
                if (queue.funded if is_funded else queue.unallocated)
                for each in self._snapshot.tree.nodes[leaf_id].path
            }
            self._demand[is_funded] = waiting
        return node.id in self._demand[is_funded]

    def _sort_key(self, node: TreeNode, is_funded: bool) -> tuple[bool, Any, str]:
        return not node.weight, self._figure(node, is_funded), node.id

    def _served(self, other: TreeNode, is_funded: bool, node: TreeNode) -> bool:
        return self._sort_key(other, is_funded)[:2] < self._sort_key(node, is_funded)[:2]

    def _figure(self, node: TreeNode, is_funded: bool) -> Any:
        order, now_s = self._snapshot.tree.order, self._trial.now_s
        return order.funded_key(node, now_s) if is_funded else order.unallocated_key(node, now_s)

    def figures(self, node: TreeNode) -> dict[str, Any]:
        """One node's numbers, as JSON has them."""
        now_s = self._trial.now_s
        return {
            "node": node.id,
            "used_milli_s": node.account.charged.bring_to(now_s),
            "committed_milli_s": node.account.committed(now_s),
            "uncharged_milli_s": node.account.uncharged.bring_to(now_s),
            "shares": node.shares,
            **self._snapshot.tree.order.numbers(node),
        }

    # --- what a pass did ------------------------------------------------------------------------------------------

    def started(self, workload: Workload, holdings: Mapping[str, int], is_funded: bool) -> Reason:
        """It holds its devices from now on."""
        if not self._says_why:
            return CODE_ALONE[Code.STARTED]
        numbers: dict[str, Any] = {}
        if self._with_figures:
            numbers["levels"] = self.levels(self._snapshot.leaf(workload.leaf), is_funded)[0]
        size = amount(self._snapshot, sum(holdings.values()))
        how = "charged to its project" if is_funded else "uncharged, on what nobody funded needs"
        text = f"Started with {size} on {places(holdings)}, {how}."
        fewest = fewest_nodes(workload.size_milli, self._snapshot.nodes.largest_milli)
        if self._snapshot.locality_waits_s and len(holdings) > 1:
            numbers["locality"] = {"level": workload.spread, "nodes": len(holdings), "fewest": fewest}
            text = f"{text} {_spread_over(workload, len(holdings), fewest)}"
        return Reason(Code.STARTED, text, numbers)

    def claims(self, workload: Workload, taking: Taking) -> Reason:
        """Its devices are chosen, and it waits until they are left."""
        return self.still_claims(taking.holdings, taking.waits_for)

    def still_claims(self, holdings: Mapping[str, int], waits_for: Sequence[str]) -> Reason:
        """It still waits until its devices are left."""
        numbers = {"waits_for": list(waits_for), "holdings": dict(holdings)}
        if not self._says_why:
            return Reason(Code.WAITING_VICTIMS, "", numbers)
        gone_by_s = [
            run.leave_by_s
            for run_id in waits_for
            if (run := self._snapshot.runs.get(run_id)) is not None and run.leave_by_s is not None
        ]
        milli = sum(holdings.values())
        what = f"{amount(self._snapshot, milli)} on {places(holdings)} {is_or_are(milli)}"
        text = f"Waiting: {what} held for it until the runs there have saved and left."
        return Reason(Code.WAITING_VICTIMS, text, numbers, max(gone_by_s, default=None))

    def preempted(self, claimant: Claimant, victim: HeldRun, code: Code) -> Reason:
        """A run was told to leave for a workload, with both sides' numbers."""
        if not self._says_why:
            return CODE_ALONE[code]
        snapshot = self._snapshot
        by = claimant.workload.id
        size = amount(snapshot, victim.size_milli)
        numbers: dict[str, Any] = {"by": by, "rule": code.value}
        if victim.funded:
            numbers["contract_over_for_s"] = self._trial.now_s - (victim.contract_end_s or self._trial.now_s)
        if victim.leaf is claimant.leaf:
            numbers["priorities"] = [claimant.workload.priority, victim.priority]
            if snapshot.leaf_order is not None:
                numbers["levels"] = [claimant.workload.level, victim.urgency % LEVELS]
        else:
            own, theirs = sides(claimant.leaf, victim.leaf)
            numbers["sides"] = [self.figures(own), self.figures(theirs)]
            margin = self._trial.reaches.margin_milli_s(claimant.workload)
            numbers["margin_milli_s"] = list(margin.as_integer_ratio())
        if code is Code.PREEMPTED_UNALLOCATED:
            text = f"{by} took its {size}. It ran unallocated, which any funded workload may take over."
        elif code is Code.PREEMPTED_PRIORITY:
            why = "has the higher priority"
            if snapshot.leaf_order is not None and claimant.workload.priority == victim.priority:
                why = snapshot.leaf_order.why
            text = f"{by} took its {size}. Its contract was over, and {by} {why} in the same project."
        elif code is Code.PREEMPTED_FAIR_SHARE:
            had = snapshot.tree.order.took
            who, whom = named(snapshot, [own]), named(snapshot, [theirs])
            text = f"{by} took its {size}. Its contract was over, and {who} {had} {whom}."
        elif code is Code.PREEMPTED_CELL:
            whose = named(snapshot, [snapshot.tree.nodes[claimant.leaf.tenant or claimant.leaf.id]])
            numbers["tenant"] = claimant.leaf.tenant
            text = f"{by} took its {size}. Its contract was over, and it was in a private cell of {whose}."
        else:
            text = f"{by} took its {size}. Its contract was over, and these had been promised to {by} from now on."
        return Reason(code, text, numbers)

    def emptied(self, victim: HeldRun, code: Code, node: str) -> Reason:
        """A run was told to leave because its node is to be empty."""
        why = "is in maintenance" if code is Code.MAINTENANCE else "is being drained"
        what = "its contract was over" if victim.funded else "it ran unallocated"
        numbers: dict[str, Any] = {"node": node}
        if victim.funded:
            numbers["contract_over_for_s"] = self._trial.now_s - (victim.contract_end_s or self._trial.now_s)
        return Reason(code, f"Stopped: {node} {why}, and {what}.", numbers)

    def held(self, workload: Workload, code: Code) -> Reason:
        """It may not wait here any longer."""
        name = named(self._snapshot, [self._snapshot.leaf(workload.leaf)])
        if code is Code.CLOSED:
            return Reason(code, f"Held: {name} is closed. Move it or cancel it.", {"leaf": workload.leaf})
        text = f"Held: {name} has no allocation to charge. It returns to its place when {name} has one again."
        return Reason(code, text, {"leaf": workload.leaf})

    def released(self, workload: Workload) -> Reason:
        """What held it is gone."""
        name = named(self._snapshot, [self._snapshot.leaf(workload.leaf)])
        return Reason(Code.WAITING_ORDER, f"Back in its old place in the queue of {name}.", {"leaf": workload.leaf})

    def promised(self, workload: Workload, holdings: Mapping[str, int], at_s: int, counts_on: Sequence[str]) -> Reason:
        """From that instant on these devices are its own."""
        if not self._says_why:
            return Reason(Code.WAITING_CAPACITY, "", {"at_s": at_s, "counts_on": counts_on}, at_s)
        size = amount(self._snapshot, sum(holdings.values()))
        numbers = {
            "at_s": at_s,
            "counts_on": list(counts_on),
            "holdings": dict(holdings),
            "free_milli": self._snapshot.nodes.free_milli,
        }
        are = is_or_are(sum(holdings.values()))
        text = f"Waiting: {size} on {places(holdings)} {are} reserved for it from when contracts there have ended."
        return Reason(Code.WAITING_CAPACITY, text, numbers, at_s)

    def plan_ended(self, code: Code, text: str) -> Reason:
        """A claim or a promise stands no longer."""
        return Reason(code, text)

    # --- why it waits ---------------------------------------------------------------------------------------------

    def waits(self, workload: Workload, code: Code, at_s: int | None) -> Reason:
        """Why a workload was left waiting; shared by all of its shape and leaf."""
        snapshot = self._snapshot
        is_funded = workload.min_runtime_s > 0
        numbers: dict[str, Any] = {"size_milli": workload.size_milli, "free_milli": snapshot.nodes.free_milli}
        ahead = ""
        if self._with_figures or code is Code.WAITING_ORDER:
            rows, ahead = self.levels(snapshot.leaf(workload.leaf), is_funded)
            if self._with_figures:
                numbers = {"levels": rows, **numbers}
        if snapshot.leaf_order is not None:
            numbers["level"] = workload.level
        size = amount(snapshot, workload.size_milli) + beside_devices(workload)
        if workload.cpu_milli or workload.memory_mib:
            numbers |= {"cpu_milli": workload.cpu_milli, "memory_mib": workload.memory_mib}
        room, reserve = room_of(snapshot, workload), reserve_against(snapshot, workload)
        freest = freest_for(snapshot, workload) if code in FOR_ROOM else None
        numbers |= numbers_of(room, reserve, workload) | part_words.numbers_of(freest)
        if code is Code.WAITING_MAXIMUM:
            return self._exceeds_maximum(workload, numbers)
        if code is Code.WAITING_CELLS:
            return self._stays_off_cells(workload, size, numbers, at_s)
        ends_s = None if workload.spread == ONE_RACK else at_s  # that may be when it looks further, and no end
        is_part = workload.size_milli < DEVICE_MILLI
        are = is_or_are(workload.size_milli)
        text = self._sentence(code, size, are, is_part, ahead, is_funded, ends_s)
        text += self._of_classes(code, room, reserve)
        if freest is not None:
            most = amount(snapshot, freest.milli)
            text += f" The most that is free on one {snapshot.unit} is {most}, on {freest.node}."
        if code is not Code.TOO_LARGE and (workload.relaxes_s is not None or workload.spread != ANY_RACK):
            text = f"{text} {self._looks(workload, numbers)}"
        return Reason(code, text, numbers, at_s)

    def _of_classes(self, code: Code, room: ClassRoom | None, reserve: Reserve | None) -> str:
        """What nodes of its classes have, where that is why it waits, and what is kept free of high-end ones."""
        if code not in (Code.WAITING_PLACEMENT, Code.WAITING_NODES):
            return ""
        text = ""
        if room is not None and code is Code.WAITING_NODES:
            text += f" Fit of such a class: {self._or_none(room.fit_milli)}."
        elif room is not None:
            text += f" Free of such a class: {self._or_none(room.free_milli)}."
        if reserve is not None and code is Code.WAITING_PLACEMENT:
            free, kept = self._or_none(reserve.free_milli), amount(self._snapshot, reserve.kept_milli)
            text += f" Free of high-end classes: {free}; {kept} of these stay free for work that needs them."
        return text

    def _or_none(self, milli: int) -> str:
        return amount(self._snapshot, milli) if milli else "none"

    def _looks(self, workload: Workload, numbers: dict[str, Any]) -> str:
        """At which level it looks for devices and what comes then; the numbers say when."""
        snapshot, level = self._snapshot, workload.spread
        size_milli, node_milli = workload.size_milli, snapshot.nodes.largest_milli
        later = None
        if workload.relaxes_s is not None:
            later = snapshot.gang(workload).level_after(workload.relaxes_s - workload.waits_since_s)
        looks = Looks(level, later, size_milli, node_milli)
        numbers["locality"] = {
            "level": level,
            "nodes": looks.now,
            "relaxes_at_s": workload.relaxes_s,
            "later_level": later,
            "later_nodes": looks.later,
        }
        return looks.sentence()

    def _exceeds_maximum(self, workload: Workload, numbers: dict[str, Any]) -> Reason:
        snapshot = self._snapshot
        size_milli = would_hold_milli(workload.size_milli, snapshot.nodes.largest_milli)
        over = excess(snapshot, workload, size_milli)
        assert over is not None
        numbers |= {"node": over.node.id, "maximum_milli": over.maximum_milli, "counted_milli": over.held_milli}
        name = named(snapshot, [over.node])
        most, held, more = (amount(snapshot, milli) for milli in (over.maximum_milli, over.held_milli, size_milli))
        text = f"Waiting: its budget's maximum of {most}. {name} has {held}, and this would be {more} more."
        return Reason(Code.WAITING_MAXIMUM, text, numbers)

    def _stays_off_cells(self, workload: Workload, size: str, numbers: dict[str, Any], at_s: int | None) -> Reason:
        """It could have devices, but that these are on private cells of others, of which some may be missing."""
        snapshot = self._snapshot
        cells, missing = kept_from(snapshot, workload)
        whose = sorted(set(cells.values()))
        name = named(snapshot, [snapshot.tree.nodes[tenant] for tenant in whose])
        numbers |= {"nodes": len(cells), "tenants": whose, "missing": {"node": missing.node, "rack": missing.rack}}
        others = "others, " if len(whose) > 1 else ""
        text = f"Waiting: {size} would fit only on nodes that are private to {others}{name} ({len(cells):,} of them)."
        if missing != NO_CELLS:
            text += " Some cells that were granted are not fit and clear yet."
        return Reason(Code.WAITING_CELLS, text, numbers, at_s)

    def _sentence(
        self, code: Code, size: str, are: str, is_part: bool, ahead: str, is_funded: bool, at_s: int | None
    ) -> str:
        unit = self._snapshot.unit
        bare = unit if size == f"1 {unit}" else size
        none = f"no {unit} has {size} free" if is_part else f"no {bare} {are} free"
        if code is Code.TOO_LARGE:
            return f"It asks for {size}, which is more than the whole cluster has."
        if code is Code.WAITING_NODES:
            return f"Waiting: too few nodes are fit for {size}."
        if code is Code.WAITING_RESERVATION:
            return f"Waiting: {size} {are} within reach, but its contract would delay a start that was promised."
        if code is Code.WAITING_PLACEMENT and is_part:
            where = "; contracts for so much on one end at the instant given" if at_s is not None else ""
            return f"Waiting: parts of {unit}s are free, but {none}{where}."
        if code is Code.WAITING_PLACEMENT:
            where = f"; enough contracts for {size} together end at the instant given" if at_s is not None else ""
            return f"Waiting: enough {unit}s are free, but not where {size} would be together{where}."
        if code is Code.WAITING_CAPACITY:
            come = "comes" if are == "is" else "come"
            free = f"{size} {come} free at the instant given"
            return f"Waiting: the {unit}s that it may have are inside contracts. {free}."
        if ahead:
            return f"Waiting: {ahead}."
        if is_funded:
            return f"Waiting: {none}, and nobody else has had more of a share that it could take over from."
        return f"Waiting: {none}, and unallocated work starts only on what nobody funded needs."
