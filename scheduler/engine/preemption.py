"""Who may be preempted, by whom, and the choice of victims (semantics.md section 4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from operator import itemgetter
from typing import NamedTuple

from .classes import leaves_reserve, suits, without_reserved
from .cluster import HeldRun, NodeState
from .frozen import value
from .host import fits_now, is_bound
from .maxima import Excess, excess_of
from .placing import (
    Candidate,
    allowance_milli,
    by_rack,
    choose_whole_nodes,
    highest_cost,
    is_bound_to_rack,
    is_whole_nodes,
)
from .policies.locality import TWICE
from .private import is_in_cell_of, is_on_others_cell, keeps_from
from .reasons import Code
from .trial import Trial
from .values import DEVICE_MILLI, Reservation, Workload

MOST_COMBINED = 12
"""Every set of so many victims on one node is tried where amounts alone do not decide."""
FinerKey = tuple[int, int, int, str]
"""Which of two victims that cost the same goes first: unallocated, most served, latest start, id."""


@value(frozen=True, slots=True)
class Taking:
    """Devices for a whole gang that have to be left first.

    `victims` are newly told to leave; `waits_for` are all runs whose leaving it waits for, these included.
    """

    holdings: Mapping[str, int]
    victims: tuple[HeldRun, ...]
    waits_for: tuple[str, ...]


class NodeCost(NamedTuple):
    """What it costs to make room on one node, compared from left to right. A gang is disturbed whole."""

    funded_milli: int
    disturbed_milli: int
    victims: int
    left_milli: int  # of what others are leaving already: free devices first
    finer: tuple[FinerKey, ...]


Offer = tuple[NodeCost, int, str, tuple[HeldRun, ...]]
"""What room on one node costs, what is open there, the node's name, and the victims: the least is the best."""


class Claimant:
    """A funded workload that looks for devices, with what it may take from whom.

    Where its start would exceed a budget's maximum (`excess`), it may only take over from funded runs below that node,
    and from so many that the node holds no more than it may.
    """

    def __init__(self, trial: Trial, workload: Workload) -> None:
        """Prepare the comparison of sides."""
        self.trial = trial
        self.snapshot = trial.snapshot
        self.workload = workload
        self.leaf = trial.snapshot.leaf(workload.leaf)
        self.reach = trial.reaches.of(workload)
        self.due = due_promise(trial, workload)
        self.excess = excess_of(trial.snapshot, workload)

    @property
    def is_reach_all(self) -> bool:
        """Whether it can have no more on any node than its reach says: of whole devices, by rules (a) to (c) alone."""
        return self.workload.size_milli >= DEVICE_MILLI and self.due is None and not self.snapshot.tree.tenants

    def has_been_served_less(self, victim: HeldRun) -> bool:
        """Rules (b) and (c) but for the end of the contract."""
        if victim.leaf is self.leaf:
            return victim.urgency < self.workload.urgency
        return victim.leaf.id in self.reach.beaten

    def may_when_over(self, victim: HeldRun) -> bool:
        """Whether it may take a funded run's devices once the contract is over: by rule (b) or (c), or in its cell."""
        return self.has_been_served_less(victim) or is_in_cell_of(self.snapshot, victim, self.leaf.tenant)

    def rule_against(self, victim: HeldRun) -> Code | None:
        """The rule of section 4 by which it may take a run's devices now, or None."""
        if victim.leave_by_s is not None:
            return None
        if self.excess is not None and not (victim.funded and self.excess.node in victim.leaf.path):
            return None
        if not victim.funded:
            return Code.PREEMPTED_UNALLOCATED
        if not victim.is_over:
            return None
        if self.has_been_served_less(victim):
            return Code.PREEMPTED_PRIORITY if victim.leaf is self.leaf else Code.PREEMPTED_FAIR_SHARE
        if is_in_cell_of(self.snapshot, victim, self.leaf.tenant):
            return Code.PREEMPTED_CELL
        if self.due is not None and self._is_due(victim, self.due):
            return Code.PREEMPTED_RESERVATION
        return None

    def victims_on(self, node: NodeState) -> list[HeldRun]:
        """The runs on a node whose devices it may take now."""
        return [
            run
            for run in node.runs.values()
            if run.leave_by_s is None and (run.is_over or not run.funded) and self.rule_against(run) is not None
        ]

    def _is_due(self, victim: HeldRun, promise: Reservation) -> bool:
        if victim.id in promise.counts_on:
            return True
        return victim.started_s >= promise.made_s and not promise.holdings.keys().isdisjoint(victim.holdings)


