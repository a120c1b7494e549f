"""The budget of a node: usage against entitlement over time, its children, its changes, and who is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext

from budgets.authority import has_role, in_force, may
from budgets.models import (
    WHOLE_BASIS_POINTS,
    BudgetNode,
    Cluster,
    LedgerEntry,
    Person,
    Reallocation,
    Request,
    Role,
    RoleGrant,
    State,
)
from budgets.queries import TreeRow, entitlement_steps, midnight, tree_on
from portal import charts, figure_charts
from portal.clusters import sizes_milli
from portal.formats import MILLI
from portal.pace import pace_context
from portal.pages import Page, cluster_named, clusters, render_page
from portal.period import Period, period_named
from portal.private_nodes import own_before, section_of
from portal.views.tree import HOURS_A_WEEK, daily_ratios
from scheduler.queries import people_usage, usage
from scheduler.queries.usage import Books, Series

CHANGES_SHOWN = 8
TEAMS_DRAWN = 8
"""Children with a colour of their own in a chart; the others are drawn together."""


@dataclass(frozen=True, slots=True)
class Child:
    """A child with what came of its share in the window."""

    row: TreeRow
    units: Fraction
    units_hours_a_week: Fraction
    books: Books
    spark: Sequence[Fraction | None]

    @property
    def got(self) -> Fraction | None:
        """Delivered over entitled."""
        return got(self.books)


@dataclass(frozen=True, slots=True)
class Unassigned:
    """What the node has not given to its children."""

    basis_points: int
    entitlement: Fraction
    units: Fraction
    units_hours_a_week: Fraction


@dataclass(frozen=True, slots=True)
class ShareChange:
    """One entry of the ledger about a child's share: what it was and what it is, from a day on."""

    entry: LedgerEntry
    child: BudgetNode | None
    before: int
    after: int
    valid_from: str


def got(books: Books) -> Fraction | None:
    """Delivered over entitled."""
    return Fraction(books.charged_milli_s, books.entitled_milli_s) if books.entitled_milli_s else None


class NodeBudget(Page):
    """`?cluster=`, and `?window=`, `?from=&until=` and `?as_of=` choose what is shown, `?pace=` the period of the pace;
    everyone signed in may read it. Figures of persons are for those who manage the node, and each for themselves.
    """

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """The whole page."""
        self.allow("tree.see")
        node = node_named(code)
        among = clusters()
        cluster = cluster_named(request.GET.get("cluster"), among)
        period = period_named(request)
        start, end, on, is_past = period.start, period.end, period.on, period.is_past
        rows = tree_on(cluster, on, also=[] if is_past else [node.pk])
        own = next((row for row in rows if row.node.pk == node.pk), None)
        if own is None:
            raise Http404(
                gettext("{code} was not in the tree of {cluster} on {on}.").format(
                    code=code, cluster=cluster.name, on=on
                )
                if is_past
                else gettext("{code} is not in the tree of {cluster}.").format(code=code, cluster=cluster.name)
            )
        person: Person = request.user  # type: ignore[assignment]
        own.node.parent = next((row.node for row in rows if row.node.pk == own.parent_id), None)
        context = {
            **period.context(),
            **pace_context(request, own.node, cluster, on, end),
            **figures_of(own, rows, cluster, period),
            **rights_of(person, own, is_past=is_past),
            "here": "tree",
            "node": own.node,
            "own": own,
            "path": path_to(own, rows),
            "on": on,
            "is_past": is_past,
            "as_of": f"&as_of={on}" if is_past else "",
            "kept": period.keeps if is_past or not period.window else f"window={period.window}",
            "clusters": among,
            "cluster": cluster,
            "window": period.window,
            "start": start,
            "end": end,
            "by_person": people_usage.by_person(
                own.node, cluster, start, end, period.now, only=None if manages(person, own.node) else person.pk
            ),
            "changes": share_changes(own.node, cluster, [row.node for row in rows if row.parent_id == node.pk], on),
            "people": people_of(own.node, on),
            "private": (
                own_before(own.node, cluster, midnight(on + timedelta(days=1)))
                if is_past
                else section_of(own.node, cluster, own.entitlement)
            ),
            "pending": [] if is_past else pending_of(own.node, cluster, person),
        }
        return render_page(request, "node", context)


