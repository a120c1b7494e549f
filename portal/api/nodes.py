"""The API of nodes: what there is, joining, and what operators ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet, Sum
from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.authority import may
from budgets.errors import InputError
from budgets.models import Cluster
from portal.api import filters, nodes_out
from portal.api.base import Api, Pages, tag_of
from portal.api.scopes import OPERATE
from portal.pages import cluster_named, clusters
from portal.views.nodes import host_named, lines
from scheduler.models import JoinToken, MaintenanceWindow, Node, Rack
from scheduler.queries import repairs
from scheduler.queries.cells import whose_now
from scheduler.services import emergency, join_tokens, nodes


class ByName(Pages):
    """Pages of nodes."""

    ordering = ("name",)


class ByStart(Pages):
    """Pages of maintenance windows, the latest first."""

    ordering = ("-starts_at",)


class LatestFirst(Pages):
    """Pages of join tokens."""

    ordering = ("-pk",)


class OfCluster(Api):
    """What is about one cluster."""

    def cluster(self) -> Cluster:
        """The one that the address names.

        Raises:
            Http404: there is none.
        """
        return cluster_named(self.kwargs["cluster"], clusters())

    def operated(self) -> Cluster:
        """The same, if the person operates it.

        Raises:
            Http404: there is none. PermissionDenied: they are no operator.
        """
        where = self.cluster()
        if not may(self.person(), "node.operate", where):
            raise PermissionDenied(gettext("That is for operators."))
        return where


class OfNode(OfCluster):
    """What is about one node."""

    def node(self) -> Node:
        """The one that the address names.

        Raises:
            Http404: there is none.
        """
        return host_named(self.cluster(), self.kwargs["name"])

    def operated_node(self) -> Node:
        """The same, if the person operates it.

        Raises:
            Http404: there is none. PermissionDenied: they are no operator.
        """
        return host_named(self.operated(), self.kwargs["name"])

    def answer(self, node: Node, changed: bool, **more: Any) -> Response:
        """The node after something was asked of it."""
        body = shown(node)
        return Response({"changed": changed, **more, "node": body}, headers={"ETag": weak_tag(body["version"])})


def weak_tag(version: int) -> str:
    """The ETag of a node: what holds it changes without another version, so it is a weak one."""
    return f"W/{tag_of(version)}"


def rows_of(cluster: Cluster) -> QuerySet[Node]:
    """The nodes of a cluster as `portal.views.nodes.lines` takes them."""
    rows = Node.objects.filter(cluster=cluster, retired_at=None).select_related("rack", "cluster")
    return rows.annotate(devices_count=Count("devices"), held=Sum("devices__held_milli"))


def shown(node: Node) -> dict[str, Any]:
    """NodeOut of a node as it is now."""
    return nodes_out.nodes(lines(list(rows_of(node.cluster).filter(pk=node.pk)), whose_now(node.cluster)))[0]


class Nodes(OfCluster):
    """The nodes of a cluster."""

    pagination_class = ByName
    out = nodes_out.NodeOut
    scopes = {"POST": OPERATE}
    filters = (
        filters.text("find", "how the name begins"),
        filters.one_of("health", "only those", Node.Health.values),
        filters.text("rack", "only those of a rack"),
        filters.flag("draining", "whether a drain was asked for"),
    )

    @extend_schema(operation_id="nodes_list", responses=nodes_out.NodeOut(many=True))
    def get(self, request: Request, cluster: str) -> Response:
        """By name, with what runs on them and planned maintenance."""
        where, said = self.cluster(), self.asked()
        rows = rows_of(where)
        if said["rack"] is not None and not Rack.objects.filter(cluster=where, name=said["rack"]).exists():
            raise ValidationError({"rack": [gettext("There is no rack {name!r}.").format(name=said["rack"])]})
        columns = {"find": "name__startswith", "health": "health", "rack": "rack__name"}
        rows = rows.filter(**{columns[name]: said[name] for name in columns if said[name] is not None})
        if said["draining"] is not None:
            rows = rows.filter(drain_asked_at__isnull=not said["draining"])
        return self.page(rows, lambda page: nodes_out.nodes(lines(page, whose_now(where))))

    @extend_schema(operation_id="nodes_register", request=nodes_out.RegisterIn, responses={201: nodes_out.NodeOut})
    def post(self, request: Request, cluster: str) -> Response:
        """Add a node by hand, or more devices to one; the same again changes nothing. Its agent joins by a token."""
        where = self.operated()
        said = self.read(nodes_out.RegisterIn(data=request.data))
        row = nodes.register(cluster=where, by=self.person(), **said)
        address = reverse("api-node", args=[where.name, row.name])
        body = shown(row)
        return Response(body, status=201, headers={"Location": address, "ETag": weak_tag(body["version"])})


class NodeDetail(OfNode):
    """One node."""

    out = nodes_out.NodeOut

    @extend_schema(operation_id="node", responses=nodes_out.NodeOut)
    def get(self, request: Request, cluster: str, name: str) -> Response:
        """As it is now; its ETag is its version."""
        body = shown(self.node())
        return Response(body, headers={"ETag": weak_tag(body["version"])})


class Drain(OfNode):
    """Draining a node."""

    scopes = {"POST": OPERATE}
    matches = ("POST",)

    @extend_schema(operation_id="node_drain", request=nodes_out.OperateIn, responses=nodes_out.OperatedOut)
    def post(self, request: Request, cluster: str, name: str) -> Response:
        """Start nothing more there; what runs leaves by contract. Again changes nothing."""
        node = self.operated_node()
        said = self.read(nodes_out.OperateIn(data=request.data))
        version = self.version_said(said, needed=False)
        return self.answer(node, nodes.ask_drain(node=node, by=self.person(), reason=said["reason"], version=version))


class Resume(OfNode):
    """The end of a drain."""

    scopes = {"POST": OPERATE}
    matches = ("POST",)

    @extend_schema(operation_id="node_resume", request=nodes_out.OperateIn, responses=nodes_out.OperatedOut)
    def post(self, request: Request, cluster: str, name: str) -> Response:
        """It takes work again as soon as it is healthy. Again changes nothing."""
        node = self.operated_node()
        said = self.read(nodes_out.OperateIn(data=request.data))
        version = self.version_said(said, needed=False)
        return self.answer(node, nodes.resume(node=node, by=self.person(), reason=said["reason"], version=version))


class Health(OfNode):
    """What a node is fit for."""

    scopes = {"POST": OPERATE}
    matches = ("POST",)

    @extend_schema(operation_id="node_health", request=nodes_out.HealthIn, responses=nodes_out.OperatedOut)
    def post(self, request: Request, cluster: str, name: str) -> Response:
        """Say it: healthy (after its dwell), unhealthy (it drains) or down (its runs are lost)."""
        node = self.operated_node()
        said = self.read(nodes_out.HealthIn(data=request.data))
        did = nodes.set_health(
            node=node,
            health=said["health"],
            by=self.person(),
            reason=said["reason"],
            version=self.version_said(said, needed=False),
        )
        return self.answer(node, did)


class StopNode(OfNode):
    """An operator's emergency stop of a node."""

    scopes = {"POST": OPERATE}

    @extend_schema(operation_id="node_stop", request=nodes_out.ReasonIn, responses=nodes_out.NodeStoppedOut)
    def post(self, request: Request, cluster: str, name: str) -> Response:
        """Drain it, and stop every run on it now, also inside contracts; charges are given back, owners are told."""
        node = self.operated_node()
        said = self.read(nodes_out.ReasonIn(data=request.data))
        done = emergency.stop_node(node=node, by=self.person(), reason=said["reason"])
        return self.answer(node, done.is_news or done.runs > 0, stopped_runs=done.runs)