def due_promise(trial: Trial, workload: Workload) -> Reservation | None:
    """What was promised to a workload, if the instant has come: rule (d)."""
    promise = trial.snapshot.reservations.get(workload.id)
    return promise if promise is not None and promise.at_s <= trial.now_s else None


def is_out_of_reach(trial: Trial, workload: Workload) -> bool:
    """Whether there is too little that is free or could be taken over now, by rules (a) to (c), whatever was promised.

    A quick look that may err towards "perhaps", as it does where private cells are not all that decides.
    """
    snapshot, size_milli = trial.snapshot, workload.size_milli
    if size_milli < DEVICE_MILLI or is_on_others_cell(snapshot, workload):
        return False
    if workload.node is not None and snapshot.tree.tenants:  # what is matched without that node decides
        return False
    if workload.spread >= TWICE and snapshot.nodes.free_milli >= size_milli:
        return False
    if workload.node is not None:
        node = snapshot.nodes.by_name.get(workload.node)
        return node is None or trial.reaches.of(workload).now_milli(snapshot, node) < size_milli
    return not trial.reaches.has_now(workload, size_milli)


def has_room_on(claimant: Claimant, node: NodeState) -> bool:
    """Whether a node, or a whole one of several, might be the claimant's once all have left it who may be told to.

    For a claimant of whole devices to which nothing is due; where nobody has cells, and nothing is in maintenance.
    """
    snapshot, workload = claimant.snapshot, claimant.workload
    is_whole = is_whole_nodes(snapshot, workload.size_milli)
    need_milli = node.capacity_milli if is_whole else workload.size_milli
    if node.open_milli < need_milli or claimant.reach.now_milli(snapshot, node) < need_milli:
        return False
    if not node.reservations:
        return True
    without = {run.id for run in claimant.victims_on(node)}
    return allowance_milli(snapshot, node, workload, claimant.trial.now_s, without) >= need_milli


def find_taking(trial: Trial, workload: Workload, spared: Collection[str] = frozenset()) -> Taking | None:
    """The least costly way to make room for a whole gang within its budget's maximum, or None.

    It stays off the nodes that are `spared` (sparing.py).
    """
    taking = _find_taking(trial, workload, spared)
    if taking is not None and trial.snapshot.tree.has_maxima:
        over = excess_of(trial.snapshot, workload, sum(taking.holdings.values()))
        if over is not None and over.milli > sum(
            run.size_milli for run in taking.victims if run.funded and over.node in run.leaf.path
        ):
            return None
    return taking


def _find_taking(trial: Trial, workload: Workload, spared: Collection[str]) -> Taking | None:
    """The least costly way to make room for a whole gang, or None.

    Devices that are being left and that nobody has claimed come before anyone new is stopped; nobody is stopped
    who could have been spared.
    """
    snapshot = trial.snapshot
    if due_promise(trial, workload) is None and is_out_of_reach(trial, workload):
        return None
    claimant = Claimant(trial, workload)
    if is_whole_nodes(snapshot, workload.size_milli):
        return _take_whole_nodes(claimant, spared)
    if workload.node is not None:
        node = snapshot.nodes.by_name.get(workload.node)
        options = {} if node is None else _options(claimant, [node])
    else:
        options = _options(claimant, (node for node in snapshot.nodes.soft.values() if node.name not in spared))
    best: Offer | None = None
    for bound in sorted(options):
        if best is not None and bound > best[0][:2]:
            break
        nodes = _within_reach(claimant, bound, options[bound])
        offers = _best_offers(claimant, bound, nodes)
        best = min([each for each in (best, *offers) if each is not None], key=itemgetter(0, 1, 2), default=None)
    if best is None:
        return None
    node, best_victims = snapshot.nodes.by_name[best[2]], best[3]
    missing_milli = workload.size_milli - node.free_milli - sum(run.holdings[node.name] for run in best_victims)
    waits_for = (*_first_to_leave(node, missing_milli, workload), *sorted(run.id for run in best_victims))
    return Taking({node.name: workload.size_milli}, best_victims, waits_for)


