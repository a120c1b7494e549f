"""Nodes: how they join, what they are fit for, and what operators ask of them.

A node's health is what its agent or an operator says of it; a drain that was asked for and a maintenance window stand
beside it. Every change that a pass would see is an event; how long a node was fit for what is kept in its spells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext

from budgets.authority import may
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import Cluster, Person
from scheduler.engine import Policy
from scheduler.models import Device, MaintenanceWindow, Node, NodeSpell, Rack, Run, Workload
from scheduler.services import events, facts, policies
from scheduler.services.events import Kind

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
TOKEN_MIN_CHARS = 20
DEVICES_MAX = 4_096
REASON_MAX_CHARS = 200
AMOUNT_MAX = 2**40
WINDOW_WITHIN = timedelta(days=3_650)

SPELL_OF_HEALTH = {
    Node.Health.UNREACHABLE: NodeSpell.State.UNREACHABLE,
    Node.Health.DOWN: NodeSpell.State.DOWN,
    Node.Health.UNHEALTHY: NodeSpell.State.DRAINING,
}


# --- joining and being there ------------------------------------------------------------------------------------------


def register(
    *,
    cluster: Cluster,
    name: str,
    devices: int,
    token: str = "",
    rack: str = "",
    rail: str = "",
    leaf: str = "",
    cpu_milli: int = 0,
    memory_mib: int = 0,
    gpu_class: str = "",
    uuids: Sequence[str] = (),
    epoch: int = 0,
    by: Person | None = None,
    now: datetime | None = None,
) -> Node:
    """A node joins, or says again what it has; the same again changes nothing.

    Args:
        cluster: which.
        name: the node's, unique in the cluster.
        devices: how many it has. More may be added later; fewer is another node.
        token: its agent's own, of which only a hash is kept; empty for a node that no agent speaks for. A node that is
            heard from keeps the token it has: whoever else knows the join token cannot take its place.
        rack: its RDMA domain, made if it is new.
        rail: which leaves its own belongs to. leaf: the switch that it is wired to. Empty is unsaid.
        cpu_milli: thousandths of a core. memory_mib: mebibytes. 0 is unsaid.
        gpu_class: what kind of devices it has, such as V100; empty is unsaid.
        uuids: its devices' own names, in the order of their indexes; empty is unsaid.
        epoch: of its agent's present start; whatever was started before is heard no more.
        by: the operator who adds it by hand, before its agent joins; None for the agent itself.

    Raises:
        InputError: names the field. NotAllowed: not theirs to do.
    """
    at = (now or timezone.now()).replace(microsecond=0)
    names = {"node": name, "rack": rack, "rail": rail, "leaf": leaf, "gpu_class": gpu_class}
    _check(names, devices, token, cpu_milli, memory_mib)
    if by is not None:
        _check_by_hand(by, cluster)
    with events.changing(cluster.pk):
        place = Rack.objects.get_or_create(cluster=cluster, name=rack)[0] if rack else None
        node = Node.objects.filter(cluster=cluster, name=name).first()
        if node is None:
            node = Node(cluster=cluster, name=name)
        elif node.retired_at is not None:
            raise InputError("node", gettext("{name} has been retired").format(name=name))
        elif node.token_hash and token and not _is_token_of(node, token) and _is_heard_from(node, at):
            raise InputError(
                "node",
                gettext("{name} is here already, with another token; it can be replaced once it is silent").format(
                    name=name
                ),
            )
        known = node.devices.count() if node.pk else 0
        before = (node.pk, node.rack_id, node.rail, node.leaf, known)
        beside = node.cpu_milli, node.memory_mib, node.gpu_class
        if devices < known:
            raise InputError(
                "devices",
                gettext("{name} has {before}; a node with fewer is another node").format(name=name, before=known),
            )
        node.rack, node.rail, node.leaf, node.cpu_milli, node.memory_mib = place, rail, leaf, cpu_milli, memory_mib
        node.gpu_class = gpu_class
        if token:
            node.token_hash, node.agent_epoch = digest(token), epoch
        node.save()
        _have_devices(node, known, devices, uuids)
        if before != (node.pk, node.rack_id, rail, leaf, devices) or beside != (cpu_milli, memory_mib, gpu_class):
            note(node, at, what="registered", by=by)
    return node


def _check_by_hand(by: Person, cluster: Cluster) -> None:
    if not may(by, "node.operate", cluster):
        raise NotAllowed("node.operate")
    if cluster.executor not in (Cluster.Executor.AGENT, Cluster.Executor.SIMULATED):
        message = gettext("the nodes of {cluster} are those of its Slurm").format(cluster=cluster.name)
        raise InputError("cluster", message)


def _have_devices(node: Node, known: int, devices: int, uuids: Sequence[str]) -> None:
    """Rows for the devices beyond those that are known, and their own names where they are said."""
    Device.objects.bulk_create(Device(node=node, index=index) for index in range(known, devices))
    for index, uuid in enumerate(uuids[:devices]):
        Device.objects.filter(node=node, index=index).exclude(uuid=uuid[:80]).update(uuid=uuid[:80])


def _check(names: Mapping[str, str], devices: int, token: str, cpu_milli: int, memory_mib: int) -> None:
    for field, value in names.items():
        if (field == "node" or value) and not NAME.fullmatch(value):
            raise InputError(
                field, gettext("must be 1 to 60 letters, digits, dots, - and _, the first a letter or a digit")
            )
    if not 0 <= devices <= DEVICES_MAX:
        raise InputError(
            "devices", gettext("{devices} is not 0 to {devices_max}").format(devices=devices, devices_max=DEVICES_MAX)
        )
    if token and not TOKEN_MIN_CHARS <= len(token) <= 200:
        raise InputError(
            "token", gettext("must be {token_min_chars} to 200 characters").format(token_min_chars=TOKEN_MIN_CHARS)
        )
    for field, amount in (("cpu_milli", cpu_milli), ("memory_mib", memory_mib)):
        if not 0 <= amount <= AMOUNT_MAX:
            raise InputError(
                field, gettext("{amount} is not 0 to {amount_max}").format(amount=amount, amount_max=AMOUNT_MAX)
            )


def digest(token: str) -> str:
    """What is kept of a token. It is drawn at random and long, so a plain hash of it tells nobody anything."""
    return sha256(token.encode()).hexdigest()


def _is_token_of(node: Node, token: str) -> bool:
    return compare_digest(node.token_hash, digest(token))


def _is_heard_from(node: Node, at: datetime) -> bool:
    """Whether the node's agent has spoken lately."""
    timeout_s = policy(node.cluster).heartbeat_timeout_s
    return node.heartbeat_at is not None and at - node.heartbeat_at <= timedelta(seconds=timeout_s)


