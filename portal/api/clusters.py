"""The API of clusters: what there is, the knobs of their policy, the emergency stop, their passes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.models import Cluster
from portal.api import clusters_out, filters
from portal.api.base import Api, Pages, tag_of
from portal.api.nodes import OfCluster
from portal.api.scopes import OPERATE
from portal.api.serializers import moment
from portal.clusters import sizes_milli
from portal.pages import clusters
from scheduler.models import Decision, Pass, PolicyVersion
from scheduler.queries import queue
from scheduler.queries.levels import latest_pass
from scheduler.services import emergency, policies, rollout

DECISIONS_MAX = 1_000
HISTORY_MAX = 20


class PassesLatestFirst(Pages):
    """Pages of passes."""

    ordering = ("-pk",)


def described(rows: list[Cluster]) -> list[dict[str, Any]]:
    """ClusterOut of each. Three queries, whatever their number."""
    sizes, modes, stops = sizes_milli(), rollout.now_and_next(datetime.now(UTC)), emergency.standing_everywhere()
    contracts = (rollout.Mode.CONTRACTS, None)
    return [
        clusters_out.cluster(each, sizes.get(each.pk, 0), modes.get(each.pk, contracts), stops.get(each.pk))
        for each in rows
    ]


class Clusters(Api):
    """All clusters, with their unit and size."""

    out = clusters_out.ClusterOut

    @extend_schema(operation_id="clusters_list", responses=clusters_out.ClusterOut(many=True))
    def get(self, request: Request) -> Response:
        """A short list: not paged."""
        return Response(described(clusters()))


class ClusterDetail(OfCluster):
    """One cluster."""

    out = clusters_out.ClusterDetailOut

    @extend_schema(operation_id="cluster", responses=clusters_out.ClusterDetailOut)
    def get(self, request: Request, cluster: str) -> Response:
        """With what it holds, who waits, its last pass, and the version of its policy."""
        where = self.cluster()
        last, totals = latest_pass(where), queue.totals(where, datetime.now(UTC))
        policies.ensure(where)
        names = list(clusters_out.FiguresOut().fields)
        figures = {name: getattr(totals, name) for name in names if name != "held_workloads"}
        return Response(
            {
                **described([where])[0],
                "figures": {**figures, "held_workloads": totals.held_count},
                "last_pass_at": None if last is None else moment(last.at),
                "last_pass": None if last is None else last.pk,
                "policy_version": policies.latest(where).number,
            }
        )


class PolicyOf(OfCluster):
    """The knobs of a cluster's policy."""

    out = clusters_out.PolicyOut
    scopes = {"PATCH": OPERATE}
    matches = ("GET", "PATCH")

    @extend_schema(operation_id="policy", responses=clusters_out.PolicyOut)
    def get(self, request: Request, cluster: str) -> Response:
        """What is in force, and the last versions."""
        return self.shown(self.cluster())

    @extend_schema(operation_id="policy_change", request=clusters_out.PolicyIn, responses=clusters_out.PolicyOut)
    def patch(self, request: Request, cluster: str) -> Response:
        """Change knobs from the next pass on. Say from which version: If-Match, or `version`."""
        where = self.operated()
        said = self.read(clusters_out.PolicyIn(data=request.data))
        policies.change(
            cluster=where,
            knobs=said["knobs"],
            by=self.person(),
            reason=said["reason"],
            version=self.version_said(said),
        )
        return self.shown(where)

    def shown(self, where: Cluster) -> Response:
        """The policy with its ETag."""
        policies.ensure(where)
        rows = PolicyVersion.objects.filter(cluster=where).select_related("made_by").order_by("-number")
        versions = list(rows[:HISTORY_MAX])
        return self.tagged(clusters_out.policy(where, versions), tag_of(versions[0].number))


class Stop(OfCluster):
    """An operator's emergency stop of a whole cluster."""

    scopes = {"POST": OPERATE}

    @extend_schema(operation_id="cluster_stop", request=clusters_out.StopIn, responses=clusters_out.StoppedOut)
    def post(self, request: Request, cluster: str) -> Response:
        """Stop every run, also inside contracts, and start nothing until the cluster is started again.

        Charges are given back, owners are told, promises end; who waits keeps their place. Again stops what is left.
        """
        where = self.operated()
        said = self.read(clusters_out.StopIn(data=request.data))
        done = emergency.stop_cluster(cluster=where, by=self.person(), reason=said["reason"])
        changed = done.is_news or done.runs > 0
        return Response({"changed": changed, "stopped_runs": done.runs, "cluster": described([where])[0]})


class Start(OfCluster):
    """The end of an emergency stop."""

    scopes = {"POST": OPERATE}

    @extend_schema(operation_id="cluster_start", request=clusters_out.StopIn, responses=clusters_out.StoppedOut)
    def post(self, request: Request, cluster: str) -> Response:
        """Let a stopped cluster go on: its queue starts with the next pass. Again changes nothing."""
        where = self.operated()
        said = self.read(clusters_out.StopIn(data=request.data))
        changed = emergency.start_cluster(cluster=where, by=self.person(), reason=said["reason"])
        return Response({"changed": changed, "stopped_runs": 0, "cluster": described([where])[0]})


class Passes(OfCluster):
    """The passes of the engine over a cluster."""

    pagination_class = PassesLatestFirst
    out = clusters_out.PassOut
    filters = (
        filters.instant("since", "only those at or after it"),
        filters.instant("until", "only those before it"),
    )

    @extend_schema(operation_id="passes_list", responses=clusters_out.PassOut(many=True))
    def get(self, request: Request, cluster: str) -> Response:
        """The latest first. Quiet passes, which changed nothing, are forgotten after a while."""
        rows, said = Pass.objects.filter(cluster=self.cluster()).select_related("policy").defer("figures"), self.asked()
        return self.page(between(rows, "at", said), lambda page: [clusters_out.pass_row(each) for each in page])


class PassDetail(OfCluster):
    """One pass."""

    out = clusters_out.PassDetailOut

    @extend_schema(operation_id="pass", responses=clusters_out.PassDetailOut)
    def get(self, request: Request, cluster: str, number: int) -> Response:
        """Its order, the figures that made it, and what it decided."""
        row = Pass.objects.filter(cluster=self.cluster(), pk=number).select_related("policy").first()
        if row is None:
            raise Http404(gettext("There is no pass {number} of {cluster}.").format(number=number, cluster=cluster))
        found = Decision.objects.filter(made_in=row).select_related("workload", "run", "by").order_by("pk")
        return Response(clusters_out.pass_detail(row, found[:DECISIONS_MAX]))


def between(rows: QuerySet[Any], column: str, said: dict[str, Any]) -> QuerySet[Any]:
    """Those at or after `since` and before `until`, where these were said."""
    if said["since"] is not None:
        rows = rows.filter(**{f"{column}__gte": said["since"]})
    if said["until"] is not None:
        rows = rows.filter(**{f"{column}__lt": said["until"]})
    return rows
