"""Private nodes of a budget node: whole nodes and racks that are its own, what of them is in use, what is left."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from budgets.authority import may
from budgets.models import BudgetNode, Cluster, Person
from portal.forms.cells import CellsForm
from portal.pages import clusters, render_page
from portal.private_nodes import own_of, refuse_others
from portal.views.in_force import InForce
from scheduler.services import cells


class CellsPage(InForce[CellsForm]):
    """Who decides the node's share sets them."""

    name = "cells"

    def post(self, request: HttpRequest, code: str) -> HttpResponse:
        """Set them."""
        node, cluster = self.place(request, code)
        person: Person = request.user  # type: ignore[assignment]
        refuse_others(person, node)
        return self.set(
            request,
            node,
            cluster,
            lambda form, said: cells.set_cells(
                node=node,
                cluster=cluster,
                cells=form.cells(),
                by=person,
                reason=said["reason"],
                version=said["version"],
            ),
        )

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
