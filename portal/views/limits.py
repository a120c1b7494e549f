"""What a node's children should, and may, hold at once: minima, maxima, weights, and the fair shares that follow."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from django.http import HttpRequest, HttpResponse

from budgets.authority import may
from budgets.models import BudgetNode, Cluster, Person
from portal.forms.limits import MILLI, LimitsForm
from portal.pages import clusters, render_page
from portal.views.in_force import InForce
from scheduler.services import limits, policies


class LimitsPage(InForce[LimitsForm]):
    """Who divides the node sets them."""

    name = "limits"

    def post(self, request: HttpRequest, code: str) -> HttpResponse:
        """Set them, all at once."""
        node, cluster = self.place(request, code)
        self.allow("share.change", node)
        person: Person = request.user  # type: ignore[assignment]
        return self.set(
            request,
            node,
            cluster,
            lambda form, said: limits.set_limits(
                parent=node,
                cluster=cluster,
                limits=form.limits(),
                by=person,
                reason=said["reason"],
                version=said["version"],
            ),
        )

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