def _best_offers(claimant: Claimant, bound: tuple[int, int], nodes: list[NodeState]) -> list[Offer]:
    """The best of what nodes offer none of which can cost less than `bound`.

    Where one run alone comes to the bound, nothing but one run alone can be better: only such are looked for then.
    """
    plain = [node for node in nodes if not (node.shared or node.reservations or node.windows)]
    if claimant.excess is not None or claimant.workload.asks_host:  # the bound is then not what is missing
        plain = []
    single = _best_single(claimant, plain, bound)
    offers = [] if single is None else [single]
    closer = [node for node in nodes if node.shared or node.reservations or node.windows] if offers else nodes
    for node in closer:
        found = _cheapest_on(claimant, node)
        if found is not None:
            offers.append((found[0], node.free_milli + node.leaving_milli, node.name, found[1]))
    return offers


def _best_single(claimant: Claimant, nodes: Iterable[NodeState], bound: tuple[int, int]) -> Offer | None:
    """The best run on any of some nodes that alone makes room for just as much as is missing, if it is at the bound."""
    funded_milli, need_milli = bound
    if not need_milli or funded_milli not in (0, need_milli):
        return None
    is_funded = funded_milli > 0
    best: tuple[int, FinerKey, HeldRun, NodeState] | None = None
    for node in nodes:
        left_milli = node.leaving_milli
        if best is not None and left_milli > best[0]:
            continue
        for run in node.runs.values():
            if run.size_milli != need_milli or run.funded != is_funded:
                continue
            if len(run.holdings) > 1:  # it is spread, and leaves only a part of it here
                continue
            if claimant.rule_against(run) is not None:
                key = _finer_key(claimant, run)
                if best is None or (left_milli, key) < best[:2]:
                    best = left_milli, key, run, node
    if best is None:
        return None
    left_milli, key, run, node = best
    cost = NodeCost(funded_milli, need_milli, 1, left_milli, (key,))
    return cost, node.free_milli + left_milli, node.name, (run,)


def _options(claimant: Claimant, nodes: Iterable[NodeState]) -> dict[tuple[int, int], list[NodeState]]:
    """Nodes where there may be room, by the least that it could cost."""
    snapshot, workload = claimant.snapshot, claimant.workload
    size_milli = workload.size_milli
    excess_milli = _excess_milli(claimant.excess)
    options: dict[tuple[int, int], list[NodeState]] = {}
    possible = [node for node in nodes if node.open_milli >= size_milli]
    if workload.gpu_classes or snapshot.tree.tenants or snapshot.classes is not None:
        possible = [
            node
            for node in possible
            if suits(node, workload)
            and not keeps_from(snapshot, node, workload)
            and leaves_reserve(snapshot, workload, [node])
        ]
    for node in possible:
        need_milli = max(size_milli - node.open_milli + node.soft_milli, excess_milli)
        if need_milli <= 0 or node.shared:  # of a shared one amounts alone do not say what it costs to free a device
            bound = 0, 0
        elif node.unallocated_milli >= need_milli:
            bound = 0, need_milli
        else:
            bound = need_milli - node.unallocated_milli, need_milli
        options.setdefault(bound, []).append(node)
    return options


def _within_reach(claimant: Claimant, bound: tuple[int, int], nodes: list[NodeState]) -> list[NodeState]:
    """Those of some nodes, which cost at least `bound`, where there is room for the claimant.

    Where unallocated work alone makes room, there is for anybody.
    """
    if not claimant.is_reach_all:
        return nodes
    snapshot, size_milli, is_for_anybody = claimant.snapshot, claimant.workload.size_milli, bound[0] == 0
    return [
        node
        for node in nodes
        if (is_for_anybody and not node.shared) or claimant.reach.now_milli(snapshot, node) >= size_milli
    ]


