"""Private nodes of a budget node: whole nodes and racks that are its own, what of them is in use, what is left."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext

from budgets.authority import may
from budgets.models import BudgetNode, Cluster, Person
from portal.forms.cells import CellsForm
from portal.pages import Once, cluster_named, clusters, render_page
from portal.private_nodes import own_of
from portal.views.node import node_named
from scheduler.services import cells


class CellsPage(Once):
    """`?cluster=` chooses. Everybody who is signed in sees them; who decides the node's share sets them."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """What is in force, and the form of another."""
        node, cluster = self.place(request, code)
        return self.show(request, node, cluster, self.form(node, cluster))

    def post(self, request: HttpRequest, code: str) -> HttpResponse:
        """Set them."""
        node, cluster = self.place(request, code)
        if not may(request.user, "share.change", node.parent):
            raise PermissionDenied(gettext("The cells of {code} are for the managers above it.").format(code=node.code))
        form = self.form(node, cluster, request.POST)
        person: Person = request.user  # type: ignore[assignment]
        found, status = self.once(
            request,
            form,
            f"{reverse('cells', args=[node.code])}?cluster={cluster.name}",
            gettext("The next pass on {cluster} goes by them.").format(cluster=cluster.name),
            lambda said: cells.set_cells(
                node=node,
                cluster=cluster,
                cells=form.cells(),
                by=person,
                reason=said["reason"],
                version=said["version"],
            ),
        )
        return found or self.show(request, node, cluster, form, status)

    def place(self, request: HttpRequest, code: str) -> tuple[BudgetNode, Cluster]:
        """The node and the cluster."""
        self.allow("cluster.see")
        return node_named(code), cluster_named(request.GET.get("cluster"), clusters())

    def form(self, node: BudgetNode, cluster: Cluster, data: Any = None) -> CellsForm:
        """From the parent's version: who decides its shares decides this."""
        version = node.parent.version if node.parent else node.version
        return CellsForm(data, cells=cells.of_node(node, cluster), version=version)

    def show(
        self, request: HttpRequest, node: BudgetNode, cluster: Cluster, form: CellsForm, status: int = 200
    ) -> HttpResponse:
        """The page."""
        context = {
            "here": "tree",
            "node": node,
            "cluster": cluster,
            "clusters": clusters(),
            "form": form,
            "own": own_of(node, cluster),
            "may_change": node.parent is not None and may(request.user, "share.change", node.parent),
        }
        return render_page(request, "cells", context, status=status)
