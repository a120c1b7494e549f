"""Pages of what is in force for a budget node on a cluster: what it is, and the form of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext

from budgets.models import BudgetNode, Cluster
from portal.pages import Once, OnceForm, cluster_named, clusters
from portal.views.node import node_named

Form = TypeVar("Form", bound=OnceForm)


class InForce(Once, Generic[Form]):
    """`?cluster=` chooses. Everybody who is signed in sees it; `name` is that of the page's address."""

    name: str

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """What is in force, and the form of another."""
        node, cluster = self.place(request, code)
        return self.show(request, node, cluster, self.form(node, cluster))

    def set(
        self, request: HttpRequest, node: BudgetNode, cluster: Cluster, service: Callable[[Form, dict[str, Any]], Any]
    ) -> HttpResponse:
        """Have a service set what a form says, once; then back to the page."""
        form = self.form(node, cluster, request.POST)
        found, status = self.once(
            request,
            form,
            f"{reverse(self.name, args=[node.code])}?cluster={cluster.name}",
            gettext("The next pass on {cluster} goes by them.").format(cluster=cluster.name),
            lambda said: service(form, said),
        )
        return found or self.show(request, node, cluster, form, status)

    def place(self, request: HttpRequest, code: str) -> tuple[BudgetNode, Cluster]:
        """The node and the cluster."""
        self.allow("cluster.see")
        return node_named(code), cluster_named(request.GET.get("cluster"), clusters())

    def form(self, node: BudgetNode, cluster: Cluster, data: Any = None) -> Form:
        """The form, of what is in force or of what was sent."""
        raise NotImplementedError

    def show(
        self, request: HttpRequest, node: BudgetNode, cluster: Cluster, form: Form, status: int = 200
    ) -> HttpResponse:
        """The page."""
        raise NotImplementedError
