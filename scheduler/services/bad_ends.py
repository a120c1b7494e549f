"""Telling people of their workloads that were preempted, lost, stopped by others, or have failed.

A task looks at the runs that ended lately; what a run was told of is told once, so it needs no memory of its own and
costs passes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from budgets.models import Cluster, Kind, Message
from budgets.services import messages
from scheduler.models import Run, Workload
from scheduler.services import events

LOOKED_BACK = timedelta(hours=2)
"""How far back ends are looked for: longer than a run can be lost before it is known (65 min)."""
OWN_ENDS = ("finished", "cancelled")
"""Ends that its owner brought about."""
EMPTIED = ("drained", "maintenance")
"""Ends by which a pass empties a node."""
TOLD_MAX = 500
"""In one run of the task; the next goes on with the rest."""


def tell(now: datetime | None = None) -> int:
    """Tell the owners of runs that ended otherwise than they wanted. How many were told."""
    now = now or timezone.now()
    told = 0
    for cluster in Cluster.objects.order_by("pk"):
        ended = Run.objects.filter(cluster=cluster, ended_at__gte=now - LOOKED_BACK, workload__owner__is_active=True)
        unjudged = Q(workload__state=Workload.State.HELD, workload__reason_code=events.UNJUDGED)
        ended = ended.exclude(unjudged).exclude(end_reason__in=OWN_ENDS)
        told += _tell_each(ended.select_related("workload__owner", "preempted_by"))
        began = Run.objects.filter(cluster=cluster, running_at__gte=now - LOOKED_BACK, workload__owner__is_active=True)
        told += _tell_restored(began.exclude(workload__restore_command=[]).filter(number__gt=1))
    return told


def _tell_restored(runs: QuerySet[Run]) -> int:
    """Of sessions that were saved before and go on: where they are to be found now. One query finds them."""
    saved = Run.objects.filter(workload=OuterRef("workload"), number__lt=OuterRef("number"), saved=True)
    by_key = {f"run:{run.pk}:restored": run for run in runs.filter(Exists(saved)).select_related("workload__owner")}
    known = Message.objects.filter(key__in=[f"{key}:{run.workload.owner_id}" for key, run in by_key.items()])
    done = {key.rpartition(":")[0] for key in known.values_list("key", flat=True)}
    told = 0
    for key, run in by_key.items():
        owner, code = run.workload.owner, run.workload.code
        if key not in done and owner is not None and told < TOLD_MAX:
            where = ", ".join(run.ranks.order_by("index").values_list("node__name", flat=True))
            with transaction.atomic():
                told += messages.tell(
                    to=[owner],
                    kind=Kind.WORKLOAD,
                    subject=f"{code} is restored on {where}",
                    path=f"/workloads/{code}/",
                    key=key,
                )
    return told


def _tell_each(runs: Iterable[Run]) -> int:
    """Of those that were not told of yet: one query finds them, however many ended."""
    by_key = {f"run:{run.pk}:ended": run for run in runs}
    known = Message.objects.filter(key__in=[f"{key}:{run.workload.owner_id}" for key, run in by_key.items()])
    done = {key.rpartition(":")[0] for key in known.values_list("key", flat=True)}
    told = 0
    for key, run in by_key.items():
        if key in done:
            continue
        owner = run.workload.owner
        assert owner is not None
        with transaction.atomic():
            told += messages.tell(
                to=[owner],
                kind=Kind.WORKLOAD,
                subject=_said(run),
                text=run.workload.reason_text,
                path=_path(run),
                key=key,
            )
        if told >= TOLD_MAX:
            break
    return told


def _path(run: Run) -> str:
    """Where it is explained: why it was preempted has a page of its own."""
    page = f"/workloads/{run.workload.code}/"
    is_decided = run.end_reason.startswith("preempted") or run.end_reason in EMPTIED
    return f"{page}runs/{run.number}/preempted/" if is_decided else page


def _said(run: Run) -> str:
    """What happened, and what follows."""
    code, state = run.workload.code, run.workload.state
    if run.saved and state in Workload.OPEN_STATES:
        where = ", ".join(run.ranks.order_by("index").values_list("node__name", flat=True))
        why = (
            f"preempted by {run.preempted_by.code}"
            if run.preempted_by is not None
            else run.end_reason.replace("_", " ")
        )
        return f"{code} was saved and left {where}: {why}; it is restored when it runs again"
    if run.end_reason == "failed":
        return _said_of_failure(run)
    if run.end_reason.startswith("preempted") and run.preempted_by is not None:
        what = f"{code} was preempted by {run.preempted_by.code}"
    else:
        what = f"{code} was ended: {run.end_reason.replace('_', ' ')}"
    return f"{what}; it waits in the queue again" if state == Workload.State.QUEUED else what


def _said_of_failure(run: Run) -> str:
    """That it has failed; and what follows, where its owner asked for retries."""
    code, workload = run.workload.code, run.workload
    is_last = run.number == workload.runs.count()
    if is_last and workload.state == Workload.State.HELD and workload.reason_code == events.ALIKE:
        return f"{code} has failed as before, and is held: release or cancel it"
    failed = f"{code} has failed" + (f" with exit status {run.exit_code}" if run.exit_code is not None else "")
    is_over = is_last and workload.state in Workload.ENDED_STATES
    return f"{failed}, and is tried again" if workload.retries and not is_over else failed
