"""What the API takes and gives of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from portal.api.problems import Strict
from portal.api.serializers import moment
from portal.views.nodes import Line
from scheduler.models import JoinToken, MaintenanceWindow, Node
from scheduler.queries.repairs import Repairs
from scheduler.services.join_tokens import LONGEST_S
from scheduler.services.nodes import AMOUNT_MAX, DEVICES_MAX, REASON_MAX_CHARS

HEALTHS = [Node.Health.HEALTHY, Node.Health.UNHEALTHY, Node.Health.DOWN]

# --- what it takes ----------------------------------------------------------------------------------------------------


class ReasonIn(Strict):
    """Why, in a sentence."""

    reason = serializers.CharField(max_length=REASON_MAX_CHARS)


class OperateIn(ReasonIn):
    """Why; with `version`, only if the node is as it was when it was read (If-Match says the same)."""

    version = serializers.IntegerField(min_value=1, max_value=2**31 - 1, required=False)


class HealthIn(OperateIn):
    """What a node is fit for: `unhealthy` drains it, `down` gives its runs up as of its last heartbeat."""

    health = serializers.ChoiceField([each.value for each in HEALTHS])


class RegisterIn(Strict):
    """A node that is added by hand, before its agent joins."""

    name = serializers.CharField(max_length=60, help_text="letters, digits, dots, - and _")
    devices = serializers.IntegerField(min_value=0, max_value=DEVICES_MAX, help_text="GPUs, or cores")
    rack = serializers.CharField(max_length=60, allow_blank=True, default="", help_text="its RDMA domain")
    rail = serializers.CharField(
        max_length=60, allow_blank=True, default="", help_text="which leaves its own belongs to"
    )
    leaf = serializers.CharField(
        max_length=60, allow_blank=True, default="", help_text="the switch that it is wired to"
    )
    cpu_milli = serializers.IntegerField(min_value=0, max_value=AMOUNT_MAX, default=0, help_text="0 is unsaid")
    memory_mib = serializers.IntegerField(min_value=0, max_value=AMOUNT_MAX, default=0, help_text="0 is unsaid")
    gpu_class = serializers.CharField(
        max_length=60, allow_blank=True, default="", help_text="what kind of devices it has, such as V100"
    )


class WindowIn(ReasonIn):
    """Maintenance on [starts_at, ends_at)."""

    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()


class JoinTokenIn(Strict):
    """A token by which one node joins, once."""

    valid_for_s = serializers.IntegerField(min_value=1, max_value=LONGEST_S, default=3_600)
    node = serializers.CharField(max_length=60, allow_blank=True, default="", help_text="the only node it is for")


# --- what it gives ----------------------------------------------------------------------------------------------------


class TenantOut(serializers.Serializer):
    """A run on a node. `contract_ends_at` is null while it starts, and where it is unallocated.

    `device` is the index of the device of which it has a part; null where it has whole ones.
    """

    workload = serializers.CharField()
    milli = serializers.IntegerField()
    is_funded = serializers.BooleanField()
    contract_ends_at = serializers.DateTimeField(allow_null=True)
    device = serializers.IntegerField(allow_null=True)


class SharedOut(serializers.Serializer):
    """A device that is given out in parts, by its index, and what of it is free."""

    device = serializers.IntegerField()
    free_milli = serializers.IntegerField()


class WindowOut(serializers.Serializer):
    """Planned maintenance. Nothing starts whose contract would reach into it; then the node drains."""

    id = serializers.IntegerField()
    node = serializers.CharField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField(allow_blank=True)
    made_by = serializers.CharField(allow_null=True)
    cancelled_at = serializers.DateTimeField(allow_null=True)


class NodeOut(serializers.Serializer):
    """A host. `state` is its health, or `draining` and `drained` where a drain was asked of a healthy one."""

    name = serializers.CharField()
    cluster = serializers.CharField()
    rack = serializers.CharField(allow_null=True)
    rail = serializers.CharField(allow_null=True)
    leaf = serializers.CharField(allow_null=True)
    health = serializers.ChoiceField(Node.Health.values)
    state = serializers.CharField()
    trouble = serializers.CharField(allow_blank=True, help_text="what is wrong, as its agent or a person said")
    is_drain_asked = serializers.BooleanField()
    drain_asked_at = serializers.DateTimeField(allow_null=True)
    drain_reason = serializers.CharField(allow_blank=True)
    size_milli = serializers.IntegerField()
    held_milli = serializers.IntegerField()
    cell_of = serializers.CharField(allow_null=True, help_text="the budget node whose cell it is now, by its code")
    taken_milli = serializers.IntegerField(help_text="held by jobs of others")
    cpu_milli = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    gpu_class = serializers.CharField(allow_null=True)
    heartbeat_at = serializers.DateTimeField(allow_null=True)
    runs = TenantOut(many=True)
    shared = SharedOut(many=True, help_text="the devices of which runs have parts")
    windows = WindowOut(many=True)
    version = serializers.IntegerField(help_text="another one after each change by operators, agents or repairs")


class OperatedOut(serializers.Serializer):
    """What came of it: `changed` is false where it was so already."""

    changed = serializers.BooleanField()
    node = NodeOut()


class NodeStoppedOut(OperatedOut):
    """How many runs were told to stop."""

    stopped_runs = serializers.IntegerField()


class JoinTokenOut(serializers.Serializer):
    """A join token. `token` is shown once, to whoever made it, and null ever after."""

    id = serializers.IntegerField()
    cluster = serializers.CharField()
    node = serializers.CharField(allow_blank=True, help_text="the only node it is for; empty: any")
    made_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    used_at = serializers.DateTimeField(allow_null=True)
    used_by = serializers.CharField(allow_null=True)
    token = serializers.CharField(allow_null=True)


class RepairOut(serializers.Serializer):
    """A repair that goes on."""

    node = serializers.CharField()
    state = serializers.CharField()
    cause = serializers.CharField(allow_blank=True)
    began_at = serializers.DateTimeField()
    drained_at = serializers.DateTimeField(allow_null=True)
    attempts = serializers.IntegerField()
    message = serializers.CharField(allow_blank=True)


class RepairsOut(serializers.Serializer):
    """Repairs of a cluster's nodes over 30 days: how many came back, and how many of them needed no person."""

    since = serializers.DateTimeField()
    done = serializers.IntegerField()
    by_themselves = serializers.IntegerField()
    has_hook = serializers.BooleanField()
    going = RepairOut(many=True)