def _excess_milli(over: Excess | None) -> int:
    """What has to be left so that a budget's maximum is kept."""
    return 0 if over is None else over.milli


def _cheapest_on(claimant: Claimant, node: NodeState) -> tuple[NodeCost, tuple[HeldRun, ...]] | None:
    """The best set of victims on one node, exactly, or None."""
    trial = claimant.trial
    workload = claimant.workload
    name = node.name
    victims = claimant.victims_on(node)
    room_milli = node.free_milli + node.leaving_milli
    need_milli = max(workload.size_milli - room_milli, _excess_milli(claimant.excess))
    if need_milli > sum([run.holdings[name] for run in victims]):
        return None
    if node.shared:
        need_milli = _excess_milli(claimant.excess)  # the rest is left to the set to show
    keyed = sorted([(_finer_key(claimant, run), run) for run in victims], key=itemgetter(0))
    starts_s = trial.now_s + trial.policy.grace_s
    is_plain = not node.shared and not is_bound(node, workload)
    if is_plain and allowance_milli(claimant.snapshot, node, workload, starts_s) >= workload.size_milli:
        chosen = _least_costly_set(name, keyed, need_milli)
    else:
        chosen = _least_costly_allowed_set(claimant, node, keyed, need_milli)
    if chosen is None:
        return None
    taken_milli = sum([run.holdings[name] for _, run in chosen])
    funded_milli, disturbed_milli = _disturbed([run for _, run in chosen])
    cost = NodeCost(
        funded_milli=funded_milli,
        disturbed_milli=disturbed_milli,
        victims=len(chosen),
        left_milli=max(0, min(node.leaving_milli, workload.size_milli - node.free_milli - taken_milli)),
        finer=tuple(key for key, _ in chosen),
    )
    return cost, tuple(run for _, run in chosen)


def _least_costly_set(
    node: str, keyed: Sequence[tuple[FinerKey, HeldRun]], need_milli: int
) -> tuple[tuple[FinerKey, HeldRun], ...] | None:
    """The subset that frees enough: least funded, least in all, fewest, then first by key.

    Exact, by dynamic programming over the amounts freed so far: of two partial sets that free and
    disturb the same amounts, the one with fewer and earlier victims stays better whatever is added to both.
    """
    if need_milli <= 0:
        return ()
    partial: dict[tuple[int, int, int], tuple[int, tuple[int, ...]]] = {(0, 0, 0): (0, ())}
    complete: tuple[int, int, int, tuple[int, ...]] | None = None
    for index, (_, run) in enumerate(keyed):
        freed_milli = run.holdings[node]
        disturbed_milli = run.size_milli
        funded_milli = disturbed_milli if run.funded else 0
        for (funded, disturbed, freed), (count, members) in list(partial.items()):
            cost = (funded + funded_milli, disturbed + disturbed_milli)
            value = (count + 1, (*members, index))
            if freed + freed_milli >= need_milli:
                if complete is None or (*cost, *value) < complete:
                    complete = (*cost, *value)
                continue
            grown = (*cost, freed + freed_milli)
            if grown not in partial or value < partial[grown]:
                partial[grown] = value
    return None if complete is None else tuple(keyed[index] for index in complete[3])


def _least_costly_allowed_set(
    claimant: Claimant, node: NodeState, keyed: Sequence[tuple[FinerKey, HeldRun]], need_milli: int
) -> tuple[tuple[FinerKey, HeldRun], ...] | None:
    """The same where amounts do not say all: promises bind the node, its devices are given out in fractions, or cores
    and memory are asked for.
    """
    if len(keyed) > MOST_COMBINED:
        return _enough_of_many(claimant, node, keyed)
    if not _is_room(claimant, node, {run.id for _, run in keyed}):  # then there is none when fewer of them have left
        return None
    best = None
    for count in range(len(keyed) + 1):
        for members in combinations(range(len(keyed)), count):
            runs = [keyed[index][1] for index in members]
            freed_milli = sum(run.holdings[node.name] for run in runs)
            value = (*_disturbed(runs), count, members)
            if freed_milli < need_milli or (best is not None and value >= best):
                continue
            if _is_room(claimant, node, {run.id for run in runs}):
                best = value
    return None if best is None else tuple(keyed[index] for index in best[3])


