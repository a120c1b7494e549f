"""The API: clusters, tree, shares, nodes, workloads, queue and usage, with the rules of the pages.

Amounts are thousandths of the cluster's unit, device time thousandths times seconds, shares basis points, instants
ISO 8601 in UTC. Lists come page by page: `next` is the address of the page that follows.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.authority import may
from budgets.models import BudgetNode, Cluster, Share
from budgets.queries import today, tree_on
from budgets.services import reallocations
from portal.api import serializers
from portal.api.base import PAGING, Api, Pages
from portal.clusters import sizes_milli
from portal.pages import choice, cluster_named, clusters, day_named, whole_number
from portal.views.node import node_named
from portal.views.queue import filters_of
from portal.views.workload import workload_named
from portal.views.workloads import filtered
from scheduler.models import Node
from scheduler.queries import queue, repairs, usage
from scheduler.services import rollout, workloads

MAX_DAYS = 92
"""The longest time that usage is given for at once."""


class Clusters(Api):
    """All clusters, with their unit and size."""

    @extend_schema(responses=serializers.ClusterOut(many=True))
    def get(self, request: Request) -> Response:
        """A short list: not paged."""
        sizes = sizes_milli()
        modes = rollout.now_and_next(datetime.now(UTC))
        contracts = (rollout.Mode.CONTRACTS, None)
        rows = [
            serializers.cluster(each, sizes.get(each.pk, 0), str(modes.get(each.pk, contracts)[0]))
            for each in clusters()
        ]
        return Response(rows)


class Tree(Api):
    """The budget tree of a cluster as of a day."""

    known = frozenset({"as_of"})

    @extend_schema(responses=serializers.TreeOut(many=True), parameters=[OpenApiParameter("as_of", str)])
    def get(self, request: Request, cluster: str) -> Response:
        """Parents before their children."""
        where = cluster_named(cluster, clusters())
        on = day_named(request, "as_of", today())
        return Response(serializers.tree(tree_on(where, on)))


class Shares(Api):
    """The shares of a node's children on a cluster, all dates; its managers set them."""

    scopes = {"POST": "decide"}

    @extend_schema(responses=serializers.ShareOut(many=True))
    def get(self, request: Request, cluster: str, code: str) -> Response:
        """Dated shares."""
        return Response(self.rows(node_named(code), cluster_named(cluster, clusters())))

    @extend_schema(request=serializers.SetShares, responses=serializers.ShareOut(many=True))
    def post(self, request: Request, cluster: str, code: str) -> Response:
        """Set shares from a day on; others keep theirs. The version guards against a stale reading."""
        node, where = node_named(code), cluster_named(cluster, clusters())
        if not may(self.person(), "share.change", node):
            raise PermissionDenied(gettext("The shares of {code} are for its managers to change.").format(code=code))
        said = self.read(serializers.SetShares(data=request.data))
        children = {child.code: child for child in BudgetNode.objects.filter(parent=node)}
        unknown = sorted(set(said["shares"]) - set(children))
        if unknown:
            raise ValidationError({f"shares.{unknown[0]}": [gettext("It is no child of {code}.").format(code=code)]})
        reallocations.apply_directly(
            parent=node,
            cluster=where,
            shares={children[child]: points for child, points in said["shares"].items()},
            starts_on=said["valid_from"],
            by=self.person(),
            reason=said["reason"],
            version=said["version"],
        )
        return Response(self.rows(node, where))

    def rows(self, node: BudgetNode, cluster: Cluster) -> list[dict[str, Any]]:
        """The children's shares, and the version to send back with a change."""
        found = (
            Share.objects.filter(parent=node, cluster=cluster)
            .select_related("node")
            .order_by("node__code", "valid_from")
        )
        return [serializers.share(each) for each in found]


class Nodes(Api):
    """The nodes of a cluster."""

    known = frozenset({"cursor", "limit"})

    @extend_schema(responses=serializers.NodeOut(many=True), parameters=PAGING)
    def get(self, request: Request, cluster: str) -> Response:
        """By name."""
        where = cluster_named(cluster, clusters())
        rows = Node.objects.filter(cluster=where, retired_at=None).select_related("rack").prefetch_related("devices")
        pages = Pages()
        pages.ordering = ("name",)
        shown = pages.paginate_queryset(rows, request, self)
        return pages.get_paginated_response([serializers.node(each) for each in shown or []])


