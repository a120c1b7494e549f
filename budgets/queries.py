"""What the tree and its shares say on a day, as finished values. Entitlements are exact fractions of a cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from django.db import connection
from django.db.models import Q, QuerySet
from django.utils import timezone

from budgets import past
from budgets.models import WHOLE_BASIS_POINTS, BudgetNode, Cluster, Person, Role, RoleGrant, Share

WEIGHING_DAYS = 35
"""How long a closed node stays in the tree: longer than any lookback, so that its past use weighs to the end."""

FIRST_YEAR, LAST_YEAR = 2000, 2999
"""Days beyond can't be meant, and some arithmetic of days can't be done with them."""

Steps = list[tuple[date, Fraction]]
"""An entitlement from each of these days on."""


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One node of the tree on one cluster and day.

    `basis_points` are of its parent (the root's are 10,000), `entitlement` is of the whole cluster, `depth` is 0 at
    the root, `unassigned` is what the node has not given to its children (0 for a leaf).
    """

    node: BudgetNode
    parent_id: int | None
    basis_points: int
    entitlement: Fraction
    depth: int
    has_children: bool
    unassigned: int

    @property
    def is_closed(self) -> bool:
        """Closed, and still weighing on its parent."""
        return self.node.is_closed


def today() -> date:
    """The organisation's day."""
    return day_of(timezone.now())


def day_of(instant: datetime) -> date:
    """The organisation's day in which the instant lies, whatever zone the reader has chosen."""
    return timezone.localdate(instant, timezone.get_default_timezone())


def midnight(day: date) -> datetime:
    """The instant at which the organisation's day begins; a day has 23 to 25 hours where clocks change."""
    return timezone.make_aware(datetime.combine(day, time()), timezone.get_default_timezone())


def tree_on(cluster: Cluster, day: date, *, also: Collection[int] = ()) -> list[TreeRow]:
    """The tree as it hung, was called and was divided on that day, parents before their children, siblings by code.

    On a day that is over its nodes carry the names they had when it ended, and are closed only if they were by then:
    they are for reading. Nodes that did not exist yet are left out, and so are those closed for more than
    WEIGHING_DAYS, unless their ids are in `also` (or something of `also` is below them). Two queries, three for a day
    that is over.
    """
    nodes = {node.pk: node for node in BudgetNode.objects.all()}
    return _rows(cluster, day, nodes, _as_they_were(nodes, day), also)


def tree_as_it_hangs(cluster: Cluster, day: date, *, also: Collection[int] = ()) -> list[TreeRow]:
    """The tree as it hangs, is called and is closed now, with the shares of that day: what a pass decides on. Its clock
    may lag behind the one by which the tree was changed, and yet it goes by what it finds. Otherwise as `tree_on`. Two
    queries.
    """
    nodes = {node.pk: node for node in BudgetNode.objects.all()}
    return _rows(cluster, day, nodes, {pk: node.parent_id for pk, node in nodes.items()}, also)


def _rows(
    cluster: Cluster,
    day: date,
    nodes: dict[int, BudgetNode],
    parents: dict[int, int | None],
    also: Collection[int],
) -> list[TreeRow]:
    """The rows of these nodes under these parents."""
    kept = _kept(nodes, parents, day, also)
    shares = Share.objects.filter(in_force(day), cluster=cluster).values_list(*Given._fields)
    given = {share.node_id: share.basis_points for share in map(Given._make, shares) if _is_of(share, parents)}
    children: dict[int | None, list[BudgetNode]] = {}
    for pk in kept:
        children.setdefault(parents[pk], []).append(nodes[pk])
    rows: list[TreeRow] = []
    stack = [(node, WHOLE_BASIS_POINTS, Fraction(1), 0) for node in children.get(None, [])]
    while stack:
        node, basis_points, entitlement, depth = stack.pop()
        below = sorted(children.get(node.pk, []), key=lambda child: child.code, reverse=True)
        assigned = sum(given.get(child.pk, 0) for child in below)
        rows.append(
            TreeRow(
                node=node,
                parent_id=parents[node.pk],
                basis_points=basis_points,
                entitlement=entitlement,
                depth=depth,
                has_children=bool(below),
                unassigned=WHOLE_BASIS_POINTS - assigned if below else 0,
            )
        )
        parts: dict[int, Fraction] = {}  # siblings often have equal shares, and exact products take long
        for child in below:
            part = given.get(child.pk, 0)
            if part not in parts:
                parts[part] = entitlement * Fraction(part, WHOLE_BASIS_POINTS)
            stack.append((child, part, parts[part], depth + 1))
    return rows


