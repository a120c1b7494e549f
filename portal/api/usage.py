"""The API of use: the books of a budget node over time, and of a cluster by node or person."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.http import Http404
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.models import BudgetNode
from portal.api import filters
from portal.api import usage_out as told
from portal.api.base import Api
from portal.api.nodes import OfCluster
from portal.pages import cluster_named, clusters
from portal.period import DAYS_MAX, WINDOWS, period_named
from portal.views.node import manages, node_named
from scheduler.queries import people_usage, usage

PERIOD = (
    filters.one_of("window", "up to the last hour that is over; 7d unless said", list(WINDOWS)),
    filters.day("from", "the first day, with `until`, both included"),
    filters.day("until", "the last day"),
    filters.day("as_of", "the end of the window: a day that is over, or today"),
)
CLUSTER = filters.text("cluster", "its name; the first one unless said", at_most=40)
NODE, PERSON = "node", "person"


class Usage(Api):
    """The books of a budget node on a cluster, over time."""

    out = told.UsageOut
    filters = (
        CLUSTER,
        *PERIOD,
        filters.whole("days", "so many of the last days, in place of a window", at_least=1, at_most=DAYS_MAX),
        filters.one_of("step", "hour unless said", [each.value for each in usage.Step]),
    )

    @extend_schema(operation_id="budget_usage", responses=told.UsageOut)
    def get(self, request: Request, code: str) -> Response:
        """By hour or day; whole hours, up to the last one that is over. `as_of` reads it as of an earlier day."""
        said = self.asked()
        node, where = node_named(code), cluster_named(said["cluster"], clusters())
        period = period_named(request)
        start, end = period.start, period.end
        if said["days"] is not None:
            end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
            start = end - timedelta(days=said["days"])
        found = usage.series(node, where, start, end, said["step"] or usage.Step.HOUR)
        return Response(told.series(node, where, start, end, found))


def node_or_root(code: str | None) -> BudgetNode:
    """The node of that code; without one the root.

    Raises:
        Http404: there is none.
    """
    node = node_named(code) if code else BudgetNode.objects.filter(parent=None).order_by("pk").first()
    if node is None:
        raise Http404(gettext("There is no budget tree yet."))
    return node


class ClusterUsage(OfCluster):
    """What was used of a cluster."""

    out = told.ClusterUsageOut
    filters = (
        filters.text(NODE, "the code of a budget node; the root unless said", at_most=16),
        filters.one_of("by", "its children, or its people; node unless said", [NODE, PERSON]),
        *PERIOD,
    )

    @extend_schema(operation_id="cluster_usage", responses=told.ClusterUsageOut)
    def get(self, request: Request, cluster: str) -> Response:
        """A budget node's books, and those of its children or what its people used. Whole hours."""
        where, said, period = self.cluster(), self.asked(), period_named(request)
        parent, person = node_or_root(said[NODE]), self.person()
        children = list(BudgetNode.objects.filter(parent=parent).order_by("code")) if said["by"] != PERSON else []
        found = usage.totals([parent, *children], where, period.start, period.end)
        people: list[people_usage.PersonUsage] = []
        if said["by"] == PERSON:
            only = None if manages(person, parent) else person.pk
            people = list(people_usage.by_person(parent, where, period.start, period.end, period.now, only=only))
        return Response(
            {
                "cluster": where.name,
                "start": told.moment(period.start),
                "end": told.moment(period.end),
                "node": told.of_node(parent, found[parent.pk]),
                "children": [told.of_node(each, found[each.pk]) for each in children],
                "people": [told.of_person(each) for each in people],
            }
        )