def figures_of(own: TreeRow, rows: Sequence[TreeRow], cluster: Cluster, period: Period) -> dict[str, Any]:
    """The node's own figures in the period, and those of its children."""
    start, end, node = period.start, period.end, own.node
    size_milli = sizes_milli().get(cluster.pk, 0)
    series = usage.series(node, cluster, start, end, period.step)
    steps = entitlement_steps(node, cluster, (start - timedelta(days=1)).date(), period.on + timedelta(days=1))
    units = Fraction(size_milli, MILLI)
    children = children_of(own, rows, cluster, start, end, units)
    return {
        "series": series,
        "books": series.total,
        "got": got(series.total),
        "units": own.entitlement * units,
        "units_hours_a_week": own.entitlement * units * HOURS_A_WEEK,
        "chart": charts.usage_against_entitlement(series, steps, cluster, size_milli) if series.points else None,
        "sentence": sentence(series),
        "children": children,
        "unassigned": unassigned_of(own, units),
        **children_over_time(children, cluster, period),
    }


def rights_of(person: Person, own: TreeRow, *, is_past: bool) -> dict[str, bool]:
    """What the page offers to this person."""
    node = own.node
    is_open = not is_past and node.parent_id is not None and not node.is_closed
    return {
        "manages": manages(person, node),
        "may_change": not is_past and own.has_children and may(person, "share.change", node),
        "may_change_cells": is_open and may(person, "share.change", node.parent),
        "may_ask": is_open and may(person, "request.make", node),
        "may_see_ledger": may(person, "node.see_ledger", node),
        "may_see_inside": may(person, "node.see_inside", node),
    }


def manages(person: Person, node: BudgetNode) -> bool:
    """Whether figures of its people are theirs to see: they manage the node, or one above it."""
    return has_role(person, node.path, [Role.MANAGER])


def node_named(code: str) -> BudgetNode:
    """The node of that code.

    Raises:
        Http404: there is none.
    """
    node = BudgetNode.objects.filter(code=code).first()
    if node is None:
        raise Http404(gettext("There is no budget node {code!r}.").format(code=code))
    return node


def sentence(series: Series) -> str:
    """What the chart shows, as one would say it."""
    books = series.total
    if not books.entitled_milli_s:
        return gettext("It was entitled to nothing in this time.")
    parts = {
        "borrowed": books.borrowed_milli_s,
        "short": books.not_delivered_milli_s,
        "idle": books.not_asked_milli_s,
    }
    largest = max(parts, key=lambda key: parts[key])
    tenth = books.entitled_milli_s // 50
    if parts[largest] <= tenth:
        return gettext("It got about what it was entitled to.")
    if largest == "borrowed":
        return gettext("It borrowed above its entitlement, from what others did not need.")
    if largest == "short":
        return gettext("It was given less than it asked for and was owed.")
    if parts["short"] > tenth:
        return gettext("Part of the time nobody asked; at other times it was given less than it was owed.")
    return gettext("Much of its entitlement was not asked for.")


def children_of(
    own: TreeRow, rows: Sequence[TreeRow], cluster: Cluster, start: datetime, end: datetime, units: Fraction
) -> list[Child]:
    """The node's children with their books in the window."""
    below = [row for row in rows if row.parent_id == own.node.pk]
    if not below:
        return []
    nodes = [row.node for row in below]
    books, sparks = usage.totals(nodes, cluster, start, end), daily_ratios(nodes, cluster, end)
    return [
        Child(
            row,
            row.entitlement * units,
            row.entitlement * units * HOURS_A_WEEK,
            books[row.node.pk],
            sparks[row.node.pk],
        )
        for row in below
    ]


