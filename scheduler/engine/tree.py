"""The budget tree: shares, entitlements, and what each node has been served (semantics.md sections 1 to 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from math import lcm
from typing import Any

from .grants import in_all
from .policies.half_life import DecayedUse
from .policies.siblings import SERVED, TreeOrder
from .values import (
    FUNDED,
    NO_CELLS,
    UNALLOCATED,
    BudgetNode,
    CellCounts,
    LeafUse,
    LevelFigures,
    Resources,
    Workload,
)
from .windows import FOR_EVER_S, Window

SERVED_MOST = 1 << 62
"""The rank of a side without shares."""
FEW_OF = 4
"""One line of so many is looked at beside its neighbours alone."""
RANKS_KEPT = 1_000
"""So many different ranks of siblings are remembered with their versions."""
BENT = (0, 0, 0, -FOR_EVER_S)
"""A line that holds for no instant: served at an instant, growth in a second, that instant, the last one."""


Use = Window | DecayedUse
"""What was held, as it counts today."""


class Account:
    """What one budget node's subtree has been charged, has been promised, and has used uncharged.

    `committed` is the part of running contracts still to come; while contracts run it falls at `_contract_rate`.
    What was served (charged and committed) is kept as a straight line in time, up to the instant at which it bends:
    `straight`, as `BENT` has it.
    Whatever bends it before makes the ranks of the `level` stale that this node is compared on.

    Where the tree counts them (`BudgetTree.counts_holdings`): `held` is what the subtree holds at this instant, as
    `values.Resources` has it, `FUNDED` (with what plans hold for it) and `UNALLOCATED`; `asked_milli` what its funded
    workloads wait for, `promised_milli` what promises keep for it.
    """

    __slots__ = (
        "_committed",
        "_contract_rate",
        "_now_s",
        "asked_milli",
        "charged",
        "extra_uncharged",
        "held",
        "level",
        "promised_milli",
        "straight",
        "uncharged",
    )

    def __init__(self, lookback_s: int, half_life_s: int | None, now_s: int, level: Level) -> None:
        """Nothing used, nothing promised. With a half-life use decays, else it counts inside the lookback."""
        self.level = level
        self.charged: Use
        self.uncharged: Use
        if half_life_s is None:
            self.charged, self.uncharged = Window(lookback_s, now_s), Window(lookback_s, now_s)
        else:
            self.charged, self.uncharged = DecayedUse(half_life_s, now_s), DecayedUse(half_life_s, now_s)
        self.extra_uncharged = 0  # what starts inside the present pass count for in advance (section 3, rule 5)
        self._committed = 0
        self._contract_rate = 0
        self._now_s = now_s
        self.straight = BENT
        self.held: tuple[list[int], list[int]] = ([0, 0, 0], [0, 0, 0])
        self.asked_milli = 0
        self.promised_milli = 0

    def hold(self, kind: int, more: Resources, sign: int) -> None:
        """So much more (`sign` 1) or less (-1) is held, `FUNDED` or `UNALLOCATED`."""
        held = self.held[kind]
        held[0] += sign * more[0]
        held[1] += sign * more[1]
        held[2] += sign * more[2]
        if kind == FUNDED:
            self.level.is_stale = True

    def window(self, *, funded: bool) -> Use:
        """What was charged, or used uncharged, which the caller is about to change."""
        if funded:
            self._bend()
            return self.charged
        return self.uncharged

    def committed(self, now_s: int) -> int:
        """Device time of contracts still to come, at an instant not before the last one asked for."""
        if now_s != self._now_s:
            self._committed -= self._contract_rate * (now_s - self._now_s)
            self._now_s = now_s
        return self._committed

    def commit(self, milli_s: int) -> None:
        """Promise so much more device time, or (negative) take back what will not be needed."""
        self._committed += milli_s
        self._bend()

    def run_contracts(self, now_s: int, amount_milli: int) -> None:
        """From `now_s` on so many more (or, negative, fewer) devices use up their contracts."""
        self.committed(now_s)
        self._contract_rate += amount_milli
        self._bend()

    def _bend(self) -> None:
        self.straight = BENT
        level = self.level
        level.is_stale = True
        level.bent[self] = None

    def served(self, now_s: int) -> int:
        """Used and committed: what the funded order divides by shares."""
        served, growth, from_s, until_s = self.straight
        if now_s <= until_s:
            return served + growth * (now_s - from_s)
        return self.straighten(now_s)[0]

    def straighten(self, now_s: int) -> tuple[int, int, int, int]:
        """The straight line from an instant on."""
        served = self.charged.bring_to(now_s) + self.committed(now_s)
        growth = self.charged.slope() - self._contract_rate
        self.straight = served, growth, now_s, self.charged.linear_until_s()
        return self.straight

    def served_uncharged(self, now_s: int) -> int:
        """What the unallocated order divides by shares."""
        return self.uncharged.bring_to(now_s) + self.extra_uncharged


class Level:
    """The children of one node, ranked by what they have been served by their shares.

    Served amounts are straight lines in time, so ranks stay until two neighbours cross or a line bends. `version` grows
    whenever the ranks have become others. `bent` are the accounts whose lines have become others since the ranks were
    looked at last; they are `is_stale` then, or for another reason.
    """

    __slots__ = (
        "_beaten",
        "_entitled",
        "_in_order",
        "_places",
        "_until_s",
        "bent",
        "children",
        "is_stale",
        "ranks",
        "version",
    )

    def __init__(self) -> None:
        """Nobody is compared yet."""
        self.children: list[TreeNode] = []
        self._entitled: list[tuple[Account, int, str]] | None = None
        self._in_order: list[tuple[Account, int, int]] = []  # with weight and rank, as they were ranked last
        self._places: dict[Account, int] = {}  # in that list
        self.bent: dict[Account, None] = {}
        self.ranks: dict[str, int] = {}
        self.version = 0
        self.is_stale = True
        self._until_s = -FOR_EVER_S
        self._beaten: dict[str, frozenset[str]] = {}

    def bring_to(self, now_s: int) -> int:
        """Rank anew where that might come to something else, and return the version."""
        if self.is_stale or now_s > self._until_s:
            if not self._in_order or not (self._stay_in_place(now_s) or self._are_in_order(now_s)):
                ranks = self._rank(now_s)
                self._are_in_order(now_s)  # they are now; until when is found out
                if ranks != self.ranks:
                    self.ranks = ranks
                    self.version += 1
                    self._beaten = {}
            self.is_stale = False
            self.bent.clear()
        return self.version

    def until_s(self, now_s: int) -> int:
        """The last instant up to which the ranks stay as they are now, unless something happens."""
        self.bring_to(now_s)
        return self._until_s

    def _stay_in_place(self, now_s: int) -> bool:
        """Whether the ranks plainly stay, as only few lines are others, and those keep between their neighbours.

        If so, it is known anew for how long they stay at least.
        """
        number = len(self.bent)
        if not number or now_s > self._until_s or number * FEW_OF > len(self._in_order):
            return False
        until_s: int | None = self._until_s
        for account in self.bent:
            place = self._places.get(account)
            if place is not None and until_s is not None:  # else it has no shares
                until_s = _in_order_until_s(self._in_order[max(0, place - 1) : place + 2], now_s, until_s)
        if until_s is None:
            return False
        self._until_s = until_s
        return True

    def _are_in_order(self, now_s: int) -> bool:
        """Whether all have the ranks still that they had, as mostly. If so, it is known anew for how long they stay."""
        until_s = _in_order_until_s(self._in_order, now_s, FOR_EVER_S)
        if until_s is None:
            return False
        self._until_s = until_s
        return True

    def _rank(self, now_s: int) -> dict[str, int]:
        """Rank by child, from 0 for the least served; equals share one, and those without shares come last."""
        if self._entitled is None:
            self._entitled = [(child.account, child.weight, child.id) for child in self.children if child.weight]
        lines = [(account.served(now_s) * weight, name, account, weight) for account, weight, name in self._entitled]
        lines.sort()
        ranks = {}
        rank, last = -1, -1
        self._in_order = []
        for amount, name, account, weight in lines:
            if amount != last:
                rank += 1
            last = amount
            ranks[name] = rank
            self._places[account] = len(self._in_order)
            self._in_order.append((account, weight, rank))
        if len(ranks) < len(self.children):
            ranks.update((child.id, SERVED_MOST) for child in self.children if not child.weight)
        return ranks

    def weigh_anew(self) -> None:
        """The weights of its children are about to change."""
        self.is_stale = True
        self._entitled = None
        self._in_order = []

    def beaten_by(self, child: TreeNode) -> frozenset[str]:
        """Those that have been served strictly more than a child, by the ranks as they were last worked out.

        It is the same object for as long as the ranks are the same.
        """
        found = self._beaten.get(child.id)
        if found is None:
            own = self.ranks[child.id]
            found = self._beaten[child.id] = frozenset([name for name, rank in self.ranks.items() if rank > own])
        return found


def _in_order_until_s(ranked: Iterable[tuple[Account, int, int]], now_s: int, until_s: int) -> int | None:
    """Until when these, with their weights and ranks, stay in this order, at most `until_s`; None if they are not."""
    last, last_growth, last_rank = -1, 0, -1
    for account, weight, rank in ranked:
        served, growth, from_s, straight_until_s = account.straight
        if now_s > straight_until_s:
            served, growth, from_s, straight_until_s = account.straighten(now_s)
        if straight_until_s < until_s:
            until_s = straight_until_s
        amount = (served + growth * (now_s - from_s)) * weight
        growth *= weight
        if amount < last or (amount == last) != (rank == last_rank):
            return None
        if growth != last_growth:
            if amount == last:
                until_s = now_s
            elif growth < last_growth and last_rank >= 0:  # the one before catches up
                until_s = min(until_s, now_s + (amount - last - 1) // (last_growth - growth))
        last, last_growth, last_rank = amount, growth, rank
    return until_s


class HeldLevel(Level):
    """The children of one node, ranked by what they hold: ranks stay until somebody starts, leaves or asks.

    They change often, and soon come back, as when a trial is rolled back: the same ranks have the same version.
    """

    __slots__ = ("_known", "_newest", "_order")

    def __init__(self, order: TreeOrder) -> None:
        """Nobody is compared yet."""
        super().__init__()
        self._order = order
        self._known: dict[tuple[tuple[str, int], ...], tuple[int, dict[str, int], dict[str, frozenset[str]]]] = {}
        self._newest = 0
        self._until_s = FOR_EVER_S

    def bring_to(self, now_s: int) -> int:
        """Rank anew where somebody started, left or asked, and return the version."""
        if self.is_stale:
            ranks = self._rank(now_s)
            if ranks != self.ranks:
                self.version, self.ranks, self._beaten = self._known_as(ranks)
            self.is_stale = False
        self.bent.clear()
        return self.version

    def _known_as(self, ranks: dict[str, int]) -> tuple[int, dict[str, int], dict[str, frozenset[str]]]:
        key = tuple(ranks.items())
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= RANKS_KEPT:
                self._known.clear()
            self._newest += 1
            found = self._known[key] = self._newest, ranks, {}
        return found

    def _rank(self, now_s: int) -> dict[str, int]:
        key = self._order.funded_key
        keyed = sorted([(key(child, now_s), child.id) for child in self.children if child.weight])
        ranks: dict[str, int] = {}
        rank, last = -1, None
        for figure, name in keyed:
            rank += figure != last
            last = figure
            ranks[name] = rank
        ranks.update((child.id, SERVED_MOST) for child in self.children if not child.weight)
        return ranks


class TreeNode:
    """A budget node in its place. `path` leads from the child of the root down to this node, `line` from the root.

    `weight` turns served amounts of siblings into integers that compare as served / shares do: it is the
    least common multiple of the siblings' shares, divided by this node's. It is 0 for a node without shares. Where the
    order among the tree says so, shares count times `factor_milli` thousandths. `minimum_milli` and `maximum_milli`
    bound what it should, and may, hold (`values.BudgetNode`). `cells` are its own; `tenant` is the topmost node on its
    path that has any (private.py). `level` is that of its children. `asking` are its
    children below which something waits in an entitled leaf: funded, and unallocated; of a leaf, `asks` says whether
    something does.
    """

    __slots__ = (
        "_beaten_sides",
        "account",
        "asking",
        "asks",
        "cells",
        "children",
        "closed",
        "entitlement",
        "factor_milli",
        "id",
        "is_entitled",
        "leaf_ids",
        "level",
        "line",
        "maximum_milli",
        "minimum_milli",
        "parent",
        "path",
        "shares",
        "tenant",
        "weight",
        "whole",
    )

    def __init__(self, node: BudgetNode, parent: TreeNode | None, account: Account, level: Level) -> None:
        """Hang a node under its parent; `level` is for its children."""
        self.id = node.id
        self.parent = parent
        self.shares = node.shares
        self.whole = node.whole
        self.closed = node.closed
        self.factor_milli = node.factor_milli
        self.minimum_milli = node.minimum_milli
        self.maximum_milli = node.maximum_milli
        self.cells = node.cells
        self.tenant: str | None = None
        self.account = account
        self.level = level
        self.children = self.level.children
        self.asks = [False, False]
        self.asking: tuple[dict[str, TreeNode], dict[str, TreeNode]] = ({}, {})
        self._beaten_sides: tuple[list[int], tuple[frozenset[str], ...]] = ([], ())
        self.path: tuple[TreeNode, ...] = (*parent.path, self) if parent else ()
        self.line: tuple[TreeNode, ...] = (*parent.line, self) if parent else (self,)
        self.leaf_ids: tuple[str, ...] = (node.id,)
        self.weight = 0
        self.entitlement = Fraction(1)
        self.is_entitled = True

    @property
    def is_closed(self) -> bool:
        """Whether it, or a node above it, is closed."""
        return self.closed or any(node.closed for node in self.path)

    def beaten_sides(self, now_s: int) -> tuple[frozenset[str], ...]:
        """By level, the siblings of its path that have been served strictly more. The same object while they stay."""
        path = self.path
        versions = [node.account.level.bring_to(now_s) for node in path]
        if versions != self._beaten_sides[0]:
            self._beaten_sides = versions, tuple([node.account.level.beaten_by(node) for node in path])
        return self._beaten_sides[1]


class BudgetTree:
    """All budget nodes of one cluster by id, with their accounts.

    `order` says which of several siblings goes first. `has_maxima` is whether any node has a maximum, `has_minima`
    whether minima count; `counts_holdings` whether accounts say what is held at this instant. `tenants` are the cells
    of the topmost nodes with any, those of nodes below them included, and `grants` how often they have changed. `edits`
    is how often anything has that people decide: shares, what is closed, cells.
    """

    def __init__(
        self,
        nodes: Iterable[BudgetNode],
        lookback_s: int,
        now_s: int,
        half_life_s: int | None = None,
        order: TreeOrder = SERVED,
    ) -> None:
        """Build the tree from its nodes, in any order.

        Raises:
            ValueError: no root or several, an unknown parent, a cycle, an id twice, negative shares.
        """
        self.order = order
        rows: dict[str, BudgetNode] = {}
        children: dict[str | None, list[BudgetNode]] = {}
        for row in nodes:
            if row.id in rows:
                raise ValueError(f"budget node {row.id!r} is given twice")
            if row.shares < 0:
                raise ValueError(f"budget node {row.id!r} has negative shares")
            rows[row.id] = row
            children.setdefault(row.parent, []).append(row)
        roots = children.get(None, [])
        if len(roots) != 1:
            raise ValueError(f"a budget tree has one root, not {len(roots)}")
        self.nodes: dict[str, TreeNode] = {}
        self.has_maxima = any(row.maximum_milli is not None for row in rows.values())
        self.has_minima = order.by_holdings and any(row.minimum_milli for row in rows.values())
        self.counts_holdings = order.by_holdings or self.has_maxima
        self.root = self._hang(roots[0], None, children, lambda level: Account(lookback_s, half_life_s, now_s, level))
        for lost in rows.keys() - self.nodes.keys():
            raise ValueError(f"budget node {lost!r} is not below the root")
        self.bare_leaves: frozenset[str] = frozenset()  # those that are closed, or entitled to nothing
        self.tenants: dict[str, CellCounts] = {}
        self.grants = 0
        self.edits = 0
        self._asked: list[Level] | None = None  # `asked_levels`, where they are known
        self._weigh(self.root)
        self._note_bare()
        self._note_tenants()

    def _hang(
        self,
        row: BudgetNode,
        parent: TreeNode | None,
        children: Mapping[str | None, list[BudgetNode]],
        account_on: Callable[[Level], Account],
    ) -> TreeNode:
        level = HeldLevel(self.order) if self.order.by_holdings else Level()
        node = TreeNode(row, parent, account_on(parent.level if parent else Level()), level)
        self.nodes[row.id] = node
        for child in sorted(children.get(row.id, []), key=lambda each: each.id):
            node.children.append(self._hang(child, node, children, account_on))
        if node.children:
            node.leaf_ids = tuple(leaf for child in node.children for leaf in child.leaf_ids)
        return node

    def _weigh(self, node: TreeNode) -> None:
        node.level.weigh_anew()
        portions = [self.order.portion(child) for child in node.children]
        common = lcm(*(portion for portion in portions if portion))
        for child, portion in zip(node.children, portions, strict=True):
            child.weight = common // portion if portion else 0
            part = Fraction(child.shares, child.whole) if child.whole else Fraction(0)
            child.entitlement = node.entitlement * part
            child.is_entitled = child.entitlement > 0
            self._weigh(child)

    def leaves(self) -> Iterator[TreeNode]:
        """Every node that takes workloads, in the order of the tree."""
        return (node for node in self.nodes.values() if not node.children)

    def set_shares(self, shares: Mapping[str, tuple[int, int]]) -> None:
        """Replace shares and whole of the nodes named, effective at once (section 8)."""
        for name, (amount, whole) in shares.items():
            node = self.nodes[name]
            node.shares = amount
            node.whole = whole
        self._weigh(self.root)
        self._note_bare()
        self._asked = None
        for node in self.nodes.values():
            for asking in node.asking:
                asking.clear()
        for leaf in self.leaves():
            for kind in (FUNDED, UNALLOCATED):
                if leaf.asks[kind]:
                    self.ask(leaf, kind, asks=True)

    def hold(self, leaf: TreeNode, funded: bool, more: Resources, sign: int) -> None:
        """A leaf, and all above it, hold so much more (`sign` 1) or less (-1)."""
        kind = FUNDED if funded else UNALLOCATED
        for node in leaf.line:
            node.account.hold(kind, more, sign)

    def ask(self, leaf: TreeNode, kind: int, *, asks: bool) -> None:
        """Something (`FUNDED` or `UNALLOCATED`) waits in a leaf, or nothing of that kind does any longer."""
        leaf.asks[kind] = asks
        if not leaf.is_entitled:
            return
        for node in reversed(leaf.path):
            assert node.parent is not None
            asking = node.parent.asking[kind]
            if asks:
                if node.id in asking:
                    return
                asking[node.id] = node
            else:
                del asking[node.id]
            if kind == FUNDED:
                self._asked = None
            if not asks and asking:
                return

    def asked_levels(self) -> list[Level]:
        """The levels on which siblings compare below which something funded waits in an entitled leaf."""
        if self._asked is None:
            self._asked = []
            asking = [self.root]
            while asking:
                node = asking.pop()
                if below := node.asking[FUNDED]:
                    self._asked.append(node.level)
                    asking.extend(below.values())
        return self._asked

    def close(self, name: str) -> None:
        """A node, and all below it, takes no workloads any more (section 8)."""
        self.nodes[name].closed = True
        self._note_bare()

    def set_cells(self, cells: Mapping[str, CellCounts]) -> None:
        """Replace the cells of the nodes named, effective at once."""
        for name, counts in cells.items():
            self.nodes[name].cells = counts
        self._note_tenants()

    def _note_tenants(self) -> None:
        self.grants += 1
        self.edits += 1
        self.tenants = {}
        for node in self.nodes.values():  # parents come before their children; cells of the root are nobody's
            if node.parent is None:
                continue
            above = node.parent.tenant
            node.tenant = above if above is not None else node.id if node.cells != NO_CELLS else None
            if node.tenant is not None and node.cells != NO_CELLS:
                self.tenants[node.tenant] = in_all([self.tenants.get(node.tenant, NO_CELLS), node.cells])

    def _note_bare(self) -> None:
        self.edits += 1
        self.bare_leaves = frozenset(leaf.id for leaf in self.leaves() if leaf.is_closed or not leaf.is_entitled)

    def add_ended_use(self, use: Mapping[str, LeafUse]) -> None:
        """Count what ended runs used; a charge weighs on every node above the leaf."""
        for name, amounts in use.items():
            leaf = self.nodes[name]
            for node in leaf.line:
                node.account.window(funded=True).add_lump(amounts.charged_milli_s)
                node.account.window(funded=False).add_lump(amounts.uncharged_milli_s)

    def figures(self, now_s: int) -> dict[str, LevelFigures]:
        """The numbers behind the order, of every node."""
        return {name: figures_of(node, now_s, self.order) for name, node in self.nodes.items()}


def figures_of(node: TreeNode, now_s: int, order: TreeOrder = SERVED) -> LevelFigures:
    """The numbers behind the order, of one node."""
    return LevelFigures(
        used_milli_s=node.account.charged.bring_to(now_s),
        committed_milli_s=node.account.committed(now_s),
        uncharged_milli_s=node.account.uncharged.bring_to(now_s),
        shares=node.shares,
        entitlement=node.entitlement.as_integer_ratio(),
        standing=_standing(node, now_s, order) if order.by_holdings else {},
    )


def _standing(node: TreeNode, now_s: int, order: TreeOrder) -> dict[str, Any]:
    """The numbers of an order by holdings, with the rank among siblings from 0 (None without shares)."""
    level = node.account.level
    level.bring_to(now_s)
    rank = level.ranks.get(node.id, SERVED_MOST)
    return {**order.numbers(node), "rank": None if rank == SERVED_MOST else rank}


def sides(one: TreeNode, other: TreeNode) -> tuple[TreeNode, TreeNode]:
    """The children of the lowest common ancestor of two different leaves, on the way to each."""
    for left, right in zip(one.path, other.path, strict=False):
        if left is not right:
            return left, right
    raise AssertionError(f"{one.id} and {other.id} are not two leaves of one tree")


def may_swap(
    order: TreeOrder, preemptor: TreeNode, victim: TreeNode, margin: Fraction, own: Workload, now_s: int
) -> bool:
    """Whether the preemptor's side goes first, so that rule (b) of section 4 lets it take over.

    `margin` is `swap_margin`, by which what `own`, the preemptor's workload, would add to its side counts before; with
    a margin, equal is enough. A side without shares counts as served most.
    """
    side, theirs = sides(preemptor, victim)
    if not theirs.weight or not side.weight:
        return bool(side.weight)
    if margin:
        return bool(order.funded_key_with(side, now_s, own, margin) <= order.funded_key(theirs, now_s))
    return bool(order.funded_key(side, now_s) < order.funded_key(theirs, now_s))