class Windows(OfNode):
    """Planned maintenance of a node."""

    pagination_class = ByStart
    out = nodes_out.WindowOut
    scopes = {"POST": OPERATE}
    filters = (filters.flag("all", "true: also what is over or was called off"),)

    @extend_schema(operation_id="windows_list", responses=nodes_out.WindowOut(many=True))
    def get(self, request: Request, cluster: str, name: str) -> Response:
        """What is planned and goes on, the latest first."""
        rows = MaintenanceWindow.objects.filter(node=self.node()).select_related("node", "made_by")
        if not self.asked()["all"]:
            rows = rows.filter(cancelled_at=None, ends_at__gt=datetime.now(UTC))
        return self.page(rows, _windows)

    @extend_schema(operation_id="windows_add", request=nodes_out.WindowIn, responses={201: nodes_out.WindowOut})
    def post(self, request: Request, cluster: str, name: str) -> Response:
        """Plan maintenance: nothing starts whose contract would reach into it; at its start the node drains."""
        node = self.operated_node()
        said = self.read(nodes_out.WindowIn(data=request.data))
        row = nodes.add_window(node=node, by=self.person(), **said)
        return Response(nodes_out.window(row), status=201)


def _windows(page: Sequence[MaintenanceWindow]) -> list[dict[str, Any]]:
    return [nodes_out.window(each) for each in page]


