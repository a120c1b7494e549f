"""The budget tree of a cluster: shares, entitlements, and what came of them, expanded level by level, as of a date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

from django.core.exceptions import BadRequest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext

from budgets.models import BudgetNode, Cluster
from budgets.queries import TreeRow, midnight, today, tree_on
from portal.clusters import sizes_milli
from portal.formats import MILLI
from portal.pages import Page, cluster_named, clusters, day_named, render_page
from portal.private_nodes import marks
from scheduler.queries import usage

WINDOW_DAYS = 7
HOURS_A_WEEK = 168
SPARK_DAYS = 14
OPEN_DEPTH, OPEN_ROWS = 1, 100
"""Levels below the root that stand open at first, as long as they come to no more rows than that."""
ROWS_SHOWN = 200
"""Rows drawn at once; a tree with more open nodes says so."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the page. Amounts are units of the cluster and thousandths times seconds; `private` are the cells that
    it has beside its share today, in words.
    """

    row: TreeRow
    is_open: bool
    toggle: str
    units: Fraction
    units_hours_a_week: Fraction
    books: usage.Books
    spark: Sequence[Fraction | None]
    private: str

    @property
    def got(self) -> Fraction | None:
        """Delivered over entitled, in the window."""
        entitled = self.books.entitled_milli_s
        return Fraction(self.books.charged_milli_s, entitled) if entitled else None


class Tree(Page):
    """The tree; `?as_of=` reads a date, `?open=` says which nodes stand open."""

    def get(self, request: HttpRequest, cluster: str | None = None) -> HttpResponse:
        """The whole page, or its table to htmx."""
        self.allow("tree.see")
        among = clusters()
        where = cluster_named(cluster, among)
        on = day_named(request, "as_of", today())
        if on > today() + timedelta(days=3650):
            raise BadRequest(gettext("on: {on} is more than ten years ahead").format(on=on))
        rows = tree_on(where, on)
        opened = opened_nodes(request, rows)
        by_id = {row.node.pk: row for row in rows}
        shown = [row for row in rows if all(pk in opened for pk in above(row, by_id))]
        size_milli = sizes_milli().get(where.pk, 0)
        context = {
            "here": "tree",
            "clusters": among,
            "cluster": where,
            "size_milli": size_milli,
            "on": on,
            "is_past": on < today(),
            "is_future": on > today(),
            "lines": lines(shown[:ROWS_SHOWN], where, on, opened, size_milli, rows),
            "left_off": max(0, len(shown) - ROWS_SHOWN),
            "root": rows[0] if rows else None,
            "all_open": "~".join(sorted(row.node.code for row in rows if row.has_children)),
        }
        return render_page(request, "tree", context, part="_table")


def opened_nodes(request: HttpRequest, rows: Sequence[TreeRow]) -> frozenset[int]:
    """Ids of the nodes that stand open: those that the URL names by code, else the first levels."""
    text = request.GET.get("open")
    if text is None:
        deepest = OPEN_DEPTH
        while deepest and sum(row.depth <= deepest + 1 for row in rows) > OPEN_ROWS:
            deepest -= 1
        return frozenset(row.node.pk for row in rows if row.has_children and row.depth <= deepest)
    by_code = {row.node.code: row.node.pk for row in rows}
    wanted = [code for code in text.split("~") if code]
    unknown = [code for code in wanted if code not in by_code]
    if unknown:
        raise BadRequest(gettext("open: there is no node {unknown!r} in this tree").format(unknown=unknown[0]))
    return frozenset(by_code[code] for code in wanted)


def above(row: TreeRow, by_id: Mapping[int, TreeRow]) -> list[int]:
    """Ids of the nodes above one, from its parent to the root."""
    found, at = [], row.parent_id
    while at is not None:
        found.append(at)
        at = by_id[at].parent_id
    return found


def lines(
    shown: Sequence[TreeRow],
    cluster: Cluster,
    on: date,
    opened: frozenset[int],
    size_milli: int,
    rows: Sequence[TreeRow],
) -> list[Line]:
    """The rows with their figures over the 7 days that end with `on` (or now)."""
    end = min(midnight(on + timedelta(days=1)), datetime.now(UTC).replace(minute=0, second=0, microsecond=0))
    nodes = [row.node for row in shown]
    books = usage.totals(nodes, cluster, end - timedelta(days=WINDOW_DAYS), end)
    sparks = daily_ratios(nodes, cluster, end)
    codes = {row.node.pk: row.node.code for row in rows}
    units = Fraction(size_milli, MILLI)
    private = marks(cluster) if on == today() else {}
    return [
        Line(
            row=row,
            is_open=row.node.pk in opened,
            toggle="~".join(sorted(codes[pk] for pk in opened ^ {row.node.pk})) or "~",
            units=row.entitlement * units,
            units_hours_a_week=row.entitlement * units * HOURS_A_WEEK,
            books=books[row.node.pk],
            spark=sparks[row.node.pk],
            private=private.get(row.node.pk, ""),
        )
        for row in shown
    ]


SPARK_SQL = """
    SELECT node_id, width_bucket(hour, %(starts)s::timestamptz[]) - 1,
        sum(charged_milli_s)::bigint, sum(entitled_milli_s)::bigint
    FROM scheduler_usagehour
    WHERE cluster_id = %(cluster)s AND node_id = ANY(%(nodes)s) AND hour >= %(start)s AND hour < %(end)s
    GROUP BY 1, 2"""


def daily_ratios(nodes: Sequence[BudgetNode], cluster: Cluster, end: datetime) -> dict[int, list[Fraction | None]]:
    """Delivered over entitled on each of the last SPARK_DAYS spans of 24 hours, by node id. One query."""
    start = end.astimezone(UTC) - timedelta(days=SPARK_DAYS)  # by the clock, a day can have 23 or 25
    found: dict[int, list[Fraction | None]] = {node.pk: [None] * SPARK_DAYS for node in nodes}
    starts = [start + timedelta(days=day) for day in range(SPARK_DAYS)]
    values: dict[str, Any] = {"cluster": cluster.pk, "nodes": list(found), "starts": starts, "start": start, "end": end}
    with connection.cursor() as cursor:
        cursor.execute(SPARK_SQL, values)
        for pk, day, charged, entitled in cursor:
            found[pk][day] = Fraction(charged, entitled) if entitled else None
    return found
