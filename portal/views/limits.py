"""What a node's children should, and may, hold at once: minima, maxima, weights, and the fair shares that follow."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext

from budgets.authority import may
from budgets.models import BudgetNode, Cluster, Person
from portal.forms.limits import MILLI, LimitsForm
from portal.pages import Once, cluster_named, clusters, render_page
from portal.views.node import node_named
from scheduler.services import limits, policies


class LimitsPage(Once):
    """`?cluster=` chooses. Everybody who is signed in sees them; who divides the node sets them."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """What is in force, and the form of another."""
        node, cluster = self.place(request, code)
        return self.show(request, node, cluster, self.form(node, cluster))

    def post(self, request: HttpRequest, code: str) -> HttpResponse:
        """Set them, all at once."""
        node, cluster = self.place(request, code)
        self.allow("share.change", node)
        form = self.form(node, cluster, request.POST)
        person: Person = request.user  # type: ignore[assignment]
        found, status = self.once(
            request,
            form,
            f"{reverse('limits', args=[node.code])}?cluster={cluster.name}",
            gettext("The next pass on {cluster} goes by them.").format(cluster=cluster.name),
            lambda said: limits.set_limits(
                parent=node,
                cluster=cluster,
                limits=form.limits(),
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

    def form(self, node: BudgetNode, cluster: Cluster, data: Any = None) -> LimitsForm:
        """For the children that are open."""
        children = list(node.children.filter(closed_at=None).order_by("code"))
        return LimitsForm(data, children=children, limits=limits.on(cluster), version=node.version)

    def show(
        self, request: HttpRequest, node: BudgetNode, cluster: Cluster, form: LimitsForm, status: int = 200
    ) -> HttpResponse:
        """The page."""
        shares, found = limits.fair_shares(cluster), limits.on(cluster)
        context = {
            "here": "tree",
            "node": node,
            "cluster": cluster,
            "clusters": clusters(),
            "form": form,
            "rows": [
                (child, fields, found.get(child.pk, limits.NO_LIMITS), Fraction(shares.get(child.code, 0), MILLI))
                for child, fields in form.rows
            ],
            "may_change": may(request.user, "share.change", node),
            "is_fair": policies.as_policy(policies.latest(cluster)).tree_order == "fair",
            "node_share": Fraction(shares.get(node.code, 0), MILLI),
        }
        return render_page(request, "limits", context, status=status)