def with_token(*, cluster: str, name: str, token: str) -> Node | None:
    """The node of that name, if the token is its own.

    Raises:
        LookupError: the token is another node's: this one speaks out of turn.
    """
    node = Node.objects.select_related("cluster").filter(cluster__name=cluster, name=name, retired_at=None).first()
    if node is not None and node.token_hash and _is_token_of(node, token):
        return node
    if Node.objects.filter(token_hash=digest(token), retired_at=None).exists():
        raise LookupError(f"no node {name} in cluster {cluster} with this token")
    return None


def heartbeat(*, node: Node, wake_url: str = "", epoch: int = 0, now: datetime | None = None) -> bool:
    """The node's agent has spoken: if the node was silent, it is back, and its runs go on.

    Says False, and nothing has changed, if an agent that was started later (a higher epoch) has spoken for it before.
    """
    at = (now or timezone.now()).replace(microsecond=0)
    row = Node.objects.filter(pk=node.pk).filter(Q(heartbeat_at=None) | Q(heartbeat_at__lte=at))
    heard = row.filter(agent_epoch__lte=epoch).update(heartbeat_at=at, wake_url=wake_url, agent_epoch=epoch)
    if not heard and Node.objects.filter(pk=node.pk, agent_epoch__gt=epoch).exists():
        return False
    if Node.objects.filter(pk=node.pk, health=Node.Health.UNREACHABLE).exists():
        with events.changing(node.cluster_id):
            change_health(node, Node.Health.UNREACHABLE, Node.Health.HEALTHY, at, what="heard from again")
            bring_back_runs(node, at)
    return True


