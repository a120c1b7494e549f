"""What the API takes and gives. Out-going values are plain functions; the classes describe them in the schema."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any

from rest_framework import serializers

from budgets.authority import may
from budgets.glossary import lazily as meant
from budgets.models import BudgetNode, Cluster, Person, Share
from budgets.queries import TreeRow
from portal.api.problems import Strict
from scheduler.models import Node, Workload
from scheduler.queries.levels import Level
from scheduler.queries.queue import QueuePage, Row
from scheduler.queries.repairs import Repairs
from scheduler.queries.usage import Books, Series

# --- what it takes ----------------------------------------------------------------------------------------------------


class Submission(Strict):
    """A workload, or `count` of them that differ in their index only."""

    cluster = serializers.CharField(max_length=40)
    leaf = serializers.CharField(max_length=16, help_text=meant("leaf"))
    size_milli = serializers.IntegerField(min_value=1, max_value=2_000_000_000)
    min_runtime_s = serializers.IntegerField(min_value=0, max_value=315_360_000, help_text=meant("contract"))
    command = serializers.ListField(child=serializers.CharField(allow_blank=True, trim_whitespace=False), min_length=1)
    name = serializers.CharField(max_length=120, allow_blank=True, default="")
    priority = serializers.IntegerField(min_value=-1_000, max_value=1_000, default=0, help_text=meant("priority"))
    time_limit_s = serializers.IntegerField(min_value=1, max_value=315_360_000, allow_null=True, default=None)
    cpu_milli_per_rank = serializers.IntegerField(min_value=0, max_value=2_000_000_000, default=0)
    memory_mib_per_rank = serializers.IntegerField(min_value=0, max_value=2_000_000_000, default=0)
    resumable = serializers.BooleanField(default=False, help_text=meant("resumable"))
    checkpoint = serializers.CharField(max_length=300, allow_blank=True, default="")
    checkpoint_every_s = serializers.IntegerField(min_value=0, max_value=315_360_000, default=0)
    save_command = serializers.ListField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), default=list
    )
    restore_command = serializers.ListField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), default=list
    )
    secrets = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), default=dict, write_only=True
    )
    environment = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), default=dict
    )
    count = serializers.IntegerField(min_value=1, max_value=1_000, default=1)
    idempotency_key = serializers.CharField(max_length=70, allow_blank=True, default="")


class CancelIn(Strict):
    """Why it is cancelled."""

    reason = serializers.CharField(max_length=200, allow_blank=True, default="")


class SetShares(Strict):
    """Children's shares in basis points by code, from a day on; `version` is the node's, as the tree gives it."""

    shares = serializers.DictField(child=serializers.IntegerField(min_value=0, max_value=10_000), allow_empty=False)
    valid_from = serializers.DateField()
    reason = serializers.CharField(max_length=2_000)
    version = serializers.IntegerField(min_value=1)


# --- what it gives ----------------------------------------------------------------------------------------------------


class ClusterOut(serializers.Serializer):
    """A cluster."""

    name = serializers.CharField()
    title = serializers.CharField()
    unit = serializers.CharField()
    model = serializers.CharField()
    rules = serializers.CharField()
    size_milli = serializers.IntegerField()


class TreeOut(serializers.Serializer):
    """A node of the tree. `entitlement` is [numerator, denominator] of the cluster."""

    code = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField()
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]
    depth = serializers.IntegerField()
    basis_points = serializers.IntegerField(help_text=meant("shares"))
    unassigned_basis_points = serializers.IntegerField(help_text=meant("unassigned"))
    entitlement = serializers.ListField(child=serializers.IntegerField(), help_text=meant("entitlement"))
    is_closed = serializers.BooleanField()
    version = serializers.IntegerField()


class ShareOut(serializers.Serializer):
    """A dated share."""

    node = serializers.CharField()
    basis_points = serializers.IntegerField(help_text=meant("shares"))
    valid_from = serializers.DateField()
    valid_until = serializers.DateField(allow_null=True)


class RepairsOut(serializers.Serializer):
    """Repairs of a cluster's nodes over 30 days: how many came back, and how many of them needed no person."""

    since = serializers.DateTimeField()
    done = serializers.IntegerField()
    by_themselves = serializers.IntegerField()
    has_hook = serializers.BooleanField()
    going = serializers.ListField(child=serializers.DictField())


