"""Which rules a cluster follows from when: it shadows first (decided and shown, nothing started), then contracts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

from budgets.authority import may
from budgets.errors import InputError, NotAllowed
from budgets.models import Cluster, Person
from budgets.services import ledger
from scheduler.engine import Action, Decision, Reason
from scheduler.models import RolloutStep
from scheduler.services import events
from scheduler.services.still_holds import Work

Mode = RolloutStep.Mode
SHADOW = "shadow"
"""Reason code of a workload that would have been started."""
CARRIED_OUT = (Action.WAIT, Action.HOLD, Action.RELEASE)
"""What a shadow does too: it orders the queue, and holds what has no entitlement."""
SHOWN_MAX = 500


def mode_of(cluster: Cluster, at: datetime) -> Mode:
    """The rules in force at an instant."""
    step = RolloutStep.objects.filter(cluster=cluster, starts_at__lte=at).order_by("-starts_at", "-pk").first()
    return Mode.CONTRACTS if step is None else Mode(step.mode)


def now_and_next(at: datetime) -> dict[int, tuple[Mode, RolloutStep | None]]:
    """Of every cluster with any step, by its id: the rules in force, and the next change. One query."""
    found: dict[int, tuple[Mode, RolloutStep | None]] = {}
    for step in RolloutStep.objects.order_by("cluster_id", "starts_at", "pk"):
        mode, following = found.get(step.cluster_id, (Mode.CONTRACTS, None))
        if step.starts_at <= at:
            found[step.cluster_id] = Mode(step.mode), None
        else:
            found[step.cluster_id] = mode, following or step
    return found


def next_step(cluster: Cluster, at: datetime) -> RolloutStep | None:
    """The first change of rules after an instant."""
    return RolloutStep.objects.filter(cluster=cluster, starts_at__gt=at).order_by("starts_at", "-pk").first()


def plan(
    *, cluster: Cluster, mode: str, starts_at: datetime, by: Person | None, reason: str, now: datetime | None = None
) -> RolloutStep:
    """Have the cluster follow these rules from an instant on; what was planned for later is dropped. In the ledger.

    Raises:
        InputError: no such mode, an instant of the past, or no reason. NotAllowed: not theirs to decide.
    """
    if by is not None and not may(by, "policy.change", cluster):
        raise NotAllowed("policy.change")
    at = (now or timezone.now()).replace(microsecond=0)
    if mode not in Mode.values:
        raise InputError("mode", _("must be one of {modes}").format(modes=", ".join(Mode.values)))
    if starts_at < at:
        raise InputError("starts_at", _("is over already"))
    if not reason.strip():
        raise InputError("reason", _("say why, in a sentence"))
    with events.changing(cluster.pk):
        RolloutStep.objects.filter(cluster=cluster, starts_at__gte=starts_at).delete()
        before = mode_of(cluster, starts_at)
        step = RolloutStep.objects.create(
            cluster=cluster, mode=mode, starts_at=starts_at, made_at=at, made_by=by, reason=reason.strip()
        )
        ledger.record_of_all(
            verb="cluster.rules",
            by=by,
            before={"mode": str(before)},
            after={"mode": mode, "from": starts_at.isoformat()},
            reason=reason.strip(),
            cluster=cluster,
        )
        events.wake(cluster.pk)
    return step


def shadow(work: Work) -> list[dict[str, Any]]:
    """Have the plan be shown and not carried out: what it would have done, as the pass keeps it.

    Of its decisions those stay that change nothing on any node; whoever would have been started is told so.
    """
    would = [each for each in work.decisions if each.action not in CARRIED_OUT]
    starts = {each.workload for each in would if each.action in (Action.START, Action.CLAIM)}
    kept = [each for each in work.decisions if each.action in CARRIED_OUT]
    work.decisions[:] = [each for each in kept if each.workload not in starts] + [
        _told(each) for each in would if each.workload in starts and each.action in (Action.START, Action.CLAIM)
    ]
    work.devices.clear()
    return [shown(each) for each in would[:SHOWN_MAX]]


def _told(decision: Decision) -> Decision:
    nodes = ", ".join(sorted(decision.holdings))
    text = f"Shadow: it would start now on {nodes}. On this cluster decisions are shown, and nothing is started yet."
    numbers: Mapping[str, Any] = {"nodes": sorted(decision.holdings), "would": str(decision.action)}
    return replace(decision, action=Action.WAIT, reason=Reason(SHADOW, text, numbers), holdings={})


def shown(decision: Decision) -> dict[str, Any]:
    """A decision that was not carried out, as its pass keeps it."""
    return {
        "workload": decision.workload,
        "action": str(decision.action),
        "code": str(decision.reason.code),
        "text": decision.reason.text,
        "nodes": sorted(decision.holdings),
        "run": decision.run,
        "by": decision.by,
    }


def words(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many of each action a shadow pass would have carried out."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["action"]] = counts.get(row["action"], 0) + 1
    return counts