def window(row: MaintenanceWindow) -> dict[str, Any]:
    """WindowOut."""
    return {
        "id": row.pk,
        "node": row.node.name,
        "starts_at": moment(row.starts_at),
        "ends_at": moment(row.ends_at),
        "reason": row.reason,
        "made_by": row.made_by.username if row.made_by else None,
        "cancelled_at": moment(row.cancelled_at),
    }


def node(line: Line) -> dict[str, Any]:
    """NodeOut."""
    row = line.node
    return {
        "name": row.name,
        "cluster": row.cluster.name,
        "rack": row.rack.name if row.rack else None,
        "rail": row.rail or None,
        "leaf": row.leaf or None,
        "health": row.health,
        "state": line.state,
        "trouble": row.trouble,
        "is_drain_asked": row.drain_asked_at is not None,
        "drain_asked_at": moment(row.drain_asked_at),
        "drain_reason": row.drain_reason,
        "size_milli": line.size_milli,
        "held_milli": line.held_milli,
        "cell_of": line.cell_of or None,
        "taken_milli": row.taken_milli,
        "cpu_milli": row.cpu_milli,
        "memory_mib": row.memory_mib,
        "gpu_class": row.gpu_class or None,
        "heartbeat_at": moment(row.heartbeat_at),
        "runs": [
            {
                "workload": each.workload,
                "milli": each.milli,
                "is_funded": each.funded,
                "contract_ends_at": moment(each.contract_ends_at),
                "device": each.device,
            }
            for each in line.tenants
        ],
        "shared": [{"device": each.device, "free_milli": each.free_milli} for each in line.shared],
        "windows": [window(each) for each in line.windows],
        "version": row.version,
    }


def nodes(found: Sequence[Line]) -> list[dict[str, Any]]:
    """NodeOut of each."""
    return [node(each) for each in found]


def join_token(row: JoinToken, token: str | None = None) -> dict[str, Any]:
    """JoinTokenOut."""
    return {
        "id": row.pk,
        "cluster": row.cluster.name,
        "node": row.node_name,
        "made_at": moment(row.made_at),
        "expires_at": moment(row.expires_at),
        "used_at": moment(row.used_at),
        "used_by": row.used_by.name if row.used_by else None,
        "token": token,
    }


def repairs(row: Repairs) -> dict[str, Any]:
    """RepairsOut."""
    return {
        "since": moment(row.since),
        "done": row.done,
        "by_themselves": row.by_themselves,
        "has_hook": row.has_hook,
        "going": [
            {
                "node": each.node.name,
                "state": each.state,
                "cause": each.cause,
                "began_at": moment(each.began_at),
                "drained_at": moment(each.drained_at),
                "attempts": each.attempts,
                "message": each.message,
            }
            for each in row.going
        ],
    }
