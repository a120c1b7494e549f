"""Repairs without a person: trouble is drained by contract, repaired by a hook, looked at again, and put back to work.

Beat looks after each node's repair (`look_after`); every step is a conditional change of its row, so a second beat, a
late one or a lost task does no harm. The hook of a cluster is set on its page of rules, or by `manage.py repair_hook`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from budgets.authority import may
from budgets.errors import InputError, NotAllowed
from budgets.models import Cluster, Kind, Person, Role, RoleGrant
from budgets.queries import in_force, today
from budgets.services import ledger, messages
from scheduler.models import Device, Event, Node, Repair, RepairHook
from scheduler.services import agents, hooks, nodes
from scheduler.services.events import Kind as EventKind

log = structlog.get_logger(__name__)

State = Repair.State
BY_ITSELF = timedelta(minutes=10)
"""Without a hook a drained node has so long to recover before a person is called."""
ATTEMPTS_FACTOR = 100
"""The number of an attempt is its repair's times this, plus which attempt it is: an agent makes each one once."""
UNFIT = (Node.Health.UNHEALTHY, Node.Health.DOWN)


def set_hook(
    *,
    cluster: Cluster,
    kind: str,
    command: Sequence[str] = (),
    url: str = "",
    attempts: int = 2,
    timeout_s: int = 1_800,
    by: Person | None = None,
    reason: str = "",
) -> RepairHook:
    """How nodes of this cluster are repaired from now on; it replaces an earlier hook. In the ledger.

    Args:
        cluster: which.
        kind: "node" (the agent's own repair_command), "portal" (this command, on a worker's machine) or "webhook".
        command: of "portal": an argument list in which {node}, {cluster} and {cause} stand for the names.
        url: of "webhook": where a signed message is posted, under the rules for people's webhooks.
        attempts: how often it is tried before a person is called.
        timeout_s: how long a node has to be well again after each.
        by: who; None for whoever has a shell on the portal's machine. People may only name programs that the settings
            allow (`REPAIR_PROGRAMS`): a worker runs them beside the portal's own secrets.
        reason: why, in a sentence; people must say.

    Raises:
        InputError: names the field. NotAllowed: it is not theirs to decide.
    """
    _allow(cluster, by, reason)
    if kind not in RepairHook.Kind.values:
        raise InputError("kind", _("must be one of %(kinds)s") % {"kinds": ", ".join(RepairHook.Kind.values)})
    if kind == RepairHook.Kind.NODE and cluster.executor in (Cluster.Executor.SLURM, Cluster.Executor.ADVISED):
        raise InputError("kind", _("nodes of a Slurm have no agent that could: use a command or a message"))
    if (kind == RepairHook.Kind.PORTAL) != bool(command):
        raise InputError("command", _("belongs to the kind portal, and only to it"))
    if kind == RepairHook.Kind.PORTAL and by is not None and command[0] not in settings.REPAIR_PROGRAMS:
        raise InputError(
            "command",
            _("%(program)s is none of the programs that ALLOTMENT_REPAIR_PROGRAMS names: %(programs)s")
            % {"program": command[0], "programs": ", ".join(settings.REPAIR_PROGRAMS) or _("none")},
        )
    if not 1 <= attempts <= 20:
        raise InputError("attempts", _("must be 1 to 20"))
    if not 60 <= timeout_s <= 7 * 86_400:
        raise InputError("timeout_s", _("must be 60 to 604,800"))
    secret = hooks.checked(url) if kind == RepairHook.Kind.WEBHOOK else ""
    values: dict[str, Any] = {"kind": kind, "command": list(command), "url": url, "secret": secret}
    values |= {"attempts": attempts, "timeout_s": timeout_s}
    with transaction.atomic():
        before = RepairHook.objects.select_for_update().filter(cluster=cluster).first()
        was = None if before is None else _for_the_ledger(before)
        hook = RepairHook.objects.update_or_create(cluster=cluster, defaults=values)[0]
        _record(cluster, was, _for_the_ledger(hook), by, reason)
    return hook


