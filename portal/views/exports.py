"""Budgets as CSV files: shares (which can be imported again), usage by day, and the requests that one may see."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.translation import gettext

from budgets import past
from budgets.models import BudgetNode, Cluster, Person, Request
from budgets.queries import midnight, today
from portal.csv_files import Cell, csv_response, decimal_text, percent
from portal.formats import MILLI_S_PER_HOUR, hours_word
from portal.pages import Page, cluster_named, clusters, day_named, render_page
from portal.shares_csv import HEADER as SHARES_HEADER
from portal.shares_csv import rows_to_export, shares_to_export
from portal.views.node import node_named
from portal.views.requests import visible
from scheduler.queries.usage import totals_in_each

USAGE_DAYS = 28
USAGE_DAYS_MAX = 370
PARTS = {
    "entitled": "entitled_milli_s",
    "delivered": "charged_milli_s",
    "delivered within": "within_milli_s",
    "borrowed": "borrowed_milli_s",
    "owed": "owed_milli_s",
    "owed and not delivered": "not_delivered_milli_s",
    "not asked for": "not_asked_milli_s",
    "in repair": "in_repair_milli_s",
    "unallocated": "uncharged_milli_s",
}
"""Columns of amounts, in hours of the cluster's unit, and where they come from."""
REQUEST_HEADER = (
    "request", "state", "node", "node name", "parent", "cluster", "more % of parent", "from", "until", "useless on",
    "author", "desk", "submitted", "decided", "decided by", "why", "otherwise", "decision",
)  # fmt: skip


class Exports(Page):
    """What can be had as a file."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page with the files and what is in them."""
        self.allow("tree.see")
        root = BudgetNode.objects.filter(parent=None).first()
        end = today() + timedelta(days=1)
        context = {
            "here": "imports",
            "clusters": clusters(),
            "root": root,
            "start": end - timedelta(days=USAGE_DAYS),
            "end": end,
        }
        return render_page(request, "exports", context)


class SharesExport(Page):
    """`?cluster=` or all: every share with its days, past and future ones too."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        """The file, as the import takes it."""
        self.allow("tree.see")
        named = request.GET.get("cluster", "")
        cluster = cluster_named(named, clusters()) if named else None
        name = f"shares {cluster.name} {today()}" if cluster else f"shares {today()}"
        return csv_response(name, SHARES_HEADER, rows_to_export(shares_to_export(cluster)))


class UsageExport(Page):
    """`?node=&cluster=&since=&until=`: the books of a node and of each node below it, day by day."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        """The file."""
        self.allow("tree.see")
        cluster = cluster_named(request.GET.get("cluster"), clusters())
        node = node_named(request.GET["node"]) if request.GET.get("node") else BudgetNode.objects.get(parent=None)
        end = day_named(request, "until", today() + timedelta(days=1))
        start = day_named(request, "since", end - timedelta(days=USAGE_DAYS))
        if not start < end <= start + timedelta(days=USAGE_DAYS_MAX):
            raise BadRequest(
                gettext("until: must be 1 to {days} days after since; it is the first day left out").format(
                    days=USAGE_DAYS_MAX
                )
            )
        header = ("day", "node", "name", "parent", "cluster", "in", *PARTS)
        return csv_response(f"usage {node.code} {cluster.name} {start}", header, usage_rows(node, cluster, start, end))


class RequestsExport(Page):
    """The requests that one may see, all states."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        """The file."""
        person: Person = request.user  # type: ignore[assignment]
        rows = visible(person).select_related("node", "parent", "cluster", "author", "desk", "decided_by")
        return csv_response(f"requests {today()}", REQUEST_HEADER, (request_row(row) for row in rows.order_by("pk")))


def usage_rows(node: BudgetNode, cluster: Cluster, start: date, end: date) -> Iterator[tuple[Cell, ...]]:
    """A row for each day [start, end) and node of the subtree (as it hangs now) of which something is known; names and
    parents are those of the day. Four queries.
    """
    nodes = {each.pk: each for each in BudgetNode.objects.filter(path__contains=[node.pk])}
    codes = dict(BudgetNode.objects.values_list("pk", "code"))
    then = past.since(midnight(start))
    days = [start + timedelta(days=place) for place in range((end - start).days)]
    order = {pk: index for index, pk in enumerate(sorted(nodes, key=lambda pk: nodes[pk].path))}
    books = totals_in_each(nodes, cluster, [midnight(day) for day in days], midnight(end))
    overs = [midnight(day + timedelta(days=1)) for day in days]
    unit_hours = hours_word(cluster.unit)
    for place, pk, found in sorted(books, key=lambda each: (each[0], order[each[1]])):
        at, over = nodes[pk], overs[place]
        amounts = (decimal_text(getattr(found, part), MILLI_S_PER_HOUR) for part in PARTS.values())
        parent = codes.get(then.parent_at(at, over) or 0, "")
        yield (days[place], at.code, then.name_at(at, over), parent, cluster.name, unit_hours, *amounts)


def request_row(row: Request) -> tuple[Cell, ...]:
    """A request under REQUEST_HEADER."""
    return (
        str(row), row.state, row.node.code, row.node.name, row.parent.code, row.cluster.name,
        percent(row.more_basis_points), row.starts_on, row.ends_on, row.useless_on, str(row.author), row.desk.code,
        row.submitted_at, row.decided_at, str(row.decided_by) if row.decided_by else None, row.why, row.otherwise,
        row.decision_reason,
    )  # fmt: skip
