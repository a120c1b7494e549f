"""The pyramid of a cluster: availability, occupancy, impact, utilization, and what is behind each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from budgets.authority import nodes_with
from budgets.models import BudgetNode, Cluster, Person, Role
from portal import figure_charts, formats
from portal.clusters import sizes_milli
from portal.pages import Page, choice, cluster_named, clusters, render_page, whole_number
from portal.period import Period, period_named
from scheduler.queries import behind
from scheduler.queries.behind import PER_PAGE, Listed, Window
from scheduler.queries.pyramid import Pyramid, pyramid

FIGURES: Mapping[str, str | Promise] = {
    "availability": gettext_lazy("Availability"),
    "occupancy": gettext_lazy("Occupancy"),
    "impact": gettext_lazy("Impact"),
    "utilization": gettext_lazy("Utilization"),
}
DEFINITIONS: Mapping[str, str | Promise] = {
    "availability": gettext_lazy("of all device time, the part on nodes that were healthy and not in maintenance"),
    "occupancy": gettext_lazy(
        "of the healthy device time, with what was still held on draining or unreachable nodes, the part that was held"
    ),
    "impact": gettext_lazy("of what was owed to each child of the root, the part that it was given"),
    "utilization": gettext_lazy("of the held device time that nodes measured, how much was activity"),
}
BEHIND: Mapping[str, str | Promise] = {
    "availability": gettext_lazy("nodes that could not be used"),
    "occupancy": gettext_lazy("workloads that held devices"),
    "impact": gettext_lazy("funded workloads that asked and waited"),
    "utilization": gettext_lazy(
        "workloads whose held devices were not busy: yours, and those of the nodes that you manage"
    ),
}
PHASES: Sequence[tuple[str, str | Promise, str | Promise]] = (
    ("startup_milli_s", gettext_lazy("Start-up"), gettext_lazy("from a workload's first start until every rank ran")),
    (
        "restart_milli_s",
        gettext_lazy("Restart"),
        gettext_lazy("the same of its later runs, after a preemption or a lost node"),
    ),
    ("saving_milli_s", gettext_lazy("Saving"), gettext_lazy("from the stop signal until the devices were free")),
    (
        "lost_milli_s",
        gettext_lazy("Work lost"),
        gettext_lazy("ran, and nothing was kept: it could not be resumed, and was preempted or lost"),
    ),
    ("running_milli_s", gettext_lazy("Running"), gettext_lazy("all the rest")),
)


@dataclass(frozen=True, slots=True)
class Layer:
    """One figure of the pyramid: its value, the two amounts that it is made of, and what it means."""

    key: str
    name: str | Promise
    ratio: float | None
    part_milli_s: int
    whole_milli_s: int
    definition: str | Promise

    @property
    def fraction(self) -> Fraction | None:
        """The ratio, exact."""
        return None if self.ratio is None else Fraction(self.part_milli_s, self.whole_milli_s)


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the held device time."""

    key: str
    name: str | Promise
    milli_s: int
    part: Fraction | None
    definition: str | Promise


