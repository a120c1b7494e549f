"""The budget tree over the API, as of a day."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.queries import today, tree_on
from portal.api import filters, serializers
from portal.api.nodes import OfCluster
from portal.pages import day_named


class Tree(OfCluster):
    """The budget tree of a cluster as of a day."""

    out = serializers.TreeOut
    filters = (filters.day("as_of", "as it was on that day, or will be; today unless said"),)

    @extend_schema(operation_id="tree", responses=serializers.TreeOut(many=True))
    def get(self, request: Request, cluster: str) -> Response:
        """Parents before their children; all of it, since a part of a tree is none."""
        return Response(serializers.tree(tree_on(self.cluster(), day_named(request, "as_of", today()))))
