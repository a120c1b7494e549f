"""Waits by class: how long work waited for its first start, and how long those have waited that have not started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from budgets.models import BudgetNode
from portal import delayed, figure_charts, formats
from portal.csv_files import Cell, csv_response
from portal.pages import Page, cluster_named, clusters, render_page
from portal.period import Period, period_named
from portal.views.fairness import CLASS_WORDS, class_title
from portal.views.node import node_named
from scheduler.queries import delays, waits
from scheduler.queries.waits import BOUNDS_S, ClassWaits

DEFINITIONS: Mapping[str, str | Promise] = {
    "debug": gettext_lazy("a contract of at most 15 minutes, on at most one node"),
    "standard": gettext_lazy("all other funded work"),
    "large": gettext_lazy("at least a sixteenth of the cluster"),
    "unallocated": gettext_lazy("no contract: charged to nobody, and started when nobody funded needs the room"),
}
NODES_OFFERED = 200
HEADER = (
    "class", "node", "cluster", "from", "until", "first starts", "median s", "p90 s", "longest s", "not started yet",
    "longest of these s", *(f"up to {bound} s" for bound in BOUNDS_S), f"over {BOUNDS_S[-1]} s",
)  # fmt: skip


def node_of(request: HttpRequest) -> BudgetNode:
    """At or below which node: `?node=`, else the root.

    Raises:
        Http404: there is none.
    """
    code = request.GET.get("node", "")
    node = node_named(code) if code else BudgetNode.objects.filter(parent=None).first()
    if node is None:
        raise Http404(gettext("There is no budget tree yet."))
    return node


class WaitsPage(Page):
    """`?node=` chooses whose waits, `?window=`, `?from=&until=` and `?as_of=` the time."""

    def get(self, request: HttpRequest, cluster: str | None = None) -> HttpResponse:
        """The whole page."""
        self.allow("cluster.see")
        among = clusters()
        where = cluster_named(cluster, among)
        period = period_named(request)
        node = node_of(request)
        found = waits.by_class(node, where, period.start, period.live_end, period.now)
        started = [(class_title(each), each) for each in found if each.count]
        waited = delays.of_node(node, where, period.steps, period.live_end, period.now)
        chart = figure_charts.delays_over_time(waited, period.steps, where, delayed.names()) if started else None
        context = {
            **period.context(),
            "here": "waits",
            "clusters": among,
            "cluster": where,
            "node": node,
            "nodes": nodes_offered(node),
            "classes": [(CLASS_WORDS[each.name], DEFINITIONS[each.name], each) for each in found],
            "started": started,
            "sentence": sentence(found),
            "chart": figure_charts.wait_distribution(started) if started else None,
            "bins": figure_charts.bin_names(),
            "delays": [
                (started_part, still_part, ratio_of(started_part.waited_milli_s, waited.started_milli_s))
                for started_part, still_part in zip(
                    delayed.shown(waited.started), delayed.shown(waited.still), strict=True
                )
            ],
            "waited": waited,
            "legend": delayed.legend(delayed.names()),
            "delays_chart": chart if waited.started_milli_s else None,
            "height_rem": 4 + 7 * len(started),
        }
        return render_page(request, "waits", context)


def ratio_of(part: int, whole: int) -> Fraction | None:
    """A part of a whole; None where there is none."""
    return Fraction(part, whole) if whole else None


def nodes_offered(node: BudgetNode) -> list[BudgetNode]:
    """What the page offers to choose from: nodes with children, in tree order, and the one that is shown."""
    offered = list(BudgetNode.objects.filter(children__isnull=False).distinct().order_by("path")[:NODES_OFFERED])
    return offered if node in offered else [*offered, node]


def sentence(found: Sequence[ClassWaits]) -> str:
    """What the waits say, as one would say it."""
    parts = [
        gettext("half of the {name} work started within {median}, nine of ten within {p90}").format(
            name=class_title(each).lower(),
            median=formats.duration(each.median_s),
            p90=formats.duration(each.p90_s or 0),
        )
        for each in found
        if each.median_s is not None and each.name != "unallocated"
    ]
    if not parts:
        return gettext("No funded work started for the first time in this time.")
    said = "; ".join(parts)
    return f"{said[:1].upper()}{said[1:]}."


class WaitsCsv(Page):
    """The waits of a cluster by class, as a file."""

    def get(self, request: HttpRequest, cluster: str) -> HttpResponseBase:
        """One row a class."""
        self.allow("cluster.see")
        where, period, node = cluster_named(cluster, clusters()), period_named(request), node_of(request)
        found = waits.by_class(node, where, period.start, period.live_end, period.now)
        rows = self.rows(found, node.code, where.name, period)
        return csv_response(f"waits {where.name} {node.code} {period.on}", HEADER, rows)

    def rows(self, found: Sequence[ClassWaits], node: str, cluster: str, period: Period) -> Iterator[tuple[Cell, ...]]:
        """Under HEADER; whole seconds."""
        for each in found:
            yield (
                each.name,
                node,
                cluster,
                period.start,
                period.live_end, each.count, each.median_s, each.p90_s,
                each.longest_s, each.still, each.still_longest_s, *each.bins,
            )  # fmt: skip
