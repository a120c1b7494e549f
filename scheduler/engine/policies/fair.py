"""Fair share as Hadoop's Fair Scheduler has it: minima first, then what is held by weight (Apache YARN).

What counts is what a subtree holds at this instant, devices of funded runs and of plans, and not what it has used.
Weights are shares, times a factor where a node has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any, NamedTuple

from ..values import FUNDED, UNALLOCATED, BudgetNode, Workload
from .siblings import Sibling

NEEDY, BY_WEIGHT, WEIGHTLESS, WITHOUT_DEMAND = range(4)
"""Below its minimum; not; likewise without a weight; asks for nothing and holds nothing."""
BISECTIONS = 25
"""Steps in which the ratio of shares to weights is found (Hadoop's ComputeFairShares)."""
FairKey = tuple[int, Any]
"""Which of the four, and the figure that compares among these."""


def fair_key(held: Any, demand: Any, minimum: int, weight: int) -> FairKey:
    """Where one of several siblings stands; the lower goes first.

    Args:
        held: what it holds.
        demand: what it holds and waits for; 0 goes last.
        minimum: what it should hold first; it counts as far as there is demand.
        weight: what turns what siblings hold into integers that compare as held / weight do; 0 for a weight of 0.
    """
    if not demand:
        return WITHOUT_DEMAND, 0
    needed = min(minimum, demand)
    if held < needed:
        return NEEDY, Fraction(held, needed)
    return (BY_WEIGHT, held * weight) if weight else (WEIGHTLESS, held)


class Fair:
    """The order."""

    by_holdings = True
    ahead = "holds less of its fair share"
    ahead_many = "hold less of their fair share"
    took = "held less of its fair share than"

    def portion(self, node: Sibling) -> int:
        """Its shares times its factor."""
        return node.shares * node.factor_milli

    def funded_key(self, node: Sibling, now_s: int) -> FairKey:
        """By what its funded runs, and plans, hold. Only those are compared that hold or ask for something."""
        held_milli = node.account.held[FUNDED][0]
        if node.weight and not node.minimum_milli:
            return BY_WEIGHT, held_milli * node.weight
        return fair_key(held_milli, held_milli + node.account.asked_milli, node.minimum_milli, node.weight)

    def funded_key_with(self, node: Sibling, now_s: int, workload: Workload, margin: Fraction) -> FairKey:
        """With so many times what a workload asks for."""
        held_milli = node.account.held[FUNDED][0]
        demand_milli = held_milli + node.account.asked_milli
        return fair_key(held_milli + margin * workload.size_milli, demand_milli, node.minimum_milli, node.weight)

    def unallocated_key(self, node: Sibling, now_s: int) -> int:
        """By what its unallocated runs hold; minima are for what is funded."""
        return node.account.held[UNALLOCATED][0] * node.weight

    def had(self, node: Sibling, now_s: int) -> int:
        """What it holds."""
        return node.account.held[FUNDED][0]

    def uncharged(self, node: Sibling, now_s: int) -> int:
        """What its unallocated runs hold."""
        return node.account.held[UNALLOCATED][0]

    def numbers(self, node: Sibling) -> Mapping[str, Any]:
        """What it holds, waits for, and is bound by."""
        return {
            "held_milli": node.account.held[FUNDED][0],
            "held_uncharged_milli": node.account.held[UNALLOCATED][0],
            "asked_milli": node.account.asked_milli,
            "minimum_milli": node.minimum_milli,
            "maximum_milli": node.maximum_milli,
            "factor_milli": node.factor_milli,
        }


class Portion(NamedTuple):
    """What one of several is to have: by weight, at least its minimum, at most its maximum (None: all there is)."""

    weight: float
    minimum: int = 0
    maximum: int | None = None


def fair_shares(total: int, portions: Sequence[Portion]) -> list[int]:
    """Split what there is as Hadoop does: all the same by weight, but for minima and maxima.

    The ratio is found by doubling and `BISECTIONS` halvings, and every share is cut to a whole number, so that a
    remainder may be nobody's. Where minima are more than there is, everybody still gets theirs.

    Raises:
        ValueError: a weight below 0, or no number; a maximum below a minimum; names which, from 0.
    """
    for index, each in enumerate(portions):
        if not isfinite(each.weight) or each.weight < 0:
            raise ValueError(f"weight {index}: {each.weight} is not a number of at least 0")
        if each.minimum < 0 or (each.maximum is not None and each.maximum < each.minimum):
            raise ValueError(f"minimum {index}: {each.minimum} is not 0 to the maximum, {each.maximum}")

    def share(each: Portion, ratio: float) -> int:
        most = total if each.maximum is None else each.maximum
        return max(each.minimum, int(min(each.weight * ratio, most)))

    reachable = sum(share(each, float(total) / each.weight if each.weight else 0.0) for each in portions)
    wanted = min(total, reachable)
    high = 1.0
    while sum(share(each, high) for each in portions) < wanted:
        high *= 2
    low = 0.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if sum(share(each, middle) for each in portions) < wanted:
            low = middle
        else:
            high = middle
    return [share(each, high) for each in portions]


def steady_shares(nodes: Iterable[BudgetNode], total_milli: int) -> dict[str, int]:
    """What every node of a tree would hold, by id, if all had demand without end: level by level from the root."""
    children: dict[str | None, list[BudgetNode]] = {}
    for node in nodes:
        children.setdefault(node.parent, []).append(node)
    found: dict[str, int] = {}
    levels = [(total_milli, children.get(None, []))]
    while levels:
        room_milli, level = levels.pop()
        weights = [node.shares * node.factor_milli if node.parent is not None else 1 for node in level]
        whole = sum(weights) or 1  # parts of 1, so that the halvings are fine enough for thousandths
        portions = [
            Portion(weight / whole, node.minimum_milli, node.maximum_milli)
            for weight, node in zip(weights, level, strict=True)
        ]
        for node, share in zip(level, fair_shares(room_milli, portions), strict=True):
            found[node.id] = share
            if node.id in children:
                levels.append((share, children[node.id]))
    return found


class LimitFault(NamedTuple):
    """Why minima and maxima cannot be kept: at this node so much is needed, and there is only so much."""

    node: str
    needed_milli: int
    room_milli: int


def fault_in_limits(nodes: Iterable[BudgetNode], capacity_milli: int) -> LimitFault | None:
    """The first node, from the leaves up, whose minimum and those below it are more than it may hold; None if none.

    The root may hold what the cluster has.
    """
    rows = {node.id: node for node in nodes}
    children: dict[str | None, list[str]] = {}
    for node in rows.values():
        children.setdefault(node.parent, []).append(node.id)
    ordered = list(children.get(None, []))
    for name in ordered:
        ordered.extend(children.get(name, []))
    needed: dict[str, int] = {}
    for name in reversed(ordered):
        node = rows[name]
        needed[name] = max(node.minimum_milli, sum(needed[child] for child in children.get(name, [])))
        bounds = [] if node.maximum_milli is None else [node.maximum_milli]
        room_milli = min([*bounds, capacity_milli])
        if needed[name] > room_milli:
            return LimitFault(name, needed[name], room_milli)
    return None
