"""All workloads, filtered and paged: ids, projects, sizes and states are for everyone, names for those inside."""

from __future__ import annotations

from django.core.exceptions import BadRequest
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext

from budgets.models import Cluster
from portal.pages import Page, clusters, render_page, whole_number
from portal.views.queue import FIND_LENGTH, leaves_seen_inside
from scheduler.models import Workload

PER_PAGE = 50
COUNTED_MAX = 10_000
"""Rows beyond this are not counted: the count would cost more than it says."""


class Workloads(Page):
    """The latest first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page of them."""
        self.allow("cluster.see")
        among = clusters()
        rows = filtered(request, among).select_related("leaf", "cluster").order_by("-submitted_at", "-pk")
        count = rows[:COUNTED_MAX].count()
        pages = max(1, -(-count // PER_PAGE))
        number = min(whole_number(request, "page", 1), pages)
        shown = list(rows[(number - 1) * PER_PAGE : number * PER_PAGE])
        context = {
            "here": "workloads",
            "clusters": among,
            "states": Workload.State.choices,
            "rows": shown,
            "inside": leaves_seen_inside(request.user, [row.leaf_id for row in shown]),  # type: ignore[arg-type]
            "number": number,
            "pages": pages,
            "count": count,
            "is_filtered": any(request.GET.get(name) for name in ("find", "cluster", "state", "owner")),
        }
        return render_page(request, "workloads", context)


def filtered(request: HttpRequest, among: list[Cluster]) -> QuerySet[Workload]:
    """The rows that a URL asks for.

    Raises:
        BadRequest: a cluster, state or owner that is not there.
    """
    rows = Workload.objects.all()
    find, cluster = request.GET.get("find", "").strip(), request.GET.get("cluster", "")
    state, owner = request.GET.get("state", ""), request.GET.get("owner", "")
    if len(find) > FIND_LENGTH or "\0" in find:
        raise BadRequest(gettext("find: at most {find_length} plain characters").format(find_length=FIND_LENGTH))
    if cluster and cluster not in {each.name for each in among}:
        raise BadRequest(gettext("cluster: there is no cluster {cluster!r}").format(cluster=cluster))
    if state and state not in Workload.State.values:
        raise BadRequest(
            gettext("state: {state!r} is none of {choices}").format(
                state=state, choices=", ".join(Workload.State.values)
            )
        )
    if owner not in ("", "me"):
        raise BadRequest(gettext("owner: only your own can be asked for, as owner=me"))
    if find:
        rows = rows.filter(code__istartswith=find)
    if cluster:
        rows = rows.filter(cluster__name=cluster)
    if state:
        rows = rows.filter(state=state)
    if owner:
        rows = rows.filter(owner=request.user.pk)
    return rows