def remove_hook(*, cluster: Cluster, by: Person | None = None, reason: str = "") -> bool:
    """Repair nothing without a person from now on; whether there was a hook. In the ledger.

    Raises:
        InputError: no reason. NotAllowed: it is not theirs to decide.
    """
    _allow(cluster, by, reason)
    with transaction.atomic():
        before = RepairHook.objects.select_for_update().filter(cluster=cluster).first()
        if before is None:
            return False
        _record(cluster, _for_the_ledger(before), None, by, reason)
        before.delete()
    return True


def _allow(cluster: Cluster, by: Person | None, reason: str) -> None:
    if by is None:
        return
    if not may(by, "policy.change", cluster):
        raise NotAllowed("policy.change")
    if not reason.strip():
        raise InputError("reason", _("say why, in a sentence"))


def _for_the_ledger(hook: RepairHook) -> dict[str, Any]:
    """What is told of a hook to who reads the ledger: neither arguments nor addresses, which may hold keys."""
    what = {
        RepairHook.Kind.NODE: "repair_command",
        RepairHook.Kind.PORTAL: hook.command[0] if hook.command else "",
        RepairHook.Kind.WEBHOOK: urlsplit(hook.url).hostname or "",
    }
    said = {"kind": str(hook.kind), "what": what[RepairHook.Kind(hook.kind)]}
    return said | {"attempts": hook.attempts, "within_s": hook.timeout_s}


def _record(
    cluster: Cluster, before: dict[str, Any] | None, after: dict[str, Any] | None, by: Person | None, reason: str
) -> None:
    if before != after:
        ledger.record_of_all(
            verb="cluster.repair_hook",
            by=by,
            before=before,
            after=after,
            reason=reason.strip(),
            cluster=cluster,
        )


def is_at_work(node: Node) -> bool:
    """Whether something is being done to the node just now: its word that it is well does not count yet."""
    return Repair.objects.filter(node=node, state=State.REPAIRING, hook_ended_at=None).exists()


def wanted_of(node: Node) -> int | None:
    """The number of the attempt that the node's agent should make now."""
    row = Repair.objects.filter(node=node, state=State.REPAIRING, hook_ended_at=None).first()
    if row is None or not RepairHook.objects.filter(cluster=node.cluster_id, kind=RepairHook.Kind.NODE).exists():
        return None
    return row.pk * ATTEMPTS_FACTOR + row.attempts


def ended(*, node: Node, number: int, exit_code: int, message: str, now: datetime | None = None) -> bool:
    """The node's agent has made the attempt of that number; whether this was news."""
    at = (now or timezone.now()).replace(microsecond=0)
    pk, attempt = divmod(number, ATTEMPTS_FACTOR)
    row = Repair.objects.filter(
        pk=min(pk, 2**62), node=node, state=State.REPAIRING, attempts=attempt, hook_ended_at=None
    )
    return bool(row.update(hook_ended_at=at, message=_said(exit_code, message)))


def _said(exit_code: int, message: str) -> str:
    return f"status {exit_code}: {message}"[:300] if exit_code else message[:300]


# --- beat's -----------------------------------------------------------------------------------------------------------


def look_after(cluster: Cluster, now: datetime) -> bool:
    """Take every repair of the cluster one step on. False: nothing changes that a pass would see."""
    at = now.replace(microsecond=0)
    unfit = Node.objects.filter(cluster=cluster, retired_at=None, health__in=UNFIT)
    for node in unfit.exclude(repairs__in=Repair.objects.filter(ended_at=None)).order_by("name"):
        _begin(node, at)
    rows = Repair.objects.filter(node__cluster=cluster, ended_at=None).select_related("node__cluster").order_by("pk")
    if rows:
        hook = RepairHook.objects.filter(cluster=cluster).first()
        dwell = timedelta(seconds=nodes.policy(cluster).healthy_dwell_s)
        for row in rows:
            _step(row, hook, dwell, at)
    return False