class NodeOut(serializers.Serializer):
    """A host."""

    name = serializers.CharField()
    rack = serializers.CharField(allow_null=True)
    health = serializers.CharField()
    is_drain_asked = serializers.BooleanField()
    size_milli = serializers.IntegerField()
    held_milli = serializers.IntegerField()
    trouble = serializers.CharField()
    version = serializers.IntegerField()


class WorkloadOut(serializers.Serializer):
    """A workload. `inside` is null for those who do not see inside it."""

    code = serializers.CharField()
    cluster = serializers.CharField()
    leaf = serializers.CharField(help_text=meant("leaf"))
    size_milli = serializers.IntegerField()
    min_runtime_s = serializers.IntegerField(help_text=meant("contract"))
    priority = serializers.IntegerField(help_text=meant("priority"))
    workload_class = serializers.CharField(help_text=meant("class"))
    state = serializers.CharField()
    place = serializers.IntegerField(allow_null=True)
    reason_code = serializers.CharField()
    reason = serializers.CharField()
    submitted_at = serializers.DateTimeField()
    first_started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    earliest_start_at = serializers.DateTimeField(allow_null=True)
    inside = serializers.DictField(allow_null=True)


class QueueOut(serializers.Serializer):
    """A page of the queue."""

    cluster = serializers.CharField()
    as_of = serializers.DateTimeField(allow_null=True)
    page = serializers.IntegerField()
    pages = serializers.IntegerField()
    count = serializers.IntegerField()
    rows = serializers.ListField(child=serializers.DictField())
    levels = serializers.ListField(child=serializers.DictField())


class UsageOut(serializers.Serializer):
    """The books over time: entitled = within + not_delivered + not_asked + in_repair."""

    node = serializers.CharField()
    cluster = serializers.CharField()
    step = serializers.CharField()
    total = serializers.DictField()
    points = serializers.ListField(child=serializers.DictField())


def moment(at: datetime | None) -> str | None:
    """An instant as the API writes it."""
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def pair(fraction: Fraction | None) -> list[int] | None:
    """An exact ratio."""
    return None if fraction is None else [fraction.numerator, fraction.denominator]


def cluster(row: Cluster, size_milli: int, rules: str) -> dict[str, Any]:
    """ClusterOut. `rules` are "contracts", or "shadow": decided and shown only."""
    return {
        "name": row.name,
        "title": row.title,
        "unit": row.unit,
        "model": row.model,
        "rules": rules,
        "size_milli": size_milli,
    }


def tree_row(row: TreeRow) -> dict[str, Any]:
    """TreeOut."""
    node: BudgetNode = row.node
    return {
        "code": node.code,
        "name": node.name,
        "kind": node.kind,
        "parent": None,
        "depth": row.depth,
        "basis_points": row.basis_points,
        "unassigned_basis_points": row.unassigned,
        "entitlement": pair(row.entitlement),
        "is_closed": row.is_closed,
        "version": node.version,
    }


def tree(rows: list[TreeRow]) -> list[dict[str, Any]]:
    """TreeOut of each, with its parent's code."""
    codes = {row.node.pk: row.node.code for row in rows}
    return [{**tree_row(row), "parent": codes.get(row.parent_id or 0)} for row in rows]


def share(row: Share) -> dict[str, Any]:
    """ShareOut."""
    until = row.valid_until.isoformat() if row.valid_until else None
    from_day = row.valid_from.isoformat()
    return {"node": row.node.code, "basis_points": row.basis_points, "valid_from": from_day, "valid_until": until}