def _enough_of_many(
    claimant: Claimant, node: NodeState, keyed: Sequence[tuple[FinerKey, HeldRun]]
) -> tuple[tuple[FinerKey, HeldRun], ...] | None:
    """A set of which nobody can be put back, where there are too many victims to try every set."""
    chosen = {run.id for _, run in keyed}
    if not _is_room(claimant, node, chosen):
        return None
    for _, run in sorted(keyed, key=lambda each: (not each[1].funded, -each[1].size_milli, each[1].id)):
        if _is_room(claimant, node, chosen - {run.id}):
            chosen.discard(run.id)
    return tuple((key, run) for key, run in keyed if run.id in chosen)


def _is_room(claimant: Claimant, node: NodeState, without: set[str]) -> bool:
    """Whether the gang fits, and may be, on a node that these runs have left."""
    workload = claimant.workload
    if node.shared or workload.asks_host:
        gone = without.union(name for name, _ in node.left_for_nobody())
        if node.shared and not node.fits(workload.size_milli, gone):
            return False
        if not fits_now(claimant.snapshot, node, workload, gone):
            return False
    starts_s = claimant.trial.now_s + claimant.trial.policy.grace_s
    allowed_milli = allowance_milli(claimant.snapshot, node, workload, starts_s, without)
    return allowed_milli >= workload.size_milli


def _disturbed(runs: Sequence[HeldRun]) -> tuple[int, int]:
    """What stopping these runs takes from funded ones, and from all; a gang on several nodes counts whole."""
    return sum(run.size_milli for run in runs if run.funded), sum(run.size_milli for run in runs)


def _finer_key(claimant: Claimant, run: HeldRun) -> FinerKey:
    """Most served side first (for unallocated victims: most uncharged use), then the latest start, then the id."""
    reaches = claimant.trial.reaches
    if not run.funded:
        return 0, reaches.most_uncharged_first[run.leaf], -run.started_s, run.id
    return 1, reaches.most_served_first(claimant.leaf)[run.leaf.id], -run.started_s, run.id


def _first_to_leave(node: NodeState, need_milli: int, workload: Workload) -> list[str]:
    """The runs, of those that are leaving for nobody, whose devices come free first and are enough."""
    chosen = []
    for run_id, amount_milli in node.left_for_nobody():
        # With shared devices, or with cores and memory, which of them it will have is not settled yet.
        if need_milli <= 0 and not node.shared and not is_bound(node, workload):
            break
        chosen.append(run_id)
        need_milli -= amount_milli
    return chosen


def _take_whole_nodes(claimant: Claimant, spared: Collection[str]) -> Taking | None:
    """Whole nodes with the least costly victims."""
    snapshot = claimant.snapshot
    starts_s = claimant.trial.now_s + claimant.trial.policy.grace_s
    names = {name for members in snapshot.nodes.empty.values() for name in members} | snapshot.nodes.soft.keys()
    takeable: dict[str, NodeState] = {}
    for name in sorted(names.difference(spared)):
        node = snapshot.nodes.by_name[name]
        if node.open_milli < node.capacity_milli:
            continue
        victims = _staying(node)
        if any(claimant.rule_against(run) is None for run in victims):
            continue
        without = {run.id for run in victims}
        if not fits_now(snapshot, node, claimant.workload, node.runs.keys()):
            continue
        if allowance_milli(snapshot, node, claimant.workload, starts_s, without) >= node.capacity_milli:
            takeable[name] = node
    chosen = _choose_to_take(claimant, takeable)
    if chosen is not None and not leaves_reserve(snapshot, claimant.workload, chosen):
        names = without_reserved(snapshot, takeable.values())
        chosen = _choose_to_take(claimant, {name: node for name, node in takeable.items() if name in names})
    if chosen is None:
        return None
    stopped = {run.id: run for node in chosen for run in _staying(node)}
    leaving = {run.id for node in chosen for run in node.runs.values() if run.leave_by_s is not None}
    return Taking(
        holdings={node.name: node.capacity_milli for node in chosen},
        victims=tuple(stopped[run_id] for run_id in sorted(stopped)),
        waits_for=tuple(sorted(leaving | stopped.keys())),
    )


