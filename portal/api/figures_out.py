"""What the API of the figures gives, as its schema describes it."""

from __future__ import annotations

from rest_framework import serializers


class PeriodOut(serializers.Serializer):
    """A time, half-open."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()


class PyramidOut(PeriodOut):
    """The four figures, what held device time was, and the figures by hour or day."""

    cluster = serializers.CharField()
    step = serializers.CharField()
    layers = serializers.DictField()
    phases_milli_s = serializers.DictField()
    measured_milli_s = serializers.IntegerField()
    busy_milli_s = serializers.IntegerField()
    allocated_milli_s = serializers.IntegerField()
    unallocated_milli_s = serializers.IntegerField()
    free_milli_s = serializers.IntegerField()
    points = serializers.ListField(child=serializers.DictField())


class FairnessOut(PeriodOut):
    """A level of the tree with its books, who ran on whose entitlement, and who waited longest."""

    cluster = serializers.CharField()
    parent = serializers.CharField()  # type: ignore[assignment]
    delivery = serializers.FloatField(allow_null=True)
    nodes = serializers.ListField(child=serializers.DictField())
    lent = serializers.ListField(child=serializers.DictField())
    waited_longest = serializers.ListField(child=serializers.DictField())


class WaitsOut(PeriodOut):
    """Waits by class; `bins` count the waits up to each of `bounds_s`, and one more beyond."""

    cluster = serializers.CharField()
    node = serializers.CharField()
    bounds_s = serializers.ListField(child=serializers.IntegerField())
    classes = serializers.ListField(child=serializers.DictField())


class SquattingOut(PeriodOut):
    """What stood idle by node, for everybody; by person and workload only one's own and those of whom one manages."""

    cluster = serializers.CharField()
    node = serializers.CharField()
    nodes = serializers.ListField(child=serializers.DictField())
    people = serializers.ListField(child=serializers.DictField())
    workloads = serializers.ListField(child=serializers.DictField())
    page = serializers.IntegerField()
    count = serializers.IntegerField()


class PrioritiesOut(PeriodOut):
    """Priorities by leaf; by person only one's own, or all for those who manage the node."""

    cluster = serializers.CharField()
    node = serializers.CharField()
    leaves = serializers.ListField(child=serializers.DictField())
    page = serializers.IntegerField()
    count = serializers.IntegerField()
    people = serializers.ListField(child=serializers.DictField())


class PaceOut(PeriodOut):
    """How much of what a period entitles to is used, beside how much of it has come due.

    `forecast` is null where there is none.
    """

    node = serializers.CharField()
    cluster = serializers.CharField()
    at = serializers.DateTimeField()
    entitled_milli_s = serializers.IntegerField()
    used = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    gone = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    books = serializers.DictField()
    forecast = serializers.DictField(allow_null=True)


class PeopleUsageOut(PeriodOut):
    """What people used of a node: one's own, or all for those who manage it."""

    node = serializers.CharField()
    cluster = serializers.CharField()
    people = serializers.ListField(child=serializers.DictField())
