"""The API of workloads: submitting, looking, cancelling, stopping, what they print; their runs; the queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Prefetch, QuerySet
from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.authority import may
from budgets.models import BudgetNode, Person
from budgets.queries import today, tree_on
from portal.api import filters
from portal.api import workloads_out as told
from portal.api.base import Api, Pages
from portal.api.clusters import between
from portal.api.given import cluster_given, node_given
from portal.api.nodes import OfCluster
from portal.api.scopes import OPERATE, SUBMIT
from portal.views.queue import FIND_LENGTH, filters_of
from portal.views.workload import workload_named
from scheduler.models import Node, Rank, Run, Workload
from scheduler.queries import queue
from scheduler.queries.held import held_by
from scheduler.queries.printed import printed
from scheduler.services import emergency, retries, workloads

OPEN, ENDED = "open", "ended"
ROWS_MAX = 200


class BySubmission(Pages):
    """Pages of workloads, the latest first."""

    ordering = ("-submitted_at", "-pk")


class LatestFirst(Pages):
    """Pages of runs."""

    ordering = ("-pk",)


class Workloads(Api):
    """All workloads; submitting one or an array."""

    pagination_class = BySubmission
    out = told.WorkloadOut
    scopes = {"POST": SUBMIT}
    filters = (
        filters.text("find", "how the code begins"),
        filters.text("cluster", "only those of a cluster", at_most=40),
        filters.text("leaf", "only those at or below a budget node, by its code", at_most=16),
        filters.one_of("state", "a state, or open or ended for all such", [*Workload.State.values, OPEN, ENDED]),
        filters.one_of("class", "only those", Workload.Class.values),
        filters.one_of("owner", "only one's own", ["me"]),
        filters.text("array", "only the tasks of an array", at_most=36),
        filters.instant("since", "submitted at or after it"),
        filters.instant("until", "submitted before it"),
    )

    @extend_schema(operation_id="workloads_list", responses=told.WorkloadOut(many=True))
    def get(self, request: Request) -> Response:
        """The latest first."""
        rows = chosen(self.asked(), self.person()).select_related("leaf", "cluster", "owner")
        return self.page(rows, lambda page: told.workloads(page, self.person()))

    @extend_schema(
        operation_id="workloads_submit", request=told.Submission, responses={201: told.WorkloadOut(many=True)}
    )
    def post(self, request: Request) -> Response:
        """Submit; the same idempotency_key again gives the same workloads again.

        What the rules of the door refuse is there all the same, in state refused, with its reason.
        """
        said = self.read(told.Submission(data=request.data))
        made = workloads.submit_array(**{**said, **named(said)}, owner=self.person())
        body = told.workloads(made, self.person())
        return Response(body, status=201, headers={"Location": reverse("api-workload", args=[made[0].code])})


def chosen(said: dict[str, Any], person: Person) -> QuerySet[Workload]:
    """The workloads that the filters choose.

    Raises:
        ValidationError: a cluster, node or array that is not there.
    """
    rows = between(Workload.objects.all(), "submitted_at", said)
    columns = {"find": "code__istartswith", "class": "workload_class"}
    rows = rows.filter(**{columns[name]: said[name] for name in columns if said[name] is not None})
    if said["cluster"] is not None:
        rows = rows.filter(cluster=cluster_given(said["cluster"]))
    if said["leaf"] is not None:
        below = BudgetNode.objects.filter(path__contains=[node_given(said["leaf"], "leaf").pk])
        rows = rows.filter(leaf__in=below.values("pk"))
    if said["state"] is not None:
        states = {OPEN: Workload.OPEN_STATES, ENDED: Workload.ENDED_STATES}
        rows = rows.filter(state__in=states.get(said["state"], (said["state"],)))
    if said["owner"] is not None:
        rows = rows.filter(owner=person)
    if said["array"] is not None:
        rows = rows.filter(array=_array(said["array"]))
    return rows


def named(said: dict[str, Any]) -> dict[str, Any]:
    """What a submission names: its cluster, its leaf, the node it is pinned to, what it comes after.

    Raises:
        ValidationError: names what is not there.
    """
    cluster, after = cluster_given(said["cluster"]), said["after"]
    pinned = None
    if said["node"] is not None:
        pinned = _host(Node.objects.filter(cluster=cluster, retired_at=None), said["node"])
    before = None if after is None else Workload.objects.filter(code=after).first()
    if after is not None and before is None:
        raise ValidationError({"after": [gettext("There is no workload {code!r}.").format(code=after)]})
    return {"cluster": cluster, "leaf": node_given(said["leaf"], "leaf"), "node": pinned, "after": before}


def _host(among: QuerySet[Node], name: str) -> Node:
    row = among.filter(name=name).first()
    if row is None:
        raise ValidationError({"node": [gettext("There is no node {name!r}.").format(name=name)]})
    return row


def _array(text: str) -> str:
    plain = text.replace("-", "").lower()
    if len(plain) != 32 or set(plain) - set("0123456789abcdef"):
        raise ValidationError({"array": [gettext("{text!r} is no array's id").format(text=text)]})
    return plain


class WorkloadDetail(Api):
    """One workload: what all may see, and for those inside also what it runs and whose it is."""

    out = told.WorkloadOut

    @extend_schema(operation_id="workload", responses=told.WorkloadOut)
    def get(self, request: Request, code: str) -> Response:
        """As it is now."""
        return Response(told.workload(workload_named(code), self.person()))


class Cancel(Api):
    """Cancelling a workload."""

    scopes = {"POST": SUBMIT}

    @extend_schema(operation_id="workload_cancel", request=told.CancelIn, responses=told.WorkloadOut)
    def post(self, request: Request, code: str) -> Response:
        """At once if it waits; by a stop signal and its grace if it runs. Again changes nothing."""
        workload = workload_named(code)
        if not may(self.person(), "workload.cancel", workload):
            raise Http404(gettext("There is no workload {code!r} that is yours to cancel.").format(code=code))
        said = self.read(told.CancelIn(data=request.data))
        cancel = workloads.cancel_array if said["whole_array"] else workloads.cancel
        cancel(workload=workload, by=self.person(), reason=said["reason"])
        return Response(told.workload(workload_named(code), self.person()))


class Release(Api):
    """Releasing a workload that is held until a person says so: it failed as before, or its canary did."""

    scopes = {"POST": SUBMIT}

    @extend_schema(operation_id="workload_release", request=told.ReleaseIn, responses=told.WorkloadOut)
    def post(self, request: Request, code: str) -> Response:
        """It is back in the queue, if it has run in its old place. Where it is not held for that, nothing changes."""
        workload = workload_named(code)
        if not may(self.person(), "workload.release", workload):
            raise Http404(gettext("There is no workload {code!r} that is yours to release.").format(code=code))
        said = self.read(told.ReleaseIn(data=request.data))
        release = retries.release_array if said["whole_array"] else retries.release
        release(workload=workload, by=self.person())
        return Response(told.workload(workload_named(code), self.person()))


class StopWorkload(Api):
    """An operator's emergency stop of what a workload runs."""

    scopes = {"POST": OPERATE}

    @extend_schema(operation_id="workload_stop", request=told.StopIn, responses=told.StoppedOut)
    def post(self, request: Request, code: str) -> Response:
        """Stop its run now, also inside its contract: the charge is given back, and the owner is told.

        A resumable workload returns to its place in the queue. Where nothing runs, nothing changes.
        """
        workload = workload_named(code)
        if not may(self.person(), "node.operate", workload.cluster):
            raise PermissionDenied(gettext("That is for operators."))
        said = self.read(told.StopIn(data=request.data))
        changed = emergency.stop_workload(workload=workload, by=self.person(), reason=said["reason"])
        return Response({"changed": changed, "workload": told.workload(workload_named(code), self.person())})