class Repairs(Api):
    """How nodes of a cluster were repaired."""

    @extend_schema(responses=serializers.RepairsOut)
    def get(self, request: Request, cluster: str) -> Response:
        """Over 30 days, and those that go on."""
        where = cluster_named(cluster, clusters())
        return Response(serializers.repairs(repairs.of_cluster(where, datetime.now(UTC))))


class Workloads(Api):
    """All workloads; submitting one or an array."""

    known = frozenset({"cursor", "limit", "find", "cluster", "state", "owner"})
    scopes = {"POST": "submit"}

    @extend_schema(
        responses=serializers.WorkloadOut(many=True),
        parameters=[*PAGING, *(OpenApiParameter(name, str) for name in ("find", "cluster", "state", "owner"))],
    )
    def get(self, request: Request) -> Response:
        """The latest first."""
        rows = filtered(request, clusters()).select_related("leaf", "cluster", "owner")
        pages = Pages()
        shown = pages.paginate_queryset(rows, request, self)
        return pages.get_paginated_response([serializers.workload(each, self.person()) for each in shown or []])

    @extend_schema(request=serializers.Submission, responses={201: serializers.WorkloadOut(many=True)})
    def post(self, request: Request) -> Response:
        """Submit; the same idempotency_key again gives the same workloads again."""
        said = self.read(serializers.Submission(data=request.data))
        cluster = next((each for each in clusters() if each.name == said["cluster"]), None)
        leaf = BudgetNode.objects.filter(code=said["leaf"]).first()
        if cluster is None or leaf is None:
            field = "cluster" if cluster is None else "leaf"
            raise ValidationError(
                {field: [gettext("There is no {field} {said!r}.").format(field=field, said=said[field])]}
            )
        made = workloads.submit_array(**{**said, "cluster": cluster, "leaf": leaf, "owner": self.person()})
        body = [serializers.workload(each, self.person()) for each in made]
        return Response(body, status=201, headers={"Location": reverse("api-workload", args=[made[0].code])})


class WorkloadDetail(Api):
    """One workload: what all may see, and for those inside also what it runs and whose it is."""

    @extend_schema(responses=serializers.WorkloadOut)
    def get(self, request: Request, code: str) -> Response:
        """As it is now."""
        return Response(serializers.workload(workload_named(code), self.person()))


class Cancel(Api):
    """Cancelling a workload."""

    scopes = {"POST": "submit"}

    @extend_schema(request=serializers.CancelIn, responses=serializers.WorkloadOut)
    def post(self, request: Request, code: str) -> Response:
        """At once if it waits; by a stop signal and its grace if it runs. Again changes nothing."""
        workload = workload_named(code)
        if not may(self.person(), "workload.cancel", workload):
            raise Http404(gettext("There is no workload {code!r} that is yours to cancel.").format(code=code))
        said = self.read(serializers.CancelIn(data=request.data))
        workloads.cancel(workload=workload, by=self.person(), reason=said["reason"])
        return Response(serializers.workload(workload_named(code), self.person()))


class Queue(Api):
    """The queue of a cluster in its order."""

    known = frozenset({"page", "find", "project", "class"})

    @extend_schema(
        responses=serializers.QueueOut,
        parameters=[
            OpenApiParameter("page", int),
            *(OpenApiParameter(name, str) for name in ("find", "project", "class")),
        ],
    )
    def get(self, request: Request, cluster: str) -> Response:
        """50 rows a page, with the numbers of each level."""
        where = cluster_named(cluster, clusters())
        codes = {row.node.code for row in tree_on(where, today())}
        page = queue.page(where, whole_number(request, "page", 1), filters_of(request, codes))
        return Response(serializers.queue_page(page))


class Usage(Api):
    """The books of a budget node on a cluster, over the last days."""

    known = frozenset({"cluster", "days", "step"})

    @extend_schema(
        responses=serializers.UsageOut,
        parameters=[OpenApiParameter("cluster", str), OpenApiParameter("days", int), OpenApiParameter("step", str)],
    )
    def get(self, request: Request, code: str) -> Response:
        """By hour or day; whole hours, up to the last one that is over."""
        node, where = node_named(code), cluster_named(request.query_params.get("cluster"), clusters())
        days = whole_number(request, "days", 7, at_most=MAX_DAYS)
        step = choice(request, "step", {each.value: each for each in usage.Step}, "hour")
        end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        series = usage.series(node, where, end - timedelta(days=days), end, step)
        return Response(serializers.usage_series(node, where, series))
