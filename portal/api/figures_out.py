"""What the API of the figures gives, as its schema describes it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from portal.api.explaining_out import DelayOut
from portal.api.usage_out import BooksOut
from scheduler.failures import FailureClass, Origin


class Ratio(serializers.ListField):
    """[numerator, denominator]; null where there was nothing to divide by, or nothing was measured."""

    def __init__(self, **more: Any) -> None:
        """Two whole numbers."""
        super().__init__(
            child=serializers.IntegerField(), **{"allow_null": True, "min_length": 2, "max_length": 2, **more}
        )


class PeriodOut(serializers.Serializer):
    """A time, half-open."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()


class LayersOut(serializers.Serializer):
    """The four figures, each of the one before it."""

    availability = Ratio()
    occupancy = Ratio()
    impact = Ratio()
    utilization = Ratio()


class PyramidPointOut(LayersOut):
    """One hour or day."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()


class PyramidOut(PeriodOut):
    """The four figures, what held device time was, and the figures by hour or day."""

    cluster = serializers.CharField()
    step = serializers.CharField()
    layers = LayersOut()
    phases_milli_s = serializers.DictField(child=serializers.IntegerField(), help_text="held device time by phase")
    measured_milli_s = serializers.IntegerField()
    busy_milli_s = serializers.IntegerField()
    allocated_milli_s = serializers.IntegerField()
    unallocated_milli_s = serializers.IntegerField()
    free_milli_s = serializers.IntegerField()
    points = PyramidPointOut(many=True)


class FairNodeOut(BooksOut):
    """A node's books, and what it lent."""

    node = serializers.CharField()
    lent_milli_s = serializers.IntegerField()


class LentOut(serializers.Serializer):
    """Who ran on whose entitlement."""

    borrower = serializers.CharField()
    lender = serializers.CharField()
    milli_s = serializers.IntegerField()


class WaitedOut(serializers.Serializer):
    """One of those who waited longest."""

    code = serializers.CharField()
    leaf = serializers.CharField()
    workload_class = serializers.CharField()
    size_milli = serializers.IntegerField()
    submitted_at = serializers.DateTimeField()
    first_started_at = serializers.DateTimeField(allow_null=True)
    wait_s = serializers.IntegerField()


class FairnessOut(PeriodOut):
    """A level of the tree with its books, who ran on whose entitlement, and who waited longest."""

    cluster = serializers.CharField()
    parent = serializers.CharField()  # type: ignore[assignment]
    delivery = serializers.FloatField(allow_null=True, help_text="how much of what was owed was given, 0 to 1")
    nodes = FairNodeOut(many=True)
    lent = LentOut(many=True)
    waited_longest = WaitedOut(many=True)


class ClassOut(serializers.Serializer):
    """Waits of one class of work."""

    workload_class = serializers.CharField()
    first_starts = serializers.IntegerField()
    median_s = serializers.IntegerField(allow_null=True)
    p90_s = serializers.IntegerField(allow_null=True)
    longest_s = serializers.IntegerField(allow_null=True)
    bins = serializers.ListField(child=serializers.IntegerField())
    not_started = serializers.IntegerField()
    not_started_longest_s = serializers.IntegerField(allow_null=True)


class WaitsOut(PeriodOut):
    """Waits by class, and what was waited for; `bins` count the waits up to each of `bounds_s`, and one more beyond."""

    cluster = serializers.CharField()
    node = serializers.CharField()
    bounds_s = serializers.ListField(child=serializers.IntegerField())
    classes = ClassOut(many=True)
    delays = DelayOut(many=True, help_text="what the first starts waited for")
    delays_not_started = DelayOut(many=True, help_text="what is waited for by those that have not started")


class LostOut(serializers.Serializer):
    """The runs that failed for one reason, and the device time that they had held."""

    failure_class = serializers.ChoiceField([each.value for each in FailureClass])
    why = serializers.CharField(help_text="the class in words")
    origin = serializers.ChoiceField([each.value for each in Origin], help_text="own: it would happen again")
    runs = serializers.IntegerField()
    held_milli_s = serializers.IntegerField()


