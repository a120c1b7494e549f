"""The numbers that make the order, level by level of the budget tree, as the cluster's last pass had them.

Amounts are thousandths of the unit, device time thousandths times seconds; ratios are exact fractions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from django.db import connection
from django.db.models import Count, Sum

from budgets.models import BudgetNode, Cluster
from scheduler.models import WHOLE_DEVICE_MILLI, Device, Pass, Workload
from scheduler.queries.recent import Recent
from scheduler.services import policies

WHOLE_BASIS_POINTS = 10_000
KEPT = 4
"""Of so many trees with their figures a process remembers what it made: all who look at a queue between two passes see
the same one, and of thousands of nodes it takes long to make."""
COLOURS_SQL = "SELECT md5(string_agg(id || ' ' || colour, ',' ORDER BY id)) FROM budgets_budgetnode"


@dataclass(frozen=True, slots=True)
class Level:
    """One budget node among its siblings.

    Attributes:
        code, name, colour: how people know it; `node_id` is its key.
        depth: 0 at the root.
        parent: its parent's code.
        has_children: whether it is more than a leaf.
        shares: basis points of its parent.
        entitlement: of the whole cluster.
        entitled_milli_s: what that comes to in one lookback, on all devices of the cluster.
        used_milli_s, committed_milli_s: charged in the lookback, and promised to contracts still to come.
        uncharged_milli_s: used by unallocated runs in the lookback.
        turn: its place among its siblings that have funded workloads waiting, from 1; None without any.
        waiting, waiting_milli: funded workloads that wait below it, and what they ask for.
        unassigned: basis points that it has not given to its children.
        closed: takes nothing new.
        standing: the numbers of an order by what is held now (engine's `LevelFigures.standing`); {} in any other.
        part: of the cluster, by weight: what `standing` compares with.
        whole_milli: all devices of the cluster.
    """

    code: str
    name: str
    colour: int
    node_id: int
    depth: int
    parent: str | None
    has_children: bool
    shares: int
    entitlement: Fraction
    entitled_milli_s: Fraction
    used_milli_s: int
    committed_milli_s: int
    uncharged_milli_s: int
    waiting: int
    waiting_milli: int
    unassigned: int
    closed: bool
    turn: int | None = None
    standing: Mapping[str, Any] = field(default_factory=dict)
    part: Fraction = Fraction(0)
    whole_milli: int = 0

    @property
    def served(self) -> Fraction | None:
        """What the order goes by: (used + committed) / entitled, or in an order by what is held now held / part by
        weight, or the dominant share / entitled part; None for a node that is entitled to nothing.
        """
        if not self.entitled_milli_s:
            return None
        if "dominant_share" in self.standing:
            return Fraction(*self.standing["dominant_share"]) / self.entitlement
        if self.standing:
            return self.standing["held_milli"] / (self.part * self.whole_milli)
        return (self.used_milli_s + self.committed_milli_s) / self.entitled_milli_s

    @property
    def dominant(self) -> Fraction | None:
        """The largest part of any one resource that it holds, where the order goes by it."""
        part = self.standing.get("dominant_share")
        return None if part is None else Fraction(*part)

    @property
    def uncharged(self) -> Fraction | None:
        """Free cycles that it had / entitled, which orders the unallocated; None for a node entitled to nothing.

        In an order by what is held now: what its unallocated runs hold, in devices.
        """
        if self.entitled_milli_s and self.standing:
            return self.standing["held_uncharged_milli"] / (self.part * self.whole_milli)
        return self.uncharged_milli_s / self.entitled_milli_s if self.entitled_milli_s else None

    @property
    def served_key(self) -> tuple[bool, Fraction, str]:
        """Sorts siblings as the engine does: those without shares last."""
        if not self.shares:
            return True, Fraction(0), self.code
        if self.standing:
            return False, Fraction(self.standing["rank"] or 0), self.code
        return False, Fraction(self.used_milli_s + self.committed_milli_s, self.shares), self.code


@dataclass(frozen=True, slots=True)
class Levels:
    """The tree of one pass. `rows` are parents before children, siblings by turn, then the rest; `of` is by code, and
    `below` has the children by the code of their parent.

    `name` tells them apart: where it is the same, so is all else.
    """

    rows: Sequence[Level]
    of: Mapping[str, Level]
    by_id: Mapping[int, Level]
    below: Mapping[str | None, Sequence[Level]]
    name: str = ""

    def path(self, code: str) -> list[Level]:
        """From the root down to this node."""
        found: list[Level] = []
        at: str | None = code
        while at is not None and at in self.of:
            found.append(self.of[at])
            at = self.of[at].parent
        return found[::-1]

    def children(self, code: str | None) -> Sequence[Level]:
        """Siblings in the order in which they are served, those without demand after them."""
        return self.below.get(code, ())


@dataclass(frozen=True, slots=True)
class Ranked:
    """The nodes of a pass, before it is known what waits below them.

    `below` are children by the code of their parent, in the order of `Level.served_key`; `of` is by code, `by_id` by
    key.
    """

    below: Mapping[str | None, Sequence[Level]]
    of: Mapping[str, Level]
    by_id: Mapping[int, Level]


@dataclass(frozen=True, slots=True)
class _Kept:
    """Of one pass: its nodes, and the levels as they were with what waited last."""

    ranked: Ranked
    waiting: Sequence[tuple[int, int, int]] = ()
    found: Levels | None = None


_kept: Recent[Hashable, _Kept] = Recent(KEPT)


def latest_pass(cluster: Cluster) -> Pass | None:
    """The cluster's last pass, with its policy; its figures, order and tree, which are large, come when asked for."""
    rows = Pass.objects.filter(cluster=cluster).select_related("tree", "policy").order_by("-id")
    return rows.defer("figures", "order", "shadow", "tree__nodes").first()


def capacity_milli(cluster: Cluster) -> int:
    """All devices of a cluster, fit or not, in thousandths."""
    return Device.objects.filter(node__cluster=cluster, node__retired_at=None).count() * WHOLE_DEVICE_MILLI


def levels_of(cluster: Cluster, last: Pass | None) -> Levels:
    """The tree with the figures of a pass, and what waits below each node now. Empty without a pass.

    What it follows from is read each time; where that is as it was, so is what is made of it.
    """
    if last is None:
        return Levels((), {}, {}, {})
    whole_milli, waiting = capacity_milli(cluster), _waiting(cluster)
    with connection.cursor() as cursor:
        cursor.execute(COLOURS_SQL)
        (colours,) = cursor.fetchone()
    key = (last.pk, whole_milli, colours)
    kept = _kept.get(key) or _Kept(_ranked(last, whole_milli))
    found = kept.found
    if found is None or kept.waiting != waiting:
        made = _with_waiting(kept.ranked, waiting, {} if found is None else found.of)
        found = replace(made, name=hashlib.md5(repr((key, waiting)).encode()).hexdigest())
        _kept.put(key, _Kept(kept.ranked, waiting, found))
    return found


def _ranked(last: Pass, whole_milli: int) -> Ranked:
    """The nodes with what a pass said of them."""
    lookback_s = policies.as_policy(last.policy).lookback_s
    colours = dict(BudgetNode.objects.values_list("pk", "colour"))
    figures, nodes = Pass.objects.filter(pk=last.pk).values_list("figures", "tree__nodes").get()
    given: dict[str | None, int] = {}
    for row in nodes:
        given[row["parent"]] = given.get(row["parent"], 0) + row["shares"]
    depths: dict[str | None, int] = {None: -1}
    parts = _parts(nodes)
    found: dict[str, Level] = {}
    below: dict[str | None, list[Level]] = {}
    for row in nodes:
        depths[row["id"]] = depths[row["parent"]] + 1
        level = _level(row, figures, depths[row["id"]], given, colours, whole_milli * lookback_s)
        standing = figures.get(row["id"], {}).get("standing", {})
        level = replace(level, standing=standing, part=parts[row["id"]], whole_milli=whole_milli)
        found[level.code] = level
        below.setdefault(level.parent, []).append(level)
    for siblings in below.values():
        siblings.sort(key=lambda each: each.served_key)
    return Ranked(below, found, {each.node_id: each for each in found.values()})


def _with_waiting(ranked: Ranked, leaves: Sequence[tuple[int, int, int]], before: Mapping[str, Level]) -> Levels:
    """Parents before children; siblings by turn, those for whom nothing waits after them.

    `before` is how they were when something else waited: whoever is still so is taken from there.
    """
    waiting = _waiting_below(leaves, ranked)
    rows: list[Level] = []
    below: dict[str | None, list[Level]] = {}

    def visit(parent: str | None) -> None:
        siblings = ranked.below.get(parent, ())
        asking = [each for each in siblings if each.code in waiting]
        here = [_asking(each, turn, *waiting[each.code], before) for turn, each in enumerate(asking, start=1)]
        here += [each for each in siblings if each.code not in waiting]
        if here:
            below[parent] = here
        for each in here:
            rows.append(each)
            visit(each.code)

    visit(None)
    return Levels(rows, {each.code: each for each in rows}, {each.node_id: each for each in rows}, below)


def _asking(level: Level, turn: int, count: int, milli: int, before: Mapping[str, Level]) -> Level:
    """A node below which so much waits."""
    known = before.get(level.code)
    if known is not None and (known.turn, known.waiting, known.waiting_milli) == (turn, count, milli):
        return known
    return replace(level, turn=turn, waiting=count, waiting_milli=milli)


def _parts(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Fraction]:
    """By code, the part of the cluster by weight: what a node's shares count times moves it among its siblings."""
    portions = {row["id"]: row["shares"] * row.get("limits", {}).get("factor_milli", 1_000) for row in nodes}
    shares: dict[str | None, int] = {}
    sums: dict[str | None, int] = {}
    for row in nodes:
        shares[row["parent"]] = shares.get(row["parent"], 0) + row["shares"]
        sums[row["parent"]] = sums.get(row["parent"], 0) + portions[row["id"]]
    found: dict[str, Fraction] = {}
    for row in nodes:
        parent = row["parent"]
        if parent is None:
            found[row["id"]] = Fraction(1)
        else:
            given = Fraction(shares[parent], row["whole"])
            found[row["id"]] = found[parent] * given * Fraction(portions[row["id"]], sums[parent] or 1)
    return found


def _level(
    row: Mapping[str, Any],
    figures_of: Mapping[str, Mapping[str, Any]],
    depth: int,
    given: Mapping[str | None, int],
    colours: Mapping[int, int],
    whole_milli_s: int,
) -> Level:
    figures = figures_of.get(row["id"], {})
    entitlement = Fraction(*figures.get("entitlement", (0, 1)))
    return Level(
        code=row["id"],
        name=row["name"],
        colour=colours.get(row["db_id"], 0),
        node_id=row["db_id"],
        depth=depth,
        parent=row["parent"],
        has_children=row["id"] in given,
        shares=row["shares"],
        entitlement=entitlement,
        entitled_milli_s=entitlement * whole_milli_s,
        used_milli_s=figures.get("used_milli_s", 0),
        committed_milli_s=figures.get("committed_milli_s", 0),
        uncharged_milli_s=figures.get("uncharged_milli_s", 0),
        waiting=0,
        waiting_milli=0,
        unassigned=WHOLE_BASIS_POINTS - given[row["id"]] if row["id"] in given else 0,
        closed=row["closed"],
    )


def _waiting(cluster: Cluster) -> tuple[tuple[int, int, int], ...]:
    """(leaf, how many, what they ask for) of funded workloads that wait."""
    rows = Workload.objects.filter(cluster=cluster, state="queued", min_runtime_s__gt=0).order_by()
    leaves = rows.values_list("leaf").annotate(count=Count("pk"), milli=Sum("size_milli"))
    return tuple(sorted(leaves.values_list("leaf", "count", "milli")))


def _waiting_below(leaves: Sequence[tuple[int, int, int]], ranked: Ranked) -> dict[str, tuple[int, int]]:
    """The same by code of every node above them."""
    found: dict[str, tuple[int, int]] = {}
    for leaf_id, count, milli in leaves:
        at = ranked.by_id.get(leaf_id)
        while at is not None:
            before = found.get(at.code, (0, 0))
            found[at.code] = (before[0] + count, before[1] + milli)
            at = None if at.parent is None else ranked.of[at.parent]
    return found
