"""What the API gives of use: the books of budget nodes, by time, by child, by person."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from budgets.glossary import lazily as meant
from budgets.models import BudgetNode, Cluster
from portal.api.serializers import books, moment
from scheduler.queries.people_usage import PersonUsage
from scheduler.queries.usage import Books, Series, Step


class BooksOut(serializers.Serializer):
    """Device time: entitled = within + not_delivered + not_asked + in_repair; the rest stands beside it."""

    entitled_milli_s = serializers.IntegerField(help_text=meant("entitlement"))
    within_milli_s = serializers.IntegerField(help_text="delivered, up to the entitlement")
    not_delivered_milli_s = serializers.IntegerField(help_text="owed and not given")
    not_asked_milli_s = serializers.IntegerField(help_text="nobody asked")
    in_repair_milli_s = serializers.IntegerField(help_text="its part of devices that were not healthy")
    borrowed_milli_s = serializers.IntegerField(help_text="delivered above the entitlement")
    uncharged_milli_s = serializers.IntegerField(help_text="held by unallocated runs")
    demand_milli_s = serializers.IntegerField(help_text="asked for by funded workloads")
    owed_milli_s = serializers.IntegerField(help_text="the smaller of demand and entitlement to healthy devices")


class BooksPointOut(BooksOut):
    """The books of one hour or day."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()


class UsageOut(serializers.Serializer):
    """The books of a budget node over time. Hours that are not known make no points."""

    node = serializers.CharField()
    cluster = serializers.CharField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    step = serializers.ChoiceField([each.value for each in Step])
    total = BooksOut()
    points = BooksPointOut(many=True)


class NodeUsageOut(BooksOut):
    """The books of one node in a time."""

    node = serializers.CharField()
    name = serializers.CharField()
    charged_milli_s = serializers.IntegerField()


class PersonUsageOut(serializers.Serializer):
    """What one person used; the last row may be `others` people together."""

    name = serializers.CharField(allow_blank=True, help_text="empty: work of nobody")
    others = serializers.IntegerField()
    charged_milli_s = serializers.IntegerField()
    uncharged_milli_s = serializers.IntegerField()
    workloads = serializers.IntegerField()


class ClusterUsageOut(serializers.Serializer):
    """What was used of a cluster: a budget node, then its children or its people."""

    cluster = serializers.CharField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    node = NodeUsageOut()
    children = NodeUsageOut(many=True, help_text="empty where people were asked for")
    people = PersonUsageOut(many=True, help_text="all for those who manage the node, and each for themselves")


def series(of: BudgetNode, on: Cluster, start: Any, end: Any, found: Series) -> dict[str, Any]:
    """UsageOut."""
    return {
        "node": of.code,
        "cluster": on.name,
        "start": moment(start),
        "end": moment(end),
        "step": str(found.step),
        "total": books(found.total),
        "points": [
            {"start": moment(point.start), "end": moment(point.end), **books(point.books)} for point in found.points
        ],
    }


def of_node(node: BudgetNode, row: Books) -> dict[str, Any]:
    """NodeUsageOut."""
    return {"node": node.code, "name": node.name, **books(row), "charged_milli_s": row.charged_milli_s}


def of_person(row: PersonUsage) -> dict[str, Any]:
    """PersonUsageOut."""
    return {
        "name": row.name,
        "others": row.others,
        "charged_milli_s": row.charged_milli_s,
        "uncharged_milli_s": row.uncharged_milli_s,
        "workloads": row.workloads,
    }