class Logs(Api):
    """What a workload prints, for those inside."""

    out = told.LogOut
    filters = (
        filters.whole("run", "its number; the last one unless said", at_least=1),
        filters.whole("rank", "which; 0 unless said"),
        filters.whole("offset", "the first byte that is wanted; 0 unless said"),
        filters.whole("tail", "in place of an offset: about so many of the last bytes", at_most=256 * 1024),
    )

    @extend_schema(operation_id="workload_logs", responses=told.LogOut)
    def get(self, request: Request, code: str) -> Response:
        """A piece of it, at most about 256 KiB. To follow it, ask again from `next_offset` until `is_over`."""
        workload = workload_named(code)
        if not may(self.person(), "workload.see_inside", workload):
            raise Http404(gettext("There is no workload {code!r} that you see inside of.").format(code=code))
        said = self.asked()
        found = printed(
            workload, run=said["run"], rank=said["rank"] or 0, offset=said["offset"] or 0, tail=said["tail"]
        )
        if (found.ranks and found.rank >= found.ranks) or (said["run"] is not None and found.run is None):
            raise Http404(gettext("There is no such run, or no such rank of it."))
        names = ("run", "rank", "ranks", "offset", "next_offset", "text", "is_over")
        return Response({"workload": code, **{name: getattr(found, name) for name in names}})


