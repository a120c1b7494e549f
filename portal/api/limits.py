"""Minima, maxima and weights of a node's children over the API, with the fair shares that follow."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.authority import may
from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster
from portal.api.base import Api
from portal.api.given import Reasoned, versioned
from portal.api.problems import Strict
from portal.api.scopes import DECIDE
from portal.pages import cluster_named, clusters
from portal.views.node import node_named
from scheduler.services import limits
from scheduler.services.limits import FACTOR_MOST_MILLI, MOST_MILLI, NO_LIMITS, Limits


class LimitsIn(Strict):
    """What one child should, and may, hold at once, in thousandths of the cluster's unit; what is left out is none."""

    minimum_milli = serializers.IntegerField(min_value=0, max_value=MOST_MILLI, default=0)
    maximum_milli = serializers.IntegerField(min_value=0, max_value=MOST_MILLI, allow_null=True, default=None)
    factor_milli = serializers.IntegerField(
        min_value=1, max_value=FACTOR_MOST_MILLI, default=1_000, help_text="its weight: what its shares count times"
    )


class SetLimits(Reasoned):
    """Limits by child's code; other children keep theirs. The version is the parent's."""

    limits = serializers.DictField(child=LimitsIn(), allow_empty=False)


class LimitsOut(serializers.Serializer):
    """One child's limits, and what it would hold if all had work without end."""

    node = serializers.CharField()
    minimum_milli = serializers.IntegerField()
    maximum_milli = serializers.IntegerField(allow_null=True)
    factor_milli = serializers.IntegerField()
    fair_share_milli = serializers.IntegerField()


class LimitsOf(Api):
    """The limits of a node's children on a cluster; whoever may divide the node sets them."""

    scopes = {"POST": DECIDE}
    out = LimitsOut
    matches = ("POST",)

    @extend_schema(responses=LimitsOut(many=True))
    def get(self, request: Request, cluster: str, code: str) -> Response:
        """Of all children; not paged. The ETag is the version that a change is made from."""
        return self.shown(node_named(code), cluster_named(cluster, clusters()))

    @extend_schema(request=SetLimits, responses=LimitsOut(many=True))
    def post(self, request: Request, cluster: str, code: str) -> Response:
        """In force from the next pass on. Minima that cannot all be kept are refused, with the node at which."""
        node, where = node_named(code), cluster_named(cluster, clusters())
        if not may(self.person(), "share.change", node):
            raise PermissionDenied(
                gettext("The shares of {code} are for its managers to change.").format(code=node.code)
            )
        said = self.read(SetLimits(data=request.data))
        limits.set_limits(
            parent=node,
            cluster=where,
            limits=given(node, said["limits"]),
            by=self.person(),
            reason=said["reason"],
            version=self.version_said(said),
        )
        node.refresh_from_db()
        return self.shown(node, where)

    def shown(self, node: BudgetNode, cluster: Cluster) -> Response:
        """With the node's version."""
        found, shares = limits.on(cluster), limits.fair_shares(cluster)
        rows: list[dict[str, Any]] = []
        for child in node.children.order_by("code"):
            each = found.get(child.pk, NO_LIMITS)
            rows.append(
                {
                    "node": child.code,
                    "minimum_milli": each.minimum_milli,
                    "maximum_milli": each.maximum_milli,
                    "factor_milli": each.factor_milli,
                    "fair_share_milli": shares.get(child.code, 0),
                }
            )
        return versioned(rows, node.version)


def given(node: BudgetNode, said: dict[str, dict[str, Any]]) -> dict[BudgetNode, Limits]:
    """By child.

    Raises:
        InputError: names a code that is no child's.
    """
    children = {child.code: child for child in node.children.all()}
    for code in said:
        if code not in children:
            message = gettext("{child} is no child of {parent}").format(child=code[:40], parent=node.code)
            raise InputError(f"limits[{code[:40]}]", message)
    return {children[code]: Limits(**each) for code, each in said.items()}
