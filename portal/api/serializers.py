"""What the parts of the API share of what they give: plain functions, which the classes describe in the schema."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any

from rest_framework import serializers

from budgets.glossary import lazily as meant
from budgets.models import BudgetNode, Share
from budgets.queries import TreeRow
from scheduler.queries.levels import Level
from scheduler.queries.usage import Books


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


def moment(at: datetime | None) -> str | None:
    """An instant as the API writes it."""
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def pair(fraction: Fraction | None) -> list[int] | None:
    """An exact ratio."""
    return None if fraction is None else [fraction.numerator, fraction.denominator]


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


def level(row: Level) -> dict[str, Any]:
    """The numbers of one node of the tree."""
    return {
        "node": row.code,
        "name": row.name,
        "parent": row.parent,
        "basis_points": row.shares,
        "entitlement": pair(row.entitlement),
        "entitled_milli_s": pair(row.entitled_milli_s),
        "used_milli_s": row.used_milli_s,
        "committed_milli_s": row.committed_milli_s,
        "uncharged_milli_s": row.uncharged_milli_s,
        "served": pair(row.served),
        "turn": row.turn,
        "waiting": row.waiting,
        "waiting_milli": row.waiting_milli,
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
