"""Changing the shares of a node's children: a simple form for the node's manager."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.forms import BoundField
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from budgets.authority import may
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import BudgetNode, Cluster, Person
from budgets.queries import TreeRow, today, tree_on
from budgets.services.shares import set_shares
from portal import formats
from portal.clusters import sizes_milli
from portal.forms.shares import SharesForm, cell
from portal.pages import Page, cluster_named, clusters, new_action, render_page, spend, spent_on
from portal.views.node import node_named


@dataclass(frozen=True, slots=True)
class Line:
    """A child's row: what it has now, and its cell."""

    row: TreeRow
    field: BoundField
    units: Fraction


class Shares(Page):
    """Everyone may see shares; only the node's managers change them."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """The form with the shares of now."""
        node, cluster, rows = self.place(request, code)
        return self.show(request, node, cluster, rows, self.form(node, rows), 200)

    def post(self, request: HttpRequest, code: str) -> HttpResponse:
        """Set them once, or show what can't be done, beside its field."""
        node, cluster, rows = self.place(request, code)
        led_to = f"{reverse('node', args=[node.code])}?cluster={cluster.name}"
        before = spent_on(request, request.POST.get("action", ""))
        if before is not None:
            messages.info(request, "These shares had been set already; nothing was changed again.")
            return HttpResponseRedirect(before)
        form = self.form(node, rows, request)
        status = 400
        if form.is_valid():
            said = form.cleaned_data
            try:
                set_shares(
                    parent=node,
                    cluster=cluster,
                    shares=form.shares(),
                    valid_from=said["valid_from"],
                    by=request.user,  # type: ignore[arg-type]
                    reason=said["reason"],
                    version=said["version"],
                )
            except InputError as error:
                form.take(error)
                status = 409 if isinstance(error, ConflictError) else 403 if isinstance(error, NotAllowed) else 400
            else:
                spend(request, said["action"], led_to)
                messages.info(
                    request,
                    f"The shares of {node.code} on {cluster.name} are set from {formats.day(said['valid_from'])}.",
                )
                return HttpResponseRedirect(led_to)
        return self.show(request, node, cluster, rows, form, status)

    def place(self, request: HttpRequest, code: str) -> tuple[BudgetNode, Cluster, list[TreeRow]]:
        """The node, the cluster, and the rows of its open children, if the person may change them."""
        node = node_named(code)
        person: Person = request.user  # type: ignore[assignment]
        if not may(person, "share.change", node):
            raise PermissionDenied(f"The shares of {code} are for its managers to change.")
        cluster = cluster_named(request.GET.get("cluster"), clusters())
        rows = [row for row in tree_on(cluster, today()) if row.parent_id == node.pk and not row.is_closed]
        if not rows:
            raise Http404(f"{code} has no children to share between.")
        return node, cluster, rows

    def form(self, node: BudgetNode, rows: list[TreeRow], request: HttpRequest | None = None) -> SharesForm:
        """The form, bound where something was sent."""
        children = [(row.node, row.basis_points) for row in rows]
        initial = {"action": new_action(), "version": node.version}
        data = request.POST if request is not None else None
        return SharesForm(data, children=children, first_day=today(), initial=initial)

    def show(
        self,
        request: HttpRequest,
        node: BudgetNode,
        cluster: Cluster,
        rows: list[TreeRow],
        form: SharesForm,
        status: int,
    ) -> HttpResponse:
        """The page with the form."""
        units = Fraction(sizes_milli().get(cluster.pk, 0), formats.MILLI)
        context = {
            "here": "tree",
            "node": node,
            "cluster": cluster,
            "form": form,
            "lines": [Line(row, form[cell(row.node)], row.entitlement * units) for row in rows],
            "now_sum": sum(row.basis_points for row in rows),
            "now_unassigned": 10_000 - sum(row.basis_points for row in rows),
        }
        return render_page(request, "shares", context, status=status)
