"""A cluster's Slurm over the API: how it is, what differs, and having shares written."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.authority import may
from portal.api.base import Api
from portal.api.problems import Strict
from portal.api.serializers import moment
from portal.views.slurm import cluster_with_slurm, drift_of, written_again


class DriftOut(serializers.Serializer):
    """One thing in Slurm that is not as the shares say; `commands` put it right, and are for operators."""

    account = serializers.CharField()
    node = serializers.CharField()
    what = serializers.CharField()
    is_now = serializers.CharField()
    should_be = serializers.CharField()
    commands = serializers.ListField(child=serializers.CharField())


class SlurmOut(serializers.Serializer):
    """How it is; `plan` is what would be done where writing is off, and is for operators."""

    mode = serializers.ChoiceField(["full", "advisory"])
    writes = serializers.BooleanField()
    last_contact_at = serializers.CharField(allow_null=True)
    failing_since = serializers.CharField(allow_null=True)
    trouble = serializers.CharField()
    plan = serializers.ListField(child=serializers.CharField())
    drift = DriftOut(many=True)


class ResyncIn(Strict):
    """The budget node whose shares are to be written, with what is below it; empty is all."""

    node = serializers.CharField(max_length=16, allow_blank=True, default="")


class ResyncOut(serializers.Serializer):
    """What was asked for, and how it stands."""

    node = serializers.CharField()
    outcome = serializers.CharField()
    asked_at = serializers.CharField()


class Slurm(Api):
    """One cluster's Slurm."""

    out = SlurmOut
    scopes = {"POST": "operate"}

    @extend_schema(responses=SlurmOut)
    def get(self, request: Request, cluster: str) -> Response:
        """How it is."""
        where, found = cluster_with_slurm(cluster)
        link, is_operator = found.link, may(self.person(), "node.operate", where)
        drift = [{**each, "commands": each["commands"] if is_operator else []} for each in drift_of(link)]
        body: dict[str, Any] = {
            "mode": "full" if found.is_full else "advisory",
            "writes": bool(link and link.writes),
            "last_contact_at": None if link is None else moment(link.contact_at),
            "failing_since": None if link is None else moment(link.failing_since),
            "trouble": found.trouble,
            "plan": link.plan if link is not None and is_operator else [],
            "drift": drift,
        }
        return Response(body)

    @extend_schema(request=ResyncIn, responses={202: ResyncOut})
    def post(self, request: Request, cluster: str) -> Response:
        """Have shares written now; for operators. Done by whoever looks at Slurm, at once."""
        where, _found = cluster_with_slurm(cluster)
        if not may(self.person(), "node.operate", where):
            raise PermissionDenied(gettext("Writing to Slurm is for operators."))
        said = self.read(ResyncIn(data=request.data))
        order = written_again(self.person(), where, said["node"])
        body = {"node": said["node"], "outcome": order.outcome, "asked_at": moment(order.asked_at)}
        return Response(body, status=202)
