"""The API of throughput: what a training run reports, its MFU, and what a cluster's devices can do at most."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from django.http import Http404
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.authority import may
from budgets.glossary import lazily as meant
from budgets.models import Cluster
from portal.api.base import Api
from portal.api.nodes import OfCluster
from portal.api.problems import Strict
from portal.api.scopes import OPERATE, SUBMIT
from portal.api.serializers import moment
from portal.views.workload import workload_named
from scheduler.models import Workload
from scheduler.queries.throughput import Reported, Throughput, of_workload, peak_of
from scheduler.services import throughput

TERA = 10**12


class ReportIn(Strict):
    """So many tokens in the last so many seconds, on all devices of the run together."""

    tokens = serializers.IntegerField(help_text="at least 0")
    seconds = serializers.FloatField(help_text="above 0")
    parameters = serializers.IntegerField(help_text="of the model, at least 1")


class ReportedOut(serializers.Serializer):
    """One report. `mfu` is null where the devices' peak is not known."""

    run = serializers.IntegerField(help_text="its number")
    at = serializers.DateTimeField(help_text="the end of these seconds")
    tokens = serializers.IntegerField()
    seconds = serializers.FloatField()
    parameters = serializers.IntegerField()
    devices = serializers.FloatField()
    tokens_per_s = serializers.FloatField()
    mfu = serializers.FloatField(allow_null=True, help_text=meant("mfu"))


class ThroughputOut(serializers.Serializer):
    """What a workload has reported, the latest 1,000 in time; `over_all` is of its last run, null without a report."""

    workload = serializers.CharField()
    peak_tflops = serializers.FloatField(allow_null=True, help_text="of one device; null: not known")
    over_all = ReportedOut(allow_null=True)
    reports = ReportedOut(many=True)


class PeakIn(Strict):
    """What one device can do at most, in 10^12 operations a second; null goes back to the table's figure."""

    peak_tflops = serializers.FloatField(allow_null=True)
    reason = serializers.CharField(max_length=2_000)


class PeakOut(serializers.Serializer):
    """What one device of a cluster can do at most. `is_said`: an operator has said so, in place of the table."""

    cluster = serializers.CharField()
    model = serializers.CharField(allow_blank=True)
    peak_tflops = serializers.FloatField(allow_null=True, help_text="null: not known")
    is_said = serializers.BooleanField()


class ThroughputOf(Api):
    """The throughput of a workload's runs."""

    out = ThroughputOut
    scopes = {"POST": SUBMIT}

    @extend_schema(operation_id="workload_throughput", responses=ThroughputOut)
    def get(self, request: Request, code: str) -> Response:
        """What was reported, with MFU: 6 x parameters x tokens a second, by devices x peak. For those inside."""
        workload = workload_named(code)
        if not may(self.person(), "workload.see_inside", workload):
            raise Http404(gettext("There is no workload {code!r} that you see inside of.").format(code=code))
        return Response(shown(workload))

    @extend_schema(operation_id="workload_throughput_report", request=ReportIn, responses=ThroughputOut)
    def post(self, request: Request, code: str) -> Response:
        """Report for the run that goes on. What follows within 10 seconds is added to the report before."""
        workload = workload_named(code)
        if not may(self.person(), "workload.cancel", workload):
            raise Http404(gettext("There is no workload {code!r} that is yours.").format(code=code))
        throughput.report(workload=workload, by=self.person(), **self.read(ReportIn(data=request.data)))
        return Response(shown(workload))


class PeakOf(OfCluster):
    """What one device of a cluster can do at most."""

    out = PeakOut
    scopes = {"PUT": OPERATE}

    @extend_schema(operation_id="cluster_peak", responses=PeakOut)
    def get(self, request: Request, cluster: str) -> Response:
        """By the table of models, or as an operator has said."""
        return Response(peak(self.cluster()))

    @extend_schema(operation_id="cluster_peak_set", request=PeakIn, responses=PeakOut)
    def put(self, request: Request, cluster: str) -> Response:
        """Say it. MFU of what was reported before is worked out by it too."""
        where = self.operated()
        said = self.read(PeakIn(data=request.data))
        throughput.set_peak(cluster=where, tflops=said["peak_tflops"], by=self.person(), reason=said["reason"])
        return Response(peak(where))


def shown(workload: Workload) -> dict[str, Any]:
    """ThroughputOut."""
    found: Throughput | None = of_workload(workload)
    known = peak_of(workload.cluster)[0] if found is None else found.peak
    return {
        "workload": workload.code,
        "peak_tflops": _tflops(known),
        "over_all": None if found is None else _reported(found.over_all),
        "reports": [] if found is None else [_reported(each) for each in found.reports],
    }


def peak(cluster: Cluster) -> dict[str, Any]:
    """PeakOut."""
    known, is_said = peak_of(cluster)
    return {"cluster": cluster.name, "model": cluster.model, "peak_tflops": _tflops(known), "is_said": is_said}


def _reported(row: Reported) -> dict[str, Any]:
    return {
        "run": row.run,
        "at": moment(row.at),
        "tokens": row.tokens,
        "seconds": float(row.seconds),
        "parameters": row.parameters,
        "devices": float(row.devices),
        "tokens_per_s": round(float(row.tokens_per_s), 3),
        "mfu": None if row.mfu is None else round(float(row.mfu), 6),
    }


def _tflops(flops: Fraction | None) -> float | None:
    return None if flops is None else float(flops / TERA)