class WindowDetail(OfNode):
    """One maintenance window."""

    scopes = {"DELETE": OPERATE}
    known = frozenset({"reason"})

    @extend_schema(
        operation_id="window_cancel",
        parameters=[filters.text("reason", "why, in a sentence", at_most=nodes_out.REASON_MAX_CHARS).parameter],
        responses={204: None},
    )
    def delete(self, request: Request, cluster: str, name: str, number: int) -> Response:
        """Call it off, with `?reason=`. Again changes nothing."""
        node = self.operated_node()
        row = MaintenanceWindow.objects.filter(node=node, pk=number).select_related("node__cluster").first()
        if row is None:
            raise Http404(gettext("{name} has no window {number}.").format(name=name, number=number))
        reason = request.query_params.get("reason", "")
        nodes.cancel_window(window=row, by=self.person(), reason=reason)
        return Response(status=204)


class JoinTokens(OfCluster):
    """Join tokens, by which agents of nodes join; for operators."""

    pagination_class = LatestFirst
    out = nodes_out.JoinTokenOut
    scopes = {"GET": OPERATE, "POST": OPERATE}
    secrets = ("token",)

    @extend_schema(operation_id="join_tokens_list", responses=nodes_out.JoinTokenOut(many=True))
    def get(self, request: Request, cluster: str) -> Response:
        """The latest first, without what they are."""
        rows = JoinToken.objects.filter(cluster=self.operated()).select_related("cluster", "used_by")
        return self.page(rows, lambda page: [nodes_out.join_token(each) for each in page])

    @extend_schema(
        operation_id="join_tokens_make", request=nodes_out.JoinTokenIn, responses={201: nodes_out.JoinTokenOut}
    )
    def post(self, request: Request, cluster: str) -> Response:
        """A new one, shown once: one node joins by it, once, until it expires."""
        where = self.operated()
        said = self.read(nodes_out.JoinTokenIn(data=request.data))
        row, token = join_tokens.issue(
            cluster=where, valid_for_s=said["valid_for_s"], node_name=said["node"], by=self.person()
        )
        return Response(nodes_out.join_token(row, token), status=201, headers={"Cache-Control": "no-store"})


class JoinTokenDetail(OfCluster):
    """One join token."""

    scopes = {"DELETE": OPERATE}

    @extend_schema(operation_id="join_token_revoke", responses={204: None})
    def delete(self, request: Request, cluster: str, number: int) -> Response:
        """Nobody joins by it any more; a node that has joined stays."""
        where = self.operated()
        row = JoinToken.objects.filter(cluster=where, pk=number).select_related("cluster").first()
        if row is None:
            raise Http404(gettext("There is no join token {number}.").format(number=number))
        if not join_tokens.revoke(row=row, by=self.person()):
            raise InputError("token", gettext("a node has joined by it"))
        return Response(status=204)


class Repairs(OfCluster):
    """How nodes of a cluster were repaired."""

    out = nodes_out.RepairsOut

    @extend_schema(operation_id="repairs", responses=nodes_out.RepairsOut)
    def get(self, request: Request, cluster: str) -> Response:
        """Over 30 days, and those that go on."""
        return Response(nodes_out.repairs(repairs.of_cluster(self.cluster(), datetime.now(UTC))))
