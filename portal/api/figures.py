"""The API of the figures: pyramid, fairness, waits, squatting, priorities, pace, as the pages show them.

The time is chosen as on the pages: `window`, or `from` and `until`, both days included, and `as_of`. Ratios are two
whole numbers, numerator and denominator, and null where there was nothing to divide by or nothing was measured.
"""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.authority import may, nodes_with
from budgets.models import BudgetNode, Role
from portal.api import filters
from portal.api.base import Api
from portal.api.explaining import delay
from portal.api.figures_out import (
    FailuresOut,
    FairnessOut,
    PaceOut,
    PeopleUsageOut,
    PrioritiesOut,
    PyramidOut,
    SquattingOut,
    WaitsOut,
)
from portal.api.serializers import books, moment
from portal.api.usage import CLUSTER, PERIOD
from portal.pace import pace_of, span_named
from portal.pages import cluster_named, clusters, whole_number
from portal.period import Period, period_named
from portal.views.fairness import Level, level_of, parent_named
from portal.views.node import manages, node_named
from portal.views.priorities import page_of
from portal.views.pyramid import layers, phases
from portal.views.waits import node_of
from scheduler import failure_words
from scheduler.queries import delays, failed, fairness, people_usage, priorities, pyramid, squatting, waits
from scheduler.queries.behind import Window
from scheduler.queries.pace import Pace

NODE = filters.text("node", "the code of a budget node; the root unless said", at_most=16)
PAGE = filters.whole("page", "from 1", at_least=1, at_most=100_000)


def between(period: Period) -> dict[str, Any]:
    """PeriodOut."""
    return {"start": moment(period.start), "end": moment(period.end)}


def ratio(part: int, whole: int) -> list[int] | None:
    """A ratio as two whole numbers."""
    return [part, whole] if whole else None


class Pyramid(Api):
    """The pyramid of a cluster."""

    out = PyramidOut
    filters = PERIOD

    @extend_schema(operation_id="pyramid", responses=PyramidOut)
    def get(self, request: Request, cluster: str) -> Response:
        """Availability, occupancy, impact, utilization."""
        where, period = cluster_named(cluster, clusters()), period_named(request)
        found = pyramid.pyramid(where, period.steps, period.now)
        return Response(
            {
                "cluster": where.name,
                **between(period),
                "step": str(period.step),
                "layers": {layer.key: ratio(layer.part_milli_s, layer.whole_milli_s) for layer in layers(found)},
                "phases_milli_s": {each.key.removesuffix("_milli_s"): each.milli_s for each in phases(found)},
                "measured_milli_s": found.activity.measured_milli_s,
                "busy_milli_s": found.activity.busy_milli_s,
                "allocated_milli_s": found.total.allocated_milli_s,
                "unallocated_milli_s": found.total.uncharged_milli_s,
                "free_milli_s": found.total.free_milli_s,
                "points": [point(each) for each in found.points],
            }
        )


def point(each: pyramid.Point) -> dict[str, Any]:
    """One hour or day of a pyramid."""
    layer, activity = each.layer, each.activity
    return {
        "start": moment(each.start),
        "end": moment(each.end),
        "availability": ratio(layer.healthy_milli_s, layer.capacity_milli_s),
        "occupancy": ratio(layer.held_milli_s, layer.usable_milli_s),
        "impact": ratio(layer.given_milli_s, layer.owed_milli_s),
        "utilization": ratio(activity.busy_milli_s, activity.measured_milli_s),
    }


class Fairness(Api):
    """Owed against delivered, lent and borrowed, at one level of the tree."""

    out = FairnessOut
    filters = (NODE, *PERIOD)

    @extend_schema(operation_id="fairness", responses=FairnessOut)
    def get(self, request: Request, cluster: str) -> Response:
        """The children of a node."""
        where, period, parent = cluster_named(cluster, clusters()), period_named(request), parent_named(request)
        level = level_of(parent, where, period)
        longest = fairness.waited_longest(parent, where, period.start, period.live_end, period.now)
        return Response(
            {
                "cluster": where.name,
                "parent": parent.code,
                **between(period),
                "delivery": level.fair.delivery,
                "nodes": [
                    {"node": row.line.node.code, **books(row.line.books), "lent_milli_s": row.lent_milli_s}
                    for row in level.rows
                ],
                "lent": lent_rows(level),
                "waited_longest": [
                    {
                        "code": row.code, "leaf": row.leaf, "workload_class": row.workload_class,
                        "size_milli": row.size_milli, "submitted_at": moment(row.submitted_at),
                        "first_started_at": moment(row.started_at), "wait_s": row.wait_s,
                    }
                    for row in longest
                ],
            }
        )  # fmt: skip