def _choose_to_take(claimant: Claimant, takeable: Mapping[str, NodeState]) -> list[NodeState] | None:
    """Those of them that cost least; of one rack where the gang is bound to one."""
    candidates = [_whole_node(node) for node in takeable.values()]
    if is_bound_to_rack(claimant.snapshot, claimant.workload):
        return _in_one_rack(claimant, candidates)
    return _least_costly_nodes(claimant, candidates)


def _least_costly_nodes(claimant: Claimant, candidates: list[Candidate]) -> list[NodeState] | None:
    """Of whole nodes, those with the least costly victims."""
    chosen = _choose(claimant, candidates)
    if chosen is None:
        return None
    return _spare_victims(claimant, chosen, candidates)


def _choose(claimant: Claimant, candidates: Sequence[Candidate]) -> list[NodeState] | None:
    """As `choose_whole_nodes`, with what tells equal costs apart worked out only for nodes that it may decide about."""
    size_milli = claimant.workload.size_milli
    ranked = sorted(candidates, key=lambda each: (each.cost, -each.node.capacity_milli))
    last_cost = highest_cost(ranked, size_milli)
    if last_cost is None:
        return None
    finer = [
        each._replace(finer=tuple(sorted([_finer_key(claimant, run) for run in _staying(each.node)])))
        for each in candidates
        if each.cost <= last_cost
    ]
    return choose_whole_nodes(finer, size_milli)


def _in_one_rack(claimant: Claimant, candidates: list[Candidate]) -> list[NodeState] | None:
    """The same in the rack where that costs least."""
    best: tuple[tuple[int, int, int, int, str], list[NodeState]] | None = None
    for members in by_rack(candidates):
        chosen = _least_costly_nodes(claimant, members)
        if chosen is None:
            continue
        victims = list({run.id: run for node in chosen for run in _staying(node)}.values())
        left_milli = sum(node.leaving_milli for node in chosen)
        cost = (*_disturbed(victims), len(victims), left_milli, chosen[0].rack)
        if best is None or cost < best[0]:
            best = cost, chosen
    return None if best is None else best[1]


def _spare_victims(claimant: Claimant, chosen: list[NodeState], candidates: Sequence[Candidate]) -> list[NodeState]:
    """Put victims back, the most costly first, while the gang still finds room on what the others leave.

    A victim that is itself a gang leaves other nodes too, which may make another victim unnecessary; so may nodes of
    several sizes.
    """
    victims = {run.id: run for node in chosen for run in _staying(node)}
    are_alone = all(len(run.holdings) == 1 for run in victims.values())
    if are_alone and len({each.node.capacity_milli for each in candidates}) == 1:
        return chosen
    for run in sorted(victims.values(), key=lambda each: (not each.funded, -each.size_milli, each.id)):
        others = victims.keys() - {run.id}
        emptied = [each for each in candidates if all(run.id in others for run in _staying(each.node))]
        if sum(each.node.capacity_milli for each in emptied) < claimant.workload.size_milli:
            continue
        smaller = _choose(claimant, emptied)
        if smaller is not None:
            chosen = smaller
            victims = {each.id: each for node in chosen for each in _staying(node)}
    return chosen


def _staying(node: NodeState) -> list[HeldRun]:
    return [run for run in node.runs.values() if run.leave_by_s is None]


def _whole_node(node: NodeState) -> Candidate:
    victims = _staying(node)
    return Candidate((*_disturbed(victims), len(victims), node.leaving_milli), (), node)
