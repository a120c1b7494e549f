"""What training runs report of their throughput, and what operators say of a cluster's devices: for MFU (flops.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

from django.utils import timezone
from django.utils.translation import gettext

from budgets.authority import may
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import Cluster, Person
from budgets.services import ledger
from scheduler.models import DevicePeak, Run, ThroughputReport, Workload
from scheduler.services import events

if TYPE_CHECKING:
    from scheduler.services.facts import Said

TOKENS_MAX = 10**15
PARAMETERS_MAX = 10**15
SECONDS_MAX = 366 * 86_400
TFLOPS_MAX = 10**6
MERGED_S = 10
"""What is reported sooner than that after the last report began to be kept is added to it."""
SAME_S = 3
"""What an agent tells is new if it is of later than the last report by more than this: ages are cut to seconds."""


def report(
    *,
    workload: Workload,
    tokens: int,
    seconds: float | int,
    parameters: int,
    by: Person,
    now: datetime | None = None,
) -> ThroughputReport:
    """Its run has processed so many tokens in the last so many seconds, on all its devices together.

    Args:
        workload: one that runs.
        tokens: at least 0.
        seconds: above 0; to the millisecond.
        parameters: of the model, at least 1.
        by: who may cancel it may say so.
        now: the end of these seconds.

    Raises:
        InputError: names the field. ConflictError: nothing of it runs. NotAllowed: it is not theirs.
    """
    if not may(by, "workload.cancel", workload):
        raise NotAllowed("workload.cancel")
    _check("tokens", tokens, 0, TOKENS_MAX)
    _check("parameters", parameters, 1, PARAMETERS_MAX)
    span_ms = _span_ms(seconds)
    run = Run.objects.filter(workload=workload, running_at__isnull=False, ended_at=None).first()
    if run is None:
        raise ConflictError(gettext("nothing of {workload} runs now").format(workload=workload.code))
    with events.changing(workload.cluster_id):
        return _keep(run.pk, (now or timezone.now()).replace(microsecond=0), tokens, span_ms, parameters)


def keep(said: Sequence[Said]) -> None:
    """Keep what agents' facts tell of throughput, of runs that are theirs; said again, it changes nothing."""
    telling = [each for each in said if each.fact.report_age_s is not None]
    if not telling:
        return
    rows = Run.objects.filter(pk__in=[each.fact.run for each in telling], ended_at=None, running_at__isnull=False)
    there = set(rows.values_list("pk", "ranks__node_id", "ranks__index"))
    for each in telling:
        fact = each.fact
        if (fact.run, each.node_id, fact.rank) not in there:
            continue
        tokens, span_ms, parameters = fact.tokens, fact.span_ms, fact.parameters
        assert tokens is not None, "RankFact.read sees to that and what follows"
        assert span_ms
        assert parameters
        at = (each.at - timedelta(seconds=min(fact.report_age_s or 0, SECONDS_MAX))).replace(microsecond=0)
        if not ThroughputReport.objects.filter(run=fact.run, at__gte=at - timedelta(seconds=SAME_S)).exists():
            row = ThroughputReport(run_id=fact.run, at=at, tokens=tokens, span_ms=span_ms, parameters=parameters)
            ThroughputReport.objects.bulk_create([row], ignore_conflicts=True)


def _keep(run_id: int, at: datetime, tokens: int, span_ms: int, parameters: int) -> ThroughputReport:
    """A row of its own, or part of the last one where that is of just now and of the same model."""
    last = ThroughputReport.objects.filter(run=run_id).order_by("-at").select_for_update().first()
    if last is not None and last.parameters == parameters and at - last.at < timedelta(seconds=MERGED_S):
        last.tokens += tokens
        last.span_ms += span_ms
        last.save(update_fields=["tokens", "span_ms"])
        return last
    if last is not None and at <= last.at:
        at = last.at + timedelta(seconds=1)
    return ThroughputReport.objects.create(run_id=run_id, at=at, tokens=tokens, span_ms=span_ms, parameters=parameters)


def set_peak(*, cluster: Cluster, tflops: float | int | None, by: Person, reason: str = "") -> bool:
    """What one device of a cluster can do at most, in 10^12 operations a second; None: what the table has. Is it news?

    Raises:
        InputError: names the field. NotAllowed: it is not theirs to say.
    """
    if not may(by, "policy.change", cluster):
        raise NotAllowed("policy.change")
    gflops = None if tflops is None else _gflops(tflops)
    with events.changing(cluster.pk):
        before = DevicePeak.objects.filter(cluster=cluster).values_list("gflops", flat=True).first()
        if before == gflops:
            return False
        if gflops is None:
            DevicePeak.objects.filter(cluster=cluster).delete()
        else:
            DevicePeak.objects.update_or_create(
                cluster=cluster, defaults={"gflops": gflops, "said_by": by, "said_at": timezone.now()}
            )
        ledger.record_of_all(
            verb="cluster.peak",
            by=by,
            before={"gflops": before},
            after={"gflops": gflops},
            reason=reason,
            cluster=cluster,
        )
    return True


def _check(field: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(field, gettext("{value!r} is not a whole number").format(value=str(value)[:40]))
    if not least <= value <= most:
        message = gettext("{value} is not {least} to {most:,}")
        raise InputError(field, message.format(value=str(value)[:20], least=least, most=most))


def _span_ms(seconds: object) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InputError("seconds", gettext("{value!r} is not a number of seconds").format(value=str(seconds)[:40]))
    if not 0.001 <= seconds <= SECONDS_MAX:
        message = gettext("{value} is not above 0, and at most {most:,}")
        raise InputError("seconds", message.format(value=str(seconds)[:20], most=SECONDS_MAX))
    return round(seconds * 1_000)


def _gflops(tflops: object) -> int:
    if isinstance(tflops, bool) or not isinstance(tflops, int | float) or not math.isfinite(tflops):
        raise InputError("peak_tflops", gettext("{value!r} is not a number").format(value=str(tflops)[:40]))
    if not 0.001 <= tflops <= TFLOPS_MAX:
        message = gettext("{value} is not above 0, and at most {most:,}")
        raise InputError("peak_tflops", message.format(value=str(tflops)[:20], most=TFLOPS_MAX))
    return int(Fraction(str(tflops)) * 1_000)