def node(row: Node) -> dict[str, Any]:
    """NodeOut, of a node whose devices are at hand."""
    devices = list(row.devices.all())
    return {
        "name": row.name,
        "rack": row.rack.name if row.rack else None,
        "health": row.health,
        "is_drain_asked": row.drain_asked_at is not None,
        "size_milli": 1_000 * len(devices),
        "held_milli": sum(device.held_milli for device in devices),
        "trouble": row.trouble,
        "version": row.version,
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


def workload(row: Workload, person: Person) -> dict[str, Any]:
    """WorkloadOut, with what this person may see."""
    inside = None
    if may(person, "workload.see_inside", row):
        inside = {
            "name": row.name,
            "owner": row.owner.username if row.owner else None,
            "command": row.command,
            "environment": row.environment,
            "secrets": sorted(row.secrets),
            "checkpoint": row.checkpoint,
            "checkpoint_every_s": row.checkpoint_every_s,
            "save_command": row.save_command,
            "restore_command": row.restore_command,
            "resumable": row.resumable,
            "time_limit_s": row.time_limit_s,
        }
    return {
        "code": row.code,
        "cluster": row.cluster.name,
        "leaf": row.leaf.code,
        "size_milli": row.size_milli,
        "min_runtime_s": row.min_runtime_s,
        "priority": row.priority,
        "workload_class": row.workload_class,
        "state": row.state,
        "place": row.place,
        "reason_code": row.reason_code,
        "reason": row.reason_text,
        "submitted_at": moment(row.submitted_at),
        "first_started_at": moment(row.first_started_at),
        "ended_at": moment(row.ended_at),
        "earliest_start_at": moment(row.earliest_start_at),
        "inside": inside,
    }


def level(row: Level) -> dict[str, Any]:
    """The numbers of one node of the tree."""
    return {
        "node": row.code,
        "parent": row.parent,
        "basis_points": row.shares,
        "entitlement": pair(row.entitlement),
        "used_milli_s": row.used_milli_s,
        "committed_milli_s": row.committed_milli_s,
        "uncharged_milli_s": row.uncharged_milli_s,
        "served": pair(row.served),
        "turn": row.turn,
        "waiting": row.waiting,
        "waiting_milli": row.waiting_milli,
    }


def queue_page(page: QueuePage) -> dict[str, Any]:
    """QueueOut."""
    return {
        "cluster": page.cluster.name,
        "as_of": moment(page.as_of),
        "page": page.number,
        "pages": page.pages,
        "count": page.count,
        "rows": [queue_row(row) for row in page.rows],
        "levels": [level(each) for each in page.levels.rows],
    }


def queue_row(row: Row) -> dict[str, Any]:
    """One waiting workload: what everyone may see."""
    return {
        "place": row.place,
        "code": row.code,
        "leaf": row.leaf_code,
        "size_milli": row.size_milli,
        "min_runtime_s": row.min_runtime_s,
        "workload_class": row.workload_class,
        "state": row.state,
        "submitted_at": moment(row.submitted_at),
        "served": [pair(each) for each in row.served],
        "reason_code": row.reason_code,
        "reason": row.reason_text,
        "earliest_start_at": moment(row.earliest_start_at),
        "certain_at": moment(row.certain_at),
        "is_promised": row.promise is not None,
    }


def usage_series(of: BudgetNode, on: Cluster, series: Series) -> dict[str, Any]:
    """UsageOut."""
    return {
        "node": of.code,
        "cluster": on.name,
        "step": str(series.step),
        "total": books(series.total),
        "points": [
            {"start": moment(point.start), "end": moment(point.end), **books(point.books)} for point in series.points
        ],
    }


def books(row: Books) -> dict[str, int]:
    """The parts of an entitlement."""
    names = (
        "entitled",
        "within",
        "not_delivered",
        "not_asked",
        "in_repair",
        "borrowed",
        "uncharged",
        "demand",
        "owed",
    )
    return {f"{name}_milli_s": getattr(row, f"{name}_milli_s") for name in names}
