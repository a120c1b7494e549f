"""What happens on clusters, handed to the organisation's webhooks: each follows a cluster's event log by itself.

Event ids rise in commit order within a cluster, so a mark says exactly what was handed over; mark and deliveries are
written in one transaction. A webhook begins with what happens after it was first seen here, and passes cost nothing
more: whoever follows reads the log they write anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from budgets.models import Cluster, Webhook, WebhookMark
from budgets.services import deliveries
from scheduler.models import Event, Workload
from scheduler.services.events import ASIDE, Kind

EVENTS_MAX = 500
"""Of one cluster for one webhook, in one run of the task; the next goes on with the rest."""
NAMES: Mapping[str, str] = {
    Kind.SUBMITTED: "workload.submitted",
    Kind.REFUSED: "workload.refused",
    Kind.CANCELLED: "workload.cancelled",
    Kind.CANCEL_ASKED: "workload.cancel_asked",
    Kind.HELD: "workload.held",
    Kind.RELEASED: "workload.released",
    Kind.FAILED: "workload.failed",
    Kind.RUN_STARTED: "run.started",
    Kind.RUN_RUNNING: "run.running",
    Kind.RUN_STOPPING: "run.stopping",
    Kind.RUN_ENDED: "run.ended",
    Kind.RUN_UNREACHABLE: "run.unreachable",
    Kind.RUN_BACK: "run.back",
    Kind.NODE_CHANGED: "node.changed",
}
"""What each kind of the log is called outside; what is not here is not posted."""


def follow(now: datetime | None = None) -> int:
    """Hand over what is new on every cluster. How many deliveries were made."""
    hooks = Webhook.objects.filter(scope=Webhook.Scope.ORGANISATION, turned_off_at=None).order_by("pk")
    hooks_that_want = [hook for hook in hooks if any(deliveries.wants(hook, name) for name in NAMES.values())]
    if not hooks_that_want:
        return 0
    at = now or timezone.now()
    clusters = list(Cluster.objects.order_by("pk"))
    return sum(_follow(hook, cluster, at) for hook in hooks_that_want for cluster in clusters)


def _follow(hook: Webhook, cluster: Cluster, now: datetime) -> int:
    with transaction.atomic():
        mark = WebhookMark.objects.select_for_update(skip_locked=True).filter(webhook=hook, cluster=cluster).first()
        if mark is None:
            return _begin(hook, cluster)
        rows = Event.objects.filter(cluster=cluster, pk__gt=mark.event_id).order_by("pk")
        found = list(rows.select_related("workload__leaf", "run", "node")[:EVENTS_MAX])
        if not found:
            return 0
        made = _hand_over(hook, cluster, found, now)
        WebhookMark.objects.filter(pk=mark.pk).update(event_id=found[-1].pk)
        return made


def _begin(hook: Webhook, cluster: Cluster) -> int:
    """From now on; another worker may be at it, and then this is its work."""
    last = Event.objects.filter(cluster=cluster).aggregate(last=Max("pk"))["last"] or 0
    WebhookMark.objects.get_or_create(webhook=hook, cluster=cluster, defaults={"event_id": last})
    return 0


def _hand_over(hook: Webhook, cluster: Cluster, found: Iterable[Event], now: datetime) -> int:
    said = [
        (NAMES[event.kind], f"event:{event.pk}", _said(event, cluster))
        for event in found
        if event.kind in NAMES and deliveries.wants(hook, NAMES[event.kind])
    ]
    return deliveries.queue_all(webhook=hook, said=said, at=now)


def _state(state: str) -> str:
    """The log tells those that are put aside from those that a pass held; outside they are all held."""
    return Workload.State.HELD if state in ASIDE else state


def _said(event: Event, cluster: Cluster) -> dict[str, Any]:
    """What everybody who is signed in may see of it: no commands, no owners."""
    workload, run, node = event.workload, event.run, event.node
    seen: Mapping[str, Any] = event.data or {}
    said: dict[str, Any] = {"at": event.at.isoformat(), "cluster": cluster.name}
    if workload is not None:
        said["workload"] = {
            "code": workload.code,
            "budget": workload.leaf.code,
            "class": workload.workload_class,
            "size_milli": workload.size_milli,
            "state": _state(seen.get("workload", {}).get("state", workload.state)),
        }
        said["url"] = f"{settings.URL}/workloads/{workload.code}/"
    if run is not None:
        said["run"] = {"number": run.number, "state": seen.get("run", {}).get("state", run.state)}
        if event.kind == Kind.RUN_ENDED:
            said["run"] |= {"end_reason": run.end_reason, "exit_code": run.exit_code}
    if node is not None:
        known = seen.get("node", {})
        said["node"] = {
            "name": node.name,
            "health": known.get("health", node.health),
            "draining": bool(known.get("drains", node.drain_asked_at is not None)),
        }
        said.setdefault("url", f"{settings.URL}/nodes/{cluster.name}/")
    return said