class FailuresOut(PeriodOut):
    """Why runs failed that ended within the time, at or below a node; those that held most first."""

    cluster = serializers.CharField()
    node = serializers.CharField()
    runs_ended = serializers.IntegerField(help_text="however they ended")
    classes = LostOut(many=True)


class IdleNodeOut(serializers.Serializer):
    """What stood idle below one node."""

    node = serializers.CharField()
    held_milli_s = serializers.IntegerField()
    measured_milli_s = serializers.IntegerField()
    idle_milli_s = serializers.IntegerField()
    workloads = serializers.IntegerField()


class IdlePersonOut(serializers.Serializer):
    """What stood idle of one person's."""

    name = serializers.CharField(allow_blank=True)
    idle_milli_s = serializers.IntegerField()
    workloads = serializers.IntegerField()


class IdleWorkloadOut(serializers.Serializer):
    """What of one workload stood idle."""

    code = serializers.CharField()
    owner = serializers.CharField(allow_null=True, allow_blank=True)
    state = serializers.CharField()
    size_milli = serializers.IntegerField()
    idle_milli_s = serializers.IntegerField()
    hours = serializers.IntegerField()
    last_at = serializers.DateTimeField(allow_null=True)


class SquattingOut(PeriodOut):
    """What stood idle by node, for everybody; by person and workload only one's own and those of whom one manages."""

    cluster = serializers.CharField()
    node = serializers.CharField()
    nodes = IdleNodeOut(many=True)
    people = IdlePersonOut(many=True)
    workloads = IdleWorkloadOut(many=True)
    page = serializers.IntegerField()
    count = serializers.IntegerField()


class RankOut(serializers.Serializer):
    """Work of one priority."""

    priority = serializers.IntegerField()
    waiting = serializers.IntegerField()
    running = serializers.IntegerField()
    submitted = serializers.IntegerField()
    held_milli_s = serializers.IntegerField()


class LeafOut(serializers.Serializer):
    """The priorities of one leaf."""

    node = serializers.CharField()
    submitted = serializers.IntegerField()
    raised = serializers.IntegerField()
    all_raised = serializers.BooleanField()
    priorities = RankOut(many=True)


class RaisedOut(serializers.Serializer):
    """How often one person raised priorities."""

    name = serializers.CharField(allow_blank=True)
    submitted = serializers.IntegerField()
    raised = serializers.IntegerField()


class PrioritiesOut(PeriodOut):
    """Priorities by leaf; by person only one's own, or all for those who manage the node."""

    cluster = serializers.CharField()
    node = serializers.CharField()
    leaves = LeafOut(many=True)
    page = serializers.IntegerField()
    count = serializers.IntegerField()
    people = RaisedOut(many=True)


class PaceForecastOut(serializers.Serializer):
    """What may be used by the end of the period."""

    low_milli_s = serializers.IntegerField()
    middle_milli_s = serializers.IntegerField()
    high_milli_s = serializers.IntegerField()
    history_days = serializers.IntegerField()


class PaceOut(PeriodOut):
    """How much of what a period entitles to is used, beside how much of it has come due.

    `forecast` is null where there is none.
    """

    node = serializers.CharField()
    cluster = serializers.CharField()
    at = serializers.DateTimeField()
    entitled_milli_s = serializers.IntegerField()
    used = Ratio()
    gone = Ratio()
    books = BooksOut()
    forecast = PaceForecastOut(allow_null=True)


class UsedOut(serializers.Serializer):
    """What one person used; the last row may be `others` people together."""

    name = serializers.CharField(allow_blank=True)
    others = serializers.IntegerField()
    charged_milli_s = serializers.IntegerField()
    uncharged_milli_s = serializers.IntegerField()
    workloads = serializers.IntegerField()


class PeopleUsageOut(PeriodOut):
    """What people used of a node: one's own, or all for those who manage it."""

    node = serializers.CharField()
    cluster = serializers.CharField()
    people = UsedOut(many=True)