def bring_back_runs(node: Node, at: datetime) -> None:
    """Unreachable runs all of whose nodes are heard from are again what they were.

    One that was told to stop meanwhile could not hear it: its grace begins now.
    """
    grace = timedelta(seconds=policy(node.cluster).grace_s)
    back = Run.objects.filter(ranks__node=node, state=Run.State.UNREACHABLE)
    back = back.exclude(ranks__node__health=Node.Health.UNREACHABLE)
    for run in back.distinct().select_related("workload").order_by("pk"):
        leave_by = run.leave_by
        if run.stop_asked_at is not None:
            state, leave_by = Run.State.LEAVING, at + grace
        else:
            state = Run.State.STARTING if run.running_at is None else Run.State.RUNNING
        Run.objects.filter(pk=run.pk, state=Run.State.UNREACHABLE).update(state=state, leave_by=leave_by)
        Workload.objects.filter(pk=run.workload_id, state=Workload.State.UNREACHABLE).update(state=state)
        events.record(cluster_id=node.cluster_id, kind=Kind.RUN_BACK, at=at, run=run, workload=run.workload, node=node)
        # Of its other ranks there may be news that could not count before.
        facts.settle(cluster_id=node.cluster_id, at_of={run.pk: at})


# --- what operators ask -----------------------------------------------------------------------------------------------


def set_health(
    *,
    node: Node,
    health: str,
    by: Person | None = None,
    reason: str = "",
    version: int | None = None,
    now: datetime | None = None,
    is_persons: bool = True,
) -> bool:
    """Say what a node is fit for: `healthy` (after its dwell), `unhealthy` (it drains) or `down` (known to be dead).

    A node that is down loses its runs as of its last heartbeat. Says False if it was so already. What a person has
    called unfit is repaired by no hook; `is_persons` false says that a program found it so.

    Raises:
        InputError: no such health, or a person gave no reason. NotAllowed: not theirs to decide.
        ConflictError: it is not at `version` any more.
    """
    _allowed(by, node, reason)
    if health not in (Node.Health.HEALTHY, Node.Health.UNHEALTHY, Node.Health.DOWN):
        raise InputError("health", gettext("must be healthy, unhealthy or down"))
    at = (now or timezone.now()).replace(microsecond=0)
    with events.changing(node.cluster_id):
        _check_version(node, version)
        before = Node.objects.get(pk=node.pk).health
        is_well = health == Node.Health.HEALTHY
        found_by = "" if is_well else "person" if is_persons else "agent"
        said = {"trouble": "" if is_well else reason, "trouble_by": found_by}
        Node.objects.filter(pk=node.pk).update(**said)
        changed = change_health(node, before, Node.Health(health), at, what=health, by=by, reason=reason)
        if changed and before == Node.Health.UNREACHABLE:
            bring_back_runs(node, at)
        if changed and health == Node.Health.DOWN:
            facts.give_up(node=node, as_of=node.heartbeat_at or at, now=at)
    return changed


def ask_drain(
    *, node: Node, by: Person | None = None, reason: str = "", version: int | None = None, now: datetime | None = None
) -> bool:
    """Start nothing more there; what runs leaves by contract. Says False if that has been asked already.

    Raises:
        InputError: a person gave no reason. NotAllowed: not theirs to decide. ConflictError: it is not at `version`.
    """
    _allowed(by, node, reason)
    at = (now or timezone.now()).replace(microsecond=0)
    with events.changing(node.cluster_id):
        _check_version(node, version)
        row = Node.objects.filter(pk=node.pk, drain_asked_at=None, retired_at=None)
        if not row.update(drain_asked_at=at, drain_reason=reason):
            return False
        note(node, at, what="drain asked", by=by, reason=reason)
    return True


def resume(
    *, node: Node, by: Person | None = None, reason: str = "", version: int | None = None, now: datetime | None = None
) -> bool:
    """End a drain that was asked for. Says False if there was none.

    Raises:
        InputError: a person gave no reason. NotAllowed: not theirs to decide. ConflictError: it is not at `version`.
    """
    _allowed(by, node, reason)
    at = (now or timezone.now()).replace(microsecond=0)
    with events.changing(node.cluster_id):
        _check_version(node, version)
        row = Node.objects.filter(pk=node.pk, retired_at=None).exclude(drain_asked_at=None)
        if not row.update(drain_asked_at=None, drain_reason=""):
            return False
        note(node, at, what="drain ended", by=by, reason=reason)
    return True