def with_nodes(rows: QuerySet[Run]) -> QuerySet[Run]:
    """Runs as RunOut shows them, in a fixed number of queries."""
    ranks = Prefetch("ranks", Rank.objects.select_related("node").order_by("index"))
    return rows.select_related("workload", "leaf", "preempted_by").prefetch_related(ranks)


def shown(page: Sequence[Run]) -> list[dict[str, Any]]:
    """RunOut of each."""
    holds = held_by([each.pk for each in page])
    return [told.run(each, holds.get(each.pk, ())) for each in page]


class RunsOfWorkload(Api):
    """The runs of one workload."""

    pagination_class = LatestFirst
    out = told.RunOut

    @extend_schema(operation_id="workload_runs_list", responses=told.RunOut(many=True))
    def get(self, request: Request, code: str) -> Response:
        """The latest first."""
        return self.page(with_nodes(Run.objects.filter(workload=workload_named(code))), shown)


class Runs(OfCluster):
    """The runs on a cluster."""

    pagination_class = LatestFirst
    out = told.RunOut
    filters = (
        filters.one_of("state", "a state, or open for all that have not ended", [*Run.State.values, OPEN]),
        filters.text("node", "only those with a part on a node", at_most=60),
        filters.text("leaf", "only those charged at or below a budget node, by its code", at_most=16),
        filters.instant("since", "that went on at it or later"),
        filters.instant("until", "that started before it"),
    )

    @extend_schema(operation_id="runs_list", responses=told.RunOut(many=True))
    def get(self, request: Request, cluster: str) -> Response:
        """The latest first."""
        where, said = self.cluster(), self.asked()
        rows = Run.objects.filter(cluster=where)
        if said["state"] == OPEN:
            rows = rows.exclude(state=Run.State.ENDED)
        elif said["state"] is not None:
            rows = rows.filter(state=said["state"])
        if said["node"] is not None:
            on_it = Rank.objects.filter(node=_host(Node.objects.filter(cluster=where), said["node"]))
            rows = rows.filter(pk__in=on_it.values("run"))
        if said["leaf"] is not None:
            rows = rows.filter(path__contains=[node_given(said["leaf"], "leaf").pk])
        if said["since"] is not None:
            rows = rows.exclude(ended_at__lt=said["since"])
        if said["until"] is not None:
            rows = rows.filter(started_at__lt=said["until"])
        return self.page(with_nodes(rows), shown)


class Queue(OfCluster):
    """The queue of a cluster in its order."""

    out = told.QueueOut
    filters = (
        filters.whole("page", "from 1", at_least=1, at_most=100_000),
        filters.whole("limit", "rows of a page; 50 unless said", at_least=1, at_most=ROWS_MAX),
        filters.text("find", "how the code begins, or a part of the name where you see inside", at_most=FIND_LENGTH),
        filters.text("project", "what waits at or below a budget node, by its code", at_most=16),
        filters.one_of("class", "only those", Workload.Class.values),
    )

    @extend_schema(operation_id="queue", responses=told.QueueOut)
    def get(self, request: Request, cluster: str) -> Response:
        """50 rows a page, with the numbers of each level."""
        where, said = self.cluster(), self.asked()
        codes = {row.node.code for row in tree_on(where, today())}
        page = queue.page(
            where, said["page"] or 1, filters_of(request, codes), per_page=said["limit"] or queue.PER_PAGE
        )
        return Response(told.queue_page(page, self.person()))