def entitlement_steps(node: BudgetNode, cluster: Cluster, start: date, end: date) -> Steps:
    """The node's entitlement over the days [start, end): from `start` and from each day on which it changes.

    It follows the parents that the shares name, so a node that was moved keeps its past. One query, however large the
    tree.
    """
    with connection.cursor() as cursor:
        cursor.execute(ABOVE_SQL, {"node": node.pk, "cluster": cluster.pk, "start": start, "end": end})
        return _steps([node.pk], node.path[0], map(Given._make, cursor), start, end)[node.pk]


def entitlement_on(node: BudgetNode, cluster: Cluster, day: date) -> Fraction:
    """The node's entitlement on a day not over yet, as it hangs now: the product of the shares on its path. One query,
    however large the tree.
    """
    shares = Share.objects.filter(in_force(day), cluster=cluster, node__in=node.path)
    given = {(share.parent_id, share.node_id): share.basis_points for share in shares}
    entitlement = Fraction(1)
    for step in pairwise(node.path):
        entitlement *= Fraction(given.get(step, 0), WHOLE_BASIS_POINTS)
    return entitlement


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands in the tree: what it is entitled to of a cluster, whether anything is below it, and whether
    it, or a node above it, is closed.
    """

    entitlement: Fraction
    has_children: bool
    is_closed: bool


def place_on(node: BudgetNode, cluster: Cluster, day: date) -> Place:
    """What `tree_on` says of one node on a day not over yet. Two queries, however large the tree."""
    over, gone = midnight(day + timedelta(days=1)), midnight(day - timedelta(days=WEIGHING_DAYS))
    below = Q(closed_at=None) | Q(closed_at__gte=gone)
    near = BudgetNode.objects.filter(Q(pk__in=node.path) | below & Q(parent=node, created_at__lt=over))
    closed_at = dict(near.order_by().values_list("pk", "closed_at"))
    return Place(
        entitlement=entitlement_on(node, cluster, day),
        has_children=not closed_at.keys() <= set(node.path),
        is_closed=any(closed_at[pk] is not None for pk in node.path),
    )


def entitlements_on(
    nodes: Collection[BudgetNode], clusters: Collection[Cluster], day: date
) -> dict[tuple[int, int], Fraction]:
    """`entitlement_on` of several nodes and clusters, by (node id, cluster id). One query."""
    on_paths = {pk for node in nodes for pk in node.path}
    shares = Share.objects.filter(in_force(day), cluster__in=clusters, node__in=on_paths)
    given: dict[tuple[int, int, int], int] = {}
    for cluster, parent, child, points in shares.values_list("cluster_id", "parent_id", "node_id", "basis_points"):
        given[cluster, parent, child] = points
    found: dict[tuple[int, int], Fraction] = {}
    for cluster_id in (cluster.pk for cluster in clusters):
        for node in nodes:
            entitlement = Fraction(1)
            for parent, child in pairwise(node.path):
                entitlement *= Fraction(given.get((cluster_id, parent, child), 0), WHOLE_BASIS_POINTS)
            found[node.pk, cluster_id] = entitlement
    return found


def all_entitlement_steps(cluster: Cluster, start: date, end: date) -> dict[int, Steps]:
    """As `entitlement_steps`, by node id, for the root and every node that had a share then. Two queries."""
    root = BudgetNode.objects.values_list("pk", flat=True).get(parent=None)
    overlapping = Q(valid_until=None) | Q(valid_until__gt=start)
    shares = Share.objects.filter(overlapping, cluster=cluster, valid_from__lt=end).order_by("node", "valid_from")
    rows = [Given._make(row) for row in shares.values_list(*Given._fields)]
    return _steps(list(dict.fromkeys([root, *(share.node_id for share in rows)])), root, rows, start, end)


def in_force(day: date) -> Q:
    """Grants and shares that hold on the day."""
    return Q(valid_from__lte=day) & (Q(valid_until=None) | Q(valid_until__gt=day))


def open_leaves() -> QuerySet[BudgetNode]:
    """Nodes that can take workloads: open, with no child of any kind."""
    return BudgetNode.objects.filter(closed_at=None, children=None)


def submittable_leaves(person: Person) -> QuerySet[BudgetNode]:
    """The open leaves in which the person is a member today, at the leaf or above it; by code. Two queries."""
    grants = RoleGrant.objects.filter(in_force(today()), person=person, role=Role.MEMBER)
    nodes = list(grants.values_list("node_id", flat=True))
    return open_leaves().filter(path__overlap=nodes).order_by("code")


class Given(NamedTuple):
    """A share as a plain row: a tree may have thousands."""

    node_id: int
    parent_id: int
    basis_points: int
    valid_from: date
    valid_until: date | None


def _is_of(share: Given, parents: dict[int, int | None]) -> bool:
    """Whether it is a share of the parent under which the node hung."""
    return share.parent_id == parents.get(share.node_id)


ABOVE_SQL = """
WITH RECURSIVE above AS (
    SELECT s.* FROM budgets_share s WHERE s.node_id = %(node)s AND s.cluster_id = %(cluster)s
        AND s.valid_from < %(end)s AND (s.valid_until IS NULL OR s.valid_until > %(start)s)
    UNION
    SELECT s.* FROM above a JOIN budgets_share s ON s.node_id = a.parent_id AND s.cluster_id = a.cluster_id
        AND s.valid_from < %(end)s AND (s.valid_until IS NULL OR s.valid_until > %(start)s)
)
SELECT node_id, parent_id, basis_points, valid_from, valid_until FROM above ORDER BY node_id, valid_from"""
"""The shares of a node and of whatever it hung under in a time; the columns are those of `Given`."""


def _steps(wanted: Collection[int], root: int, rows: Iterable[Given], start: date, end: date) -> dict[int, Steps]:
    """The steps of the nodes that are wanted, by the shares of a time."""
    shares: dict[int, list[Given]] = {}
    changes = {start}
    for share in rows:
        shares.setdefault(share.node_id, []).append(share)
        changes |= {day for day in (share.valid_from, share.valid_until) if day and start < day < end}
    steps: dict[int, Steps] = {pk: [] for pk in wanted}
    for day in sorted(changes):
        known = {root: Fraction(1)}
        for pk in wanted:
            value = _entitlement(pk, day, shares, known)
            if not steps[pk] or steps[pk][-1][1] != value:
                steps[pk].append((day, value))
    return steps


def _entitlement(pk: int, day: date, shares: dict[int, list[Given]], known: dict[int, Fraction]) -> Fraction:
    """The product of the shares on that day from the node up to the root; `known` keeps what is found."""
    if pk not in known:
        known[pk] = Fraction(0)
        for share in shares.get(pk, []):
            if share.valid_from <= day and (share.valid_until is None or day < share.valid_until):
                above = _entitlement(share.parent_id, day, shares, known)
                known[pk] = above * Fraction(share.basis_points, WHOLE_BASIS_POINTS)
    return known[pk]


def _as_they_were(nodes: dict[int, BudgetNode], day: date) -> dict[int, int | None]:
    """Parent ids when that day ended; on a day that is over, the nodes get their names of then."""
    if day >= today():
        return {pk: node.parent_id for pk, node in nodes.items()}
    over = midnight(day + timedelta(days=1))
    then = past.since(over)
    for node in nodes.values():
        node.name = then.name_at(node, over)
        node.closed_at = node.closed_at if node.closed_at is None or node.closed_at < over else None
    return {pk: then.parent_at(node, over) for pk, node in nodes.items()}


def _kept(nodes: dict[int, BudgetNode], parents: dict[int, int | None], day: date, also: Collection[int]) -> list[int]:
    """Ids of the nodes that belong in the tree of that day, ancestors of what is kept included."""
    over, gone = midnight(day + timedelta(days=1)), midnight(day - timedelta(days=WEIGHING_DAYS))
    kept: set[int] = set()
    for pk, node in nodes.items():
        weighs = node.created_at < over and (node.closed_at is None or node.closed_at >= gone)
        above: int | None = pk if weighs or pk in also else None
        while above is not None and above not in kept:
            kept.add(above)
            above = parents[above]
    return sorted(kept)