def children_over_time(children: Sequence[Child], cluster: Cluster, period: Period) -> dict[str, Any]:
    """What the children got in each step: a chart in tree order, those that got least taken together where there are
    too many, and the rows of its table.
    """
    known = [child for child in children if child.books.charged_milli_s]
    if not known:
        return {"children_chart": None}
    steps = period.steps
    most = min(TEAMS_DRAWN, charts.MARKS_MAX // (2 * len(steps.starts) + 1) - 1)  # each has bars and an edge
    drawn = {
        child.row.node.pk
        for child in sorted(known, key=lambda each: (-each.books.charged_milli_s, each.row.node.code))[:most]
    }
    named = [child.row.node for child in known if child.row.node.pk in drawn]
    others = [child.row.node for child in known if child.row.node.pk not in drawn]
    amounts, rest = usage.charged_by_step(named, others, cluster, steps.starts, steps.end)
    series: list[tuple[str, int | None, Sequence[int]]] = [(node.code, node.colour, amounts[node.pk]) for node in named]
    if others:
        series.append((gettext("all others"), None, rest))
    return {
        "children_chart": figure_charts.who_got(series, steps, cluster),
        "children_named": named,
        "has_others": bool(others),
        "children_steps": steps,
        "children_rows": [
            (start, [values[place] for _, _, values in series]) for place, start in enumerate(steps.starts)
        ],
    }


def unassigned_of(own: TreeRow, units: Fraction) -> Unassigned | None:
    """The rest that makes the children sum to 100.00 %; None where there is none, or no children."""
    if not own.unassigned:
        return None
    entitlement = own.entitlement * Fraction(own.unassigned, WHOLE_BASIS_POINTS)
    return Unassigned(own.unassigned, entitlement, entitlement * units, entitlement * units * HOURS_A_WEEK)


def pending_of(node: BudgetNode, cluster: Cluster, person: Person) -> list[Request | Reallocation]:
    """Open requests of the node's children and of itself, and changes of its shares that are proposed or to come; as
    far as the person may see them.
    """
    asked = Request.objects.filter(Q(parent=node) | Q(node=node), cluster=cluster, state=State.SUBMITTED)
    proposed = Reallocation.objects.filter(parent=node, cluster=cluster, state__in=[State.SUBMITTED, State.APPROVED])
    return [
        *(row for row in asked.select_related("node", "parent") if may(person, "request.see", row)),
        *(row for row in proposed.select_related("parent") if may(person, "reallocation.see", row)),
    ]


def path_to(own: TreeRow, rows: Sequence[TreeRow]) -> list[BudgetNode]:
    """The nodes above a row, from the root down, as they hung on that day."""
    by_id = {row.node.pk: row for row in rows}
    found, at = [], own.parent_id
    while at is not None:
        found.append(by_id[at].node)
        at = by_id[at].parent_id
    return found[::-1]


def share_changes(node: BudgetNode, cluster: Cluster, below: Sequence[BudgetNode], on: date) -> list[ShareChange]:
    """The last changes, up to the end of the day `on`, of the shares of the node and of its children on this cluster,
    the newest first. One query.
    """
    children = {child.pk: child for child in below}
    entries = LedgerEntry.objects.filter(
        verb="share.changed",
        node_id__in=[node.pk, *children],
        cluster_name=cluster.name,
        at__lt=midnight(on + timedelta(days=1)),
    )
    found = []
    for entry in entries[:CHANGES_SHOWN]:
        before, after = (shares_in(value) for value in (entry.before, entry.after))
        days = sorted({spell["from"] for spell in (*before, *after)} | {spell["until"] or "" for spell in after} - {""})
        first = next((day for day in days if share_at(before, day) != share_at(after, day)), None)
        if first is None:
            continue
        child = children.get(entry.node_id or 0) or (node if entry.node_id == node.pk else None)
        found.append(ShareChange(entry, child, share_at(before, first), share_at(after, first), first))
    return found


def shares_in(value: object) -> list[dict]:
    """The spells of one side of a ledger entry."""
    return list(value.get("shares", [])) if isinstance(value, dict) else []


def share_at(spells: Sequence[dict], day: str) -> int:
    """The basis points in force on a day; dates written 2026-07-02 compare as text."""
    for each in spells:
        if each["from"] <= day and (each["until"] is None or day < each["until"]):
            return int(each["basis_points"])
    return 0


def people_of(node: BudgetNode, on: date) -> QuerySet[RoleGrant]:
    """Who has a role at this very node on that day."""
    grants = RoleGrant.objects.filter(node=node).filter(in_force(on))
    return grants.select_related("person").order_by("role", "person__username")