def lent_rows(level: Level) -> list[dict[str, Any]]:
    """Who ran on whose entitlement: what is not 0."""
    return [
        {"borrower": row.party.key, "lender": lender.key, "milli_s": amount}
        for row in level.borrowers
        for lender, amount in zip(level.lenders, row.amounts, strict=True)
        if amount
    ]


class Waits(Api):
    """Waits by class."""

    out = WaitsOut
    filters = (NODE, *PERIOD)

    @extend_schema(operation_id="waits", responses=WaitsOut)
    def get(self, request: Request, cluster: str) -> Response:
        """Of work at or below a node."""
        where, period, node = cluster_named(cluster, clusters()), period_named(request), node_of(request)
        found = waits.by_class(node, where, period.start, period.live_end, period.now)
        waited = delays.of_node(node, where, period.steps, period.live_end, period.now)
        return Response(
            {
                "cluster": where.name,
                "node": node.code,
                **between(period),
                "bounds_s": list(waits.BOUNDS_S),
                "classes": [
                    {
                        "workload_class": each.name, "first_starts": each.count, "median_s": each.median_s,
                        "p90_s": each.p90_s, "longest_s": each.longest_s, "bins": list(each.bins),
                        "not_started": each.still, "not_started_longest_s": each.still_longest_s,
                    }
                    for each in found
                ],
                "delays": [delay(each) for each in waited.started],
                "delays_not_started": [delay(each) for each in waited.still],
            }
        )  # fmt: skip


class Failures(Api):
    """Why runs failed."""

    out = FailuresOut
    filters = (NODE, *PERIOD)

    @extend_schema(operation_id="failures", responses=FailuresOut)
    def get(self, request: Request, cluster: str) -> Response:
        """Of work at or below a node."""
        where, period, node = cluster_named(cluster, clusters()), period_named(request), node_of(request)
        found = failed.of_node(node, where, period.steps.starts, period.live_end)
        return Response(
            {
                "cluster": where.name,
                "node": node.code,
                **between(period),
                "runs_ended": found.ended,
                "classes": [
                    {
                        "failure_class": each.kind, "why": gettext(failure_words.CLASSES[each.kind]),
                        "origin": each.origin, "runs": each.runs, "held_milli_s": each.held_milli_s,
                    }
                    for each in found.lines
                ],
            }
        )  # fmt: skip


class Squatting(Api):
    """Devices that are held and do nothing."""

    out = SquattingOut
    filters = (NODE, PAGE, *PERIOD)

    @extend_schema(operation_id="squatting", responses=SquattingOut)
    def get(self, request: Request, cluster: str) -> Response:
        """By child of a node; what is personal, to that person and those who manage them."""
        where, period, node = cluster_named(cluster, clusters()), period_named(request), node_of(request)
        number = whole_number(request, "page", 1)
        person = self.person()
        window = Window(where, period.start, period.end, period.now)
        children = list(BudgetNode.objects.filter(parent=node).order_by("code"))
        idle = squatting.by_node([node, *children], window)
        theirs: dict[str, Any] = {"person_id": person.pk, "managed": nodes_with(person, [Role.MANAGER])}
        listed = squatting.workloads(node, window, number, **theirs)
        return Response(
            {
                "cluster": where.name,
                "node": node.code,
                **between(period),
                "nodes": [
                    {
                        "node": each.code, "held_milli_s": idle[each.pk].held_milli_s,
                        "measured_milli_s": idle[each.pk].measured_milli_s,
                        "idle_milli_s": idle[each.pk].idle_milli_s, "workloads": idle[each.pk].workloads,
                    }
                    for each in (node, *children)
                ],
                "people": [
                    {"name": row.name, "idle_milli_s": row.idle_milli_s, "workloads": row.workloads}
                    for row in squatting.people(node, window, **theirs)
                ],
                "workloads": [
                    {
                        "code": row.code, "owner": row.owner, "state": row.state, "size_milli": row.size_milli,
                        "idle_milli_s": row.idle_milli_s, "hours": row.hours, "last_at": moment(row.last_at),
                    }
                    for row in listed.rows
                ],
                "page": number,
                "count": listed.count,
            }
        )  # fmt: skip