def add_window(
    *,
    node: Node,
    starts_at: datetime,
    ends_at: datetime,
    by: Person | None = None,
    reason: str = "",
    now: datetime | None = None,
) -> MaintenanceWindow:
    """Plan maintenance on [starts_at, ends_at): nothing starts whose contract would reach into it.

    Raises:
        InputError: it is over already, ends before it starts, or a person gave no reason. NotAllowed: not theirs.
    """
    _allowed(by, node, reason)
    at = (now or timezone.now()).replace(microsecond=0)
    if ends_at <= starts_at:
        raise InputError("ends_at", gettext("must be after the start"))
    if ends_at <= at:
        raise InputError("ends_at", gettext("is over already"))
    if max(abs(starts_at - at), ends_at - at) > WINDOW_WITHIN:
        raise InputError("starts_at", gettext("must be within ten years, and so must the end"))
    with events.changing(node.cluster_id):
        window = MaintenanceWindow.objects.create(
            node=node, starts_at=starts_at, ends_at=ends_at, reason=reason, made_by=by
        )
        note(node, at, what="window planned", by=by, reason=reason)
    return window


def cancel_window(
    *, window: MaintenanceWindow, by: Person | None = None, reason: str = "", now: datetime | None = None
) -> bool:
    """Call maintenance off. Says False if it was called off before.

    Raises:
        InputError: a person gave no reason. NotAllowed: not theirs to decide.
    """
    _allowed(by, window.node, reason)
    at = (now or timezone.now()).replace(microsecond=0)
    with events.changing(window.node.cluster_id):
        if not MaintenanceWindow.objects.filter(pk=window.pk, cancelled_at=None).update(cancelled_at=at):
            return False
        note(window.node, at, what="window cancelled", by=by, reason=reason)
    return True


def _allowed(by: Person | None, node: Node, reason: str) -> None:
    if by is not None:
        if not may(by, "node.operate", node):
            raise NotAllowed("node.operate")
        if not reason.strip():
            raise InputError("reason", gettext("say why, in a sentence"))
    if len(reason) > REASON_MAX_CHARS:
        raise InputError(
            "reason", gettext("must be at most {reason_max_chars} characters").format(reason_max_chars=REASON_MAX_CHARS)
        )


def _check_version(node: Node, version: int | None) -> None:
    """Nothing, if the node is as it was when it was read; None is as it may be."""
    if version is not None and not Node.objects.filter(pk=node.pk, version=version).exists():
        raise ConflictError(gettext("{name} was changed since you read it").format(name=node.name))


# --- writing it down --------------------------------------------------------------------------------------------------


def policy(cluster: Cluster) -> Policy:
    """The cluster's knobs."""
    policies.ensure(cluster)
    return policies.as_policy(policies.latest(cluster))


def change_health(
    node: Node, before: str, after: str, at: datetime, *, what: str, by: Person | None = None, reason: str = ""
) -> bool:
    """From one health to another, with its dwell, spell and event; whether it was the first and not the second."""
    if before == after:
        return False
    dwell = {"healthy_since": at} if after == Node.Health.HEALTHY else {}
    if not Node.objects.filter(pk=node.pk, health=before).update(health=after, **dwell):
        return False
    note(node, at, what=what, by=by, reason=reason)
    return True


def note(node: Node, at: datetime, *, what: str, by: Person | None = None, reason: str = "") -> None:
    """Another version of the node, the spell that has begun, the event, and a wake-up of the loop."""
    assert transaction.get_connection().in_atomic_block
    Node.objects.filter(pk=node.pk).update(version=F("version") + 1)
    node.refresh_from_db()
    state = SPELL_OF_HEALTH.get(Node.Health(node.health))
    if state is None:
        state = NodeSpell.State.HEALTHY if node.drain_asked_at is None else NodeSpell.State.DRAINING
    last = NodeSpell.objects.filter(node=node, ended_at=None).first()
    if last is None or last.state != state:
        since = at if last is None else max(at, last.started_at)
        NodeSpell.objects.filter(node=node, ended_at=None).update(ended_at=since)
        NodeSpell.objects.create(node=node, state=state, started_at=since)
    events.record(
        cluster_id=node.cluster_id,
        kind=Kind.NODE_CHANGED,
        at=at,
        node=node,
        by=by,
        data={"what": what, "reason": reason},
    )
    events.wake(node.cluster_id)
