"""Marks on a node's budget: its managers are told when use passes one."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from budgets.authority import may
from budgets.errors import InputError, NotAllowed
from budgets.models import BudgetNode, Cluster, Threshold
from portal.forms.strict import StrictForm
from portal.pages import Page, cluster_named, clusters, render_page
from portal.views.node import node_named
from scheduler.services import thresholds


class MarkForm(StrictForm):
    """How many per cent of the quarter."""

    percent = forms.IntegerField(
        min_value=1,
        max_value=thresholds.PERCENT_MAX,
        initial=80,
        label=gettext_lazy("Mark, % of the quarter"),
        widget=forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"}),
    )


class Marks(Page):
    """`?cluster=` chooses. The node's people see its marks, its managers set and remove them."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """The marks, and the form of another one."""
        return self.show(request, *self.place(request, code), MarkForm())

    def post(self, request: HttpRequest, code: str) -> HttpResponse:
        """Set one."""
        node, cluster = self.place(request, code)
        form, status = MarkForm(request.POST), 400
        if form.is_valid():
            try:
                percent = form.cleaned_data["percent"]
                thresholds.put(node=node, cluster=cluster, percent=percent, by=request.user)  # type: ignore[arg-type]
            except InputError as error:
                form.take(error)
                status = 403 if isinstance(error, NotAllowed) else 400
            else:
                messages.info(
                    request,
                    gettext("The managers of {node} are told when {percent} % of a quarter are used.").format(
                        node=node.code, percent=percent
                    ),
                )
                return HttpResponseRedirect(f"{reverse('marks', args=[node.code])}?cluster={cluster.name}")
        return self.show(request, node, cluster, form, status)

    def place(self, request: HttpRequest, code: str) -> tuple[BudgetNode, Cluster]:
        """The node and the cluster, if the person sees inside the node."""
        node = node_named(code)
        self.allow("node.see_inside", node)
        return node, cluster_named(request.GET.get("cluster"), clusters())

    def show(
        self, request: HttpRequest, node: BudgetNode, cluster: Cluster, form: MarkForm, status: int = 200
    ) -> HttpResponse:
        """The page."""
        context = {
            "here": "tree",
            "node": node,
            "cluster": cluster,
            "clusters": clusters(),
            "marks": Threshold.objects.filter(node=node, cluster=cluster).order_by("percent"),
            "may_change": may(request.user, "share.change", node),
            "managers": thresholds.managers_at(node),
            "form": form,
        }
        return render_page(request, "marks", context, status=status)


class RemoveMark(Page):
    """Taking a mark away."""

    def post(self, request: HttpRequest, code: str, number: int) -> HttpResponse:
        """Remove it; a second time changes nothing."""
        node = node_named(code)
        self.allow("share.change", node)
        mark = Threshold.objects.filter(pk=number, node=node).select_related("cluster").first()
        if mark is None:
            raise Http404(gettext("There is no such mark on the budget of {code}.").format(code=code))
        thresholds.remove(threshold=mark, by=request.user)  # type: ignore[arg-type]
        messages.info(request, gettext("The mark at {percent} % is gone.").format(percent=mark.percent))
        return HttpResponseRedirect(f"{reverse('marks', args=[node.code])}?cluster={mark.cluster.name}")