class PyramidPage(Page):
    """`?window=`, `?from=&until=` and `?as_of=` choose the time, `?behind=` and `?page=` the list below."""

    def get(self, request: HttpRequest, cluster: str | None = None) -> HttpResponse:
        """The whole page."""
        self.allow("cluster.see")
        among = clusters()
        where = cluster_named(cluster, among)
        period = period_named(request)
        figure = choice(request, "behind", dict(FIGURES), "occupancy")
        number = whole_number(request, "page", 1)
        person: Person = request.user  # type: ignore[assignment]
        found = pyramid(where, period.steps, period.now)
        listed = list_behind(figure, where, period, number, person)
        pages = max(1, -(-listed.count // PER_PAGE))
        if number > 1 and not listed.rows:
            raise Http404(gettext("There is no page {number} of this list.").format(number=number))
        leaf_ids = {row.leaf_id for row in listed.rows if hasattr(row, "leaf_id")}
        context = {
            **period.context(),
            "here": "pyramid",
            "clusters": among,
            "cluster": where,
            "size_milli": sizes_milli().get(where.pk, 0),
            "found": found,
            "sentence": sentence(found),
            "layers": layers(found),
            "phases": phases(found),
            "trend_rows": trend_rows(found),
            "trend": figure_charts.pyramid_trend(found) if found.points else None,
            "held": figure_charts.who_held(found) if found.points else None,
            "figures": FIGURES,
            "figure": figure,
            "figure_words": BEHIND[figure],
            "rows": listed.rows,
            "leaves": BudgetNode.objects.in_bulk(list(leaf_ids)) if leaf_ids else {},
            "number": number,
            "pages": pages,
            "count": listed.count,
        }
        return render_page(request, "pyramid", context)


def layers(found: Pyramid) -> list[Layer]:
    """The four figures, from the ground up."""
    total, activity = found.total, found.activity
    amounts = {
        "availability": (total.availability, total.healthy_milli_s, total.capacity_milli_s),
        "occupancy": (total.occupancy, total.held_milli_s, total.usable_milli_s),
        "impact": (total.impact, total.given_milli_s, total.owed_milli_s),
        "utilization": (activity.utilization, activity.busy_milli_s, activity.measured_milli_s),
    }
    return [Layer(key, name, *amounts[key], DEFINITIONS[key]) for key, name in FIGURES.items()]


def phases(found: Pyramid) -> list[Phase]:
    """The held device time by what it was; the parts sum to it."""
    activity = found.activity
    return [
        Phase(key, name, getattr(activity, key), activity.part(getattr(activity, key)), definition)
        for key, name, definition in PHASES
    ]


def trend_rows(found: Pyramid) -> list[tuple[datetime, list[str]]]:
    """The table behind the charts: the beginning of each point, and its numbers as they are written."""
    unknown = gettext("not measured")
    rows = []
    for point in found.points:
        layer, activity = point.layer, point.activity
        ratios = [
            (layer.healthy_milli_s, layer.capacity_milli_s, formats.NOT_APPLICABLE),
            (layer.held_milli_s, layer.usable_milli_s, formats.NOT_APPLICABLE),
            (layer.given_milli_s, layer.owed_milli_s, formats.NOT_APPLICABLE),
            (activity.busy_milli_s, activity.measured_milli_s, unknown),
        ]
        texts = [formats.half_up_ratio(100 * part, whole, 1) if whole else none for part, whole, none in ratios]
        amounts = (layer.allocated_milli_s, layer.uncharged_milli_s, layer.free_milli_s)
        texts += [formats.half_up_ratio(amount, formats.MILLI_S_PER_HOUR, 1) for amount in amounts]
        rows.append((point.start, texts))
    return rows


def sentence(found: Pyramid) -> str:
    """What the pyramid says, as one would say it."""
    total, activity, unit = found.total, found.activity, formats.unit_word(found.cluster.unit)
    if total.occupancy is None:
        return gettext("Nothing is known of {cluster} in this time.").format(cluster=found.cluster.name)

    def percent(ratio: float | None) -> str:
        return formats.measured_percent(None if ratio is None else Fraction(ratio))

    parts = [
        gettext("{part} of the usable {units} were held").format(part=percent(total.occupancy), units=unit),
        gettext("{part} of what was owed was given").format(part=percent(total.impact))
        if total.owed_milli_s
        else gettext("nothing was owed to anybody"),
        gettext("the held ones were {part} busy, measured").format(part=percent(activity.utilization))
        if activity.measured_milli_s
        else gettext("how busy they were was not measured"),
    ]
    return f"{formats.joined(parts)}."


def list_behind(figure: str, cluster: Cluster, period: Period, page: int, person: Person) -> Listed[Any]:
    """A page of what is behind a figure."""
    window = Window(cluster, period.start, period.end, period.now)
    if figure == "availability":
        return behind.unfit(window, page)
    if figure == "occupancy":
        return behind.held(window, page)
    if figure == "impact":
        return behind.waited(window, page)
    return behind.idled(window, page, person_id=person.pk, managed=nodes_with(person, [Role.MANAGER]))
