"""What the API gives of a workload's why, as its schema describes it."""

from __future__ import annotations

from rest_framework import serializers

from budgets.glossary import lazily as meant
from portal.api.workloads_out import LevelOut, WorkloadOut
from scheduler.failures import FailureClass, Origin
from scheduler.queries.delays import Cause


class ForecastOut(serializers.Serializer):
    """The range of likely starts. Instants that are null are after `until`."""

    as_of = serializers.DateTimeField()
    low_at = serializers.DateTimeField(allow_null=True, help_text="the 10th percentile")
    middle_at = serializers.DateTimeField(allow_null=True, help_text="the 50th")
    high_at = serializers.DateTimeField(allow_null=True, help_text="the 90th")
    until = serializers.DateTimeField(allow_null=True, help_text="how far it looked")
    draws = serializers.IntegerField(help_text="futures that it was made from")
    forecasts_known = serializers.IntegerField(help_text="earlier ranges whose real start is known")
    forecasts_held = serializers.IntegerField(help_text="those of them that held")


class StepOut(serializers.Serializer):
    """One level on the way from the root to the leaf, its children in the order in which they are served."""

    node = serializers.CharField()
    child = serializers.CharField(help_text="the one that leads on")
    siblings = LevelOut(many=True)


class NeighbourOut(serializers.Serializer):
    """Somebody who is ahead."""

    code = serializers.CharField()
    leaf = serializers.CharField()
    size_milli = serializers.IntegerField()
    place = serializers.IntegerField(allow_null=True)
    certain_at = serializers.DateTimeField(allow_null=True)


class GroupOut(serializers.Serializer):
    """Those who are ahead for one reason; of a level, theirs and mine are the children where the ways part."""

    reason = serializers.CharField()
    why = serializers.CharField(help_text="the same in words")
    theirs = serializers.CharField(allow_null=True)
    mine = serializers.CharField(allow_null=True)
    count = serializers.IntegerField()
    size_milli = serializers.IntegerField()
    first = serializers.ListField(child=serializers.CharField())


class FailureOut(serializers.Serializer):
    """Why a run failed, by what it printed last, or its exit code."""

    failure_class = serializers.ChoiceField([each.value for each in FailureClass])
    origin = serializers.ChoiceField([each.value for each in Origin], help_text="own: it would happen again")
    why = serializers.CharField(help_text="the class in words")
    line = serializers.CharField(
        allow_null=True, help_text="printed, and says so; null for those who do not see inside, or where none does"
    )


class RunChargedOut(serializers.Serializer):
    """A run with its contract and charge."""

    number = serializers.IntegerField()
    state = serializers.CharField()
    size_milli = serializers.IntegerField()
    is_funded = serializers.BooleanField()
    nodes = serializers.ListField(child=serializers.CharField())
    device = serializers.IntegerField(
        allow_null=True, help_text="the index of the device of which it has a part; null: whole ones"
    )
    started_at = serializers.DateTimeField()
    running_at = serializers.DateTimeField(allow_null=True)
    contract_ends_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    end_reason = serializers.CharField(allow_blank=True)
    preempted_by = serializers.CharField(allow_null=True)
    charged_milli_s = serializers.IntegerField()
    is_saved = serializers.BooleanField(allow_null=True)
    lost_milli_s = serializers.IntegerField(allow_null=True)
    failure = FailureOut(allow_null=True, help_text="null: it did not fail, or was not judged yet")


class SideOut(serializers.Serializer):
    """One side of a comparison, at that instant."""

    node = serializers.CharField()
    used_milli_s = serializers.IntegerField()
    committed_milli_s = serializers.IntegerField(help_text=meant("committed"))
    served = serializers.ListField(child=serializers.IntegerField(), allow_null=True, help_text=meant("served"))


PreemptionOut = type(
    "PreemptionOut",
    (serializers.Serializer,),
    {
        "__doc__": "Who took it, under which rule, with both sides' numbers.",
        "__module__": __name__,
        "at": serializers.DateTimeField(),
        "run": serializers.IntegerField(allow_null=True),
        "code": serializers.CharField(),
        "reason": serializers.CharField(),
        "by": serializers.CharField(allow_null=True),
        "contract_over_for_s": serializers.IntegerField(allow_null=True),
        "took": SideOut(allow_null=True),
        "gave": SideOut(allow_null=True),
        "priorities": serializers.ListField(child=serializers.IntegerField(), allow_null=True),
        "pass": serializers.IntegerField(allow_null=True),
    },
)
"""Made like this, since `pass` is a word of Python's own."""


class DelayOut(serializers.Serializer):
    """How long was waited for one cause."""

    cause = serializers.ChoiceField([each.value for each in Cause])
    waited_s = serializers.IntegerField()
    waited_milli_s = serializers.IntegerField(help_text="times the thousandths of a device that were asked for")


class BindingOut(serializers.Serializer):
    """What keeps a workload from starting, in a sentence, and what would change it, one for each thing."""

    limit = serializers.CharField()
    changes = serializers.ListField(child=serializers.CharField())


class ExplanationOut(serializers.Serializer):
    """Why, with the numbers."""

    workload = WorkloadOut()
    as_of = serializers.DateTimeField(allow_null=True)
    promised_at = serializers.DateTimeField(allow_null=True)
    certain_at = serializers.DateTimeField(allow_null=True)
    forecast = ForecastOut(allow_null=True)
    levels = StepOut(many=True)
    ahead = NeighbourOut(many=True, help_text="the first of them")
    ahead_count = serializers.IntegerField()
    ahead_by_reason = GroupOut(many=True)
    runs = RunChargedOut(many=True)
    preemptions = PreemptionOut(many=True)
    delays = DelayOut(many=True, help_text="what it has waited for, over all its waits")
    charged_milli_s = serializers.IntegerField()
    window_s = serializers.IntegerField(help_text="the lookback that the numbers are of")
    binding = BindingOut(allow_null=True, help_text="of one that waits and was looked at by a pass")


class TakesFromOut(serializers.Serializer):
    """Whom it would take devices from, and by which rule."""

    workload = serializers.CharField()
    rule = serializers.CharField()


class OutcomeOut(serializers.Serializer):
    """What would become of it."""

    size_milli = serializers.IntegerField()
    min_runtime_s = serializers.IntegerField()
    action = serializers.CharField()
    code = serializers.CharField()
    reason = serializers.CharField()
    nodes = serializers.ListField(child=serializers.CharField())
    takes_from = TakesFromOut(many=True)
    place = serializers.IntegerField(allow_null=True)
    certain_at = serializers.DateTimeField(allow_null=True)
    room_at = serializers.DateTimeField(allow_null=True)


class TriedOut(serializers.Serializer):
    """What a pass would do right now: as it is, and with what was tried."""

    at = serializers.DateTimeField()
    waiting = serializers.IntegerField()
    as_it_is = OutcomeOut()
    tried = OutcomeOut()


class PreemptedOut(serializers.Serializer):
    """One preemption: the stored decision, and what it cost."""

    workload = WorkloadOut()
    decision = PreemptionOut()
    run = RunChargedOut()
    safe_s = serializers.IntegerField()
    open_s = serializers.IntegerField()
    saved_s = serializers.IntegerField()
    lost_milli_s = serializers.IntegerField(allow_null=True)
    next_run = RunChargedOut(allow_null=True)
    forecast = ForecastOut(allow_null=True)