class Priorities(Api):
    """Priorities inside a team, for its people and those above."""

    out = PrioritiesOut
    filters = (CLUSTER, PAGE, *PERIOD)

    @extend_schema(operation_id="priorities", responses=PrioritiesOut)
    def get(self, request: Request, code: str) -> Response:
        """By leaf; what is personal, to that person and those who manage the node."""
        node = node_named(code)
        if not may(self.person(), "node.see_inside", node):
            raise Http404(gettext("There is no budget node {code!r} that you see inside of.").format(code=code))
        where = cluster_named(request.query_params.get("cluster"), clusters())
        period, person = period_named(request, "28d"), self.person()
        only = None if manages(person, node) else person.pk
        number = whole_number(request, "page", 1)
        leaves = priorities.by_leaf(node, where, period.start, period.live_end, period.now)
        return Response(
            {
                "cluster": where.name,
                "node": node.code,
                **between(period),
                "leaves": [
                    {
                        "node": leaf.leaf.code, "submitted": leaf.submitted, "raised": leaf.raised,
                        "all_raised": leaf.all_raised,
                        "priorities": [
                            {
                                "priority": rank.priority, "waiting": rank.waiting, "running": rank.running,
                                "submitted": rank.submitted, "held_milli_s": rank.held_milli_s,
                            }
                            for rank in leaf.ranks
                        ],
                    }
                    for leaf in page_of(leaves, number)
                ],
                "page": number,
                "count": len(leaves),
                "people": [
                    {"name": row.name, "submitted": row.submitted, "raised": row.raised}
                    for row in priorities.by_person(node, where, period.start, period.live_end, only=only)
                ],
            }
        )  # fmt: skip


class PaceOf(Api):
    """How far a budget is used beside how far its time is gone."""

    out = PaceOut
    filters = (
        CLUSTER,
        filters.one_of("pace", "around the day; month unless said", ["week", "month", "quarter"]),
        filters.day("pace_from", "a day, with `pace_until`, both included"),
        filters.day("pace_until", "the last day"),
        filters.day("as_of", "seen from the end of that day"),
    )

    @extend_schema(operation_id="budget_pace", responses=PaceOut)
    def get(self, request: Request, code: str) -> Response:
        """With a forecast to the end of the period."""
        node, where = node_named(code), cluster_named(request.query_params.get("cluster"), clusters())
        period = period_named(request)
        found = pace_of(node, where, span_named(request, period.on), period.end)
        return Response({"node": node.code, "cluster": where.name, **paced(found)})


def paced(found: Pace) -> dict[str, Any]:
    """PaceOut without where it is."""
    forecast = found.forecast
    return {
        "start": moment(found.start),
        "end": moment(found.end),
        "at": moment(found.at),
        "entitled_milli_s": found.entitled_milli_s,
        "used": ratio(found.books.charged_milli_s, found.entitled_milli_s),
        "gone": ratio(found.books.entitled_milli_s, found.entitled_milli_s),
        "books": books(found.books),
        "forecast": None
        if forecast is None
        else {
            "low_milli_s": forecast.low_milli_s,
            "middle_milli_s": forecast.middle_milli_s,
            "high_milli_s": forecast.high_milli_s,
            "history_days": forecast.history_days,
        },
    }


class PeopleUsage(Api):
    """What people used of a node."""

    out = PeopleUsageOut
    filters = (CLUSTER, *PERIOD)

    @extend_schema(operation_id="budget_people", responses=PeopleUsageOut)
    def get(self, request: Request, code: str) -> Response:
        """All for those who manage it, and each for themselves."""
        node, where = node_named(code), cluster_named(request.query_params.get("cluster"), clusters())
        period, person = period_named(request), self.person()
        only = None if manages(person, node) else person.pk
        rows = people_usage.by_person(node, where, period.start, period.end, period.now, only=only)
        return Response(
            {
                "node": node.code,
                "cluster": where.name,
                **between(period),
                "people": [
                    {
                        "name": row.name, "others": row.others, "charged_milli_s": row.charged_milli_s,
                        "uncharged_milli_s": row.uncharged_milli_s, "workloads": row.workloads,
                    }
                    for row in rows
                ],
            }
        )  # fmt: skip