def _begin(node: Node, at: datetime) -> None:
    last = Event.objects.filter(node=node, kind=EventKind.NODE_CHANGED).order_by("-id").first()
    since = at if last is None else last.at
    cause = node.trouble or (str(last.data.get("reason") or last.data.get("what")) if last is not None else node.health)
    Repair.objects.get_or_create(node=node, ended_at=None, defaults={"cause": cause[:300], "began_at": since})


def _step(row: Repair, hook: RepairHook | None, dwell: timedelta, at: datetime) -> None:
    health = row.node.health
    if row.node.retired_at is not None:
        _change(row, state=State.DONE, ended_at=at, needed_person=True)
    elif health == Node.Health.HEALTHY:
        _while_healthy(row, dwell, at)
    elif health in UNFIT:
        _while_unfit(row, hook, at)


def _while_healthy(row: Repair, dwell: timedelta, at: datetime) -> None:
    since = row.node.healthy_since or at
    if row.state != State.CHECKING or row.healthy_at != since:
        is_persons = row.needed_person or row.state == State.PERSON
        _change(row, state=State.CHECKING, healthy_at=since, needed_person=is_persons)
    elif at >= since + dwell:
        _change(row, state=State.DONE, ended_at=max(since + dwell, row.began_at))


def _while_unfit(row: Repair, hook: RepairHook | None, at: datetime) -> None:
    if row.state == State.PERSON:
        return
    if row.node.trouble_by == "person":
        _change(row, state=State.PERSON, needed_person=True)
        return
    if row.state == State.CHECKING:  # it has relapsed: what was tried counts on
        _change(row, state=State.DRAINING, healthy_at=None, drained_at=None)
    if row.state == State.DRAINING:
        if Device.objects.filter(node=row.node_id, held_milli__gt=0).exists():
            return
        if row.drained_at is None:
            _change(row, drained_at=at)
        if hook is not None:
            _try(row, hook, at)
        elif at >= (row.drained_at or at) + BY_ITSELF:
            _call_a_person(row)
    elif row.state == State.REPAIRING and hook is not None and _has_failed(row, hook, at):
        _try(row, hook, at)


def _has_failed(row: Repair, hook: RepairHook, at: datetime) -> bool:
    """Whether the attempt has ended badly, or the node was not well in time."""
    assert row.hook_at is not None
    is_late = at >= row.hook_at + timedelta(seconds=hook.timeout_s)
    return is_late or (row.hook_ended_at is not None and row.message.startswith("status "))


def _try(row: Repair, hook: RepairHook, at: datetime) -> None:
    """The next attempt, or a person."""
    if row.attempts >= hook.attempts:
        _call_a_person(row)
        return
    attempt = row.attempts + 1
    with transaction.atomic():
        if _change(row, state=State.REPAIRING, attempts=attempt, hook_at=at, hook_ended_at=None, message=""):
            log.info("repair", node=row.node.name, attempt=attempt, kind=hook.kind)
            if hook.kind == RepairHook.Kind.NODE:
                agents.wake([row.node_id])
            else:
                hooks.send_soon(row.pk, attempt)


def _call_a_person(row: Repair) -> None:
    """Operators are told, once for each repair."""
    with transaction.atomic():
        if not _change(row, state=State.PERSON, needed_person=True):
            return
        grants = RoleGrant.objects.filter(in_force(today()), role=Role.OPERATOR)
        operators = Person.objects.filter(grants__in=grants, is_active=True).distinct()
        messages.tell(
            to=operators,
            kind=Kind.WORKLOAD,
            subject=_("Node %(node)s needs a person: %(cause)s") % {"node": row.node.name, "cause": row.cause},
            text=_("Tried %(attempts)s times without a person. The last try said: %(message)s")
            % {"attempts": row.attempts, "message": row.message or _("nothing")},
            path=f"/nodes/{row.node.cluster.name}/",
            key=f"repair:{row.pk}:person",
        )


def _change(row: Repair, **values: Any) -> bool:
    """Change the row if it is still as it was read; whether it was."""
    before = Repair.objects.filter(pk=row.pk, state=row.state, attempts=row.attempts, ended_at=None)
    if not before.update(**values):
        return False
    for name, value in values.items():
        setattr(row, name, value)
    return True
