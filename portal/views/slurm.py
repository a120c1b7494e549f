"""A cluster's Slurm: its mode, how it is reached, what is planned and differs there; writing shares again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from budgets.authority import may
from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster, Person
from portal.forms.strict import StrictForm
from portal.pages import Once, cluster_named, clusters, new_action, render_page, whole_number
from scheduler.models import SlurmJob, SlurmLink, SlurmOrder
from scheduler.services.slurm import links, shares

PER_PAGE = 50
ORDERS_SHOWN = 10
LATE_S = 30
"""Without a look for so long, whoever should look does not."""


class ResyncForm(StrictForm):
    """Which node's shares are to be written now; empty is all."""

    node = forms.CharField(
        max_length=16,
        required=False,
        label=gettext_lazy("Budget node"),
        help_text=gettext_lazy("Its code; with all that is below it. Empty: all."),
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """How a cluster's Slurm is, as the page says it."""

    cluster: Cluster
    link: SlurmLink | None
    is_late: bool

    @property
    def is_full(self) -> bool:
        """Whether decisions are made here."""
        return self.cluster.executor == Cluster.Executor.SLURM

    @property
    def trouble(self) -> str:
        """Why nothing new is known of it; empty where all is well."""
        if self.link is None:
            return gettext("How its Slurm is reached has not been said yet.")
        if self.link.is_failing:
            return self.link.error
        if self.link.contact_at is None:
            return gettext("Nobody has looked at it yet: slurm_sync does not run.")
        return gettext("Nobody has looked at it lately: slurm_sync does not run.") if self.is_late else ""


def standing(cluster: Cluster, now: datetime | None = None) -> Standing | None:
    """How a cluster's Slurm is; None where it has none. One query, or none."""
    if cluster.executor not in links.KINDS:
        return None
    link = SlurmLink.objects.filter(cluster=cluster).first()
    last = None if link is None else link.tried_at
    is_late = last is not None and ((now or datetime.now(UTC)) - last).total_seconds() > LATE_S
    return Standing(cluster, link, is_late)


def cluster_with_slurm(name: str) -> tuple[Cluster, Standing]:
    """The cluster of that name, which has a Slurm.

    Raises:
        Http404: there is none, or it has none.
    """
    cluster = cluster_named(name, clusters())
    found = standing(cluster)
    if found is None:
        raise Http404(gettext("{cluster} has no Slurm.").format(cluster=cluster.name))
    return cluster, found


def written_again(person: Person, cluster: Cluster, code: str) -> SlurmOrder:
    """Ask for the shares of a node and what is below it to be written now; of all without a code.

    Raises:
        InputError: there is no such node. NotAllowed: not an operator.
    """
    node = None
    if code:
        node = BudgetNode.objects.filter(code=code, closed_at=None).first()
        if node is None:
            raise InputError("node", gettext("There is no budget node {code!r}.").format(code=code))
    return shares.ask(cluster=cluster, node=node, by=person)


class SlurmPage(Once):
    """The page of one cluster's Slurm."""

    def get(self, request: HttpRequest, cluster: str) -> HttpResponse:
        """The whole page, or its live part."""
        self.allow("cluster.see")
        where, found = cluster_with_slurm(cluster)
        return self.show(request, where, found, ResyncForm(initial={"action": new_action()}), 200)

    def post(self, request: HttpRequest, cluster: str) -> HttpResponse:
        """Have shares written."""
        self.allow("cluster.see")
        where, found = cluster_with_slurm(cluster)
        if not may(request.user, "node.operate", where):
            raise PermissionDenied(gettext("Writing to Slurm is for operators."))
        form = ResyncForm(request.POST)
        answer, status = self.once(
            request,
            form,
            reverse("slurm", args=[where.name]),
            gettext("Asked for: slurm_sync writes them at its next look, and says below what it did."),
            lambda said: written_again(request.user, where, said["node"]),  # type: ignore[arg-type]
        )
        return answer or self.show(request, where, found, form, status)

    def show(
        self, request: HttpRequest, cluster: Cluster, found: Standing, form: ResyncForm, status: int
    ) -> HttpResponse:
        """The page."""
        jobs = SlurmJob.objects.filter(cluster=cluster, gone_at=None).select_related("workload").order_by("job_id")
        paginator = Paginator(jobs, PER_PAGE)
        page = paginator.get_page(whole_number(request, "page", 1))
        orders = SlurmOrder.objects.filter(cluster=cluster).select_related("node", "asked_by")[:ORDERS_SHOWN]
        context: dict[str, Any] = {
            "here": "nodes",
            "cluster": cluster,
            "standing": found,
            "link": found.link,
            "drift": drift_of(found.link),
            "jobs": page.object_list,
            "number": page.number,
            "pages": paginator.num_pages,
            "count": paginator.count,
            "orders": orders,
            "may_operate": may(request.user, "node.operate", cluster),
            "form": form,
        }
        return render_page(request, "slurm", context, part="_live", status=status)


def drift_of(link: SlurmLink | None) -> Sequence[Mapping[str, Any]]:
    """What differs, first what can be put right."""
    return [] if link is None else sorted(link.drift, key=lambda each: not each["commands"])
