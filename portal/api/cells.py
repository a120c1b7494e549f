"""Cells over the API: whole nodes and racks that budget nodes have of a cluster, beside their shares."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.models import BudgetNode, Cluster, LedgerEntry, Person
from portal.api import filters
from portal.api.base import Api
from portal.api.given import Reasoned, name_of, versioned
from portal.api.nodes import OfCluster
from portal.api.problems import Strict
from portal.api.scopes import DECIDE
from portal.api.serializers import moment
from portal.pages import cluster_named, clusters
from portal.private_nodes import refuse_others
from portal.views.node import node_named
from scheduler.engine import NO_CELLS, CellCounts
from scheduler.queries.cells import Told, last_entry, told_of
from scheduler.services import cells
from scheduler.services.cells import MOST


class CellCountsIn(Strict):
    """How many cells of each level; a level that is left out has none."""

    node = serializers.IntegerField(min_value=0, max_value=MOST, default=0, help_text="whole nodes")
    rack = serializers.IntegerField(min_value=0, max_value=MOST, default=0, help_text="whole racks")


class SetCells(Reasoned):
    """A node's cells, in place of those that it has. The version is the parent's."""

    cells = CellCountsIn()


class CellCountsOut(serializers.Serializer):
    """How many cells of each level."""

    node = serializers.IntegerField()
    rack = serializers.IntegerField()


class HeldOut(serializers.Serializer):
    """A node that has cells."""

    node = serializers.CharField()
    cells = CellCountsOut()


class CellsOut(HeldOut):
    """A node's cells on a cluster, what of them is in use, and what could come to it beside them."""

    nodes = serializers.IntegerField(help_text="how many nodes the cells come to")
    devices_milli = serializers.IntegerField(help_text="what these have, in thousandths of the cluster's unit")
    in_use = serializers.ListField(child=serializers.CharField(), help_text="nodes that they are now, by name")
    grantable = CellCountsOut(help_text="if all that is left went to one level")
    short = CellCountsOut(
        help_text="what is granted on the cluster, to this node among others, and more than it has nodes for"
    )
    unfit = CellCountsOut(help_text="what more of it can't be had today, as nodes are unfit or to be emptied")
    is_over_entitlement = serializers.BooleanField(help_text="whether the cells come to more than its share does")
    decided_at = serializers.DateTimeField(allow_null=True)
    decided_by = serializers.CharField(allow_null=True)


class CellsOfCluster(OfCluster):
    """Who has cells of a cluster."""

    out = HeldOut

    @extend_schema(operation_id="cells_list", responses=HeldOut(many=True))
    def get(self, request: Request, cluster: str) -> Response:
        """By code; a short list, not paged."""
        held = sorted(cells.holders_on(self.cluster()).values(), key=lambda each: each.code)
        return Response([{"node": each.code, "cells": each.cells._asdict()} for each in held])


class CellsOf(Api):
    """The cells of one node on a cluster; whoever may set its share sets them."""

    known = frozenset({"reason"})
    scopes = {"PUT": DECIDE, "DELETE": DECIDE}
    out = CellsOut
    matches = ("PUT", "DELETE")

    @extend_schema(operation_id="cells", responses=CellsOut)
    def get(self, request: Request, cluster: str, code: str) -> Response:
        """As things stand. The ETag is the parent's version, that a change is made from."""
        return self.shown(node_named(code), cluster_named(cluster, clusters()))

    @extend_schema(operation_id="cells_set", request=SetCells, responses=CellsOut)
    def put(self, request: Request, cluster: str, code: str) -> Response:
        """In force from the next pass on. What does not fit is refused: by level, with how many are short."""
        node, where = self.decided(code), cluster_named(cluster, clusters())
        said = self.read(SetCells(data=request.data))
        wanted = CellCounts(**said["cells"])
        cells.set_cells(
            node=node,
            cluster=where,
            cells=wanted,
            by=self.person(),
            reason=said["reason"],
            version=self.version_said(said),
        )
        return self.shown(node, where)

    @extend_schema(
        operation_id="cells_withdraw",
        parameters=[filters.text("reason", "why, in a sentence", at_most=2_000).parameter],
        responses={204: None},
    )
    def delete(self, request: Request, cluster: str, code: str) -> Response:
        """Withdraw them all, with `?reason=`. Again changes nothing."""
        node, where = self.decided(code), cluster_named(cluster, clusters())
        reason, version = request.query_params.get("reason", ""), self.version_said({})
        cells.set_cells(node=node, cluster=where, cells=NO_CELLS, by=self.person(), reason=reason, version=version)
        return Response(status=204)

    def decided(self, code: str) -> BudgetNode:
        """The node, if the person may set its share.

        Raises:
            PermissionDenied: they may not.
        """
        node = node_named(code)
        refuse_others(self.person(), node)
        return node

    def shown(self, node: BudgetNode, cluster: Cluster) -> Response:
        """With the version of who decides it."""
        above = node if node.parent_id is None else BudgetNode.objects.get(pk=node.parent_id)
        return versioned(plain(node, told_of(node, cluster), last_entry(node, cluster)), above.version)


def plain(node: BudgetNode, told: Told, entry: LedgerEntry | None) -> dict[str, Any]:
    """CellsOut; `entry` is the ledger's last of the node's cells."""
    faults = {each.level: each for each in told.faults}
    by = Person.objects.filter(pk=entry.person_id).first() if entry and entry.person_id else None
    return {
        "node": node.code,
        "cells": told.cells._asdict(),
        "nodes": told.nodes,
        "devices_milli": told.devices_milli,
        "in_use": list(told.used),
        "grantable": told.grantable._asdict(),
        "short": {level: faults[level].short if level in faults else 0 for level in CellCounts._fields},
        "unfit": {level: faults[level].unfit if level in faults else 0 for level in CellCounts._fields},
        "is_over_entitlement": told.is_over_entitlement,
        "decided_at": moment(entry.at) if entry else None,
        "decided_by": name_of(by),
    }
