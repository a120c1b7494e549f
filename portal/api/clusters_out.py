"""What the API takes and gives of clusters, their policy and their passes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from django.conf import settings
from django.utils import translation
from rest_framework import serializers

from budgets.models import Cluster
from portal.api.problems import Strict
from portal.api.serializers import moment
from scheduler.engine import WORDS
from scheduler.knobs import KNOBS, UNITS, Knob
from scheduler.models import Decision, EmergencyStop, Pass, PolicyVersion, RolloutStep
from scheduler.services import policies
from scheduler.services.emergency import REASON_MAX_CHARS
from scheduler.services.policies import MARGIN_MAX_CHARS
from scheduler.services.rollout import Mode

# --- what it takes ----------------------------------------------------------------------------------------------------


class StopIn(Strict):
    """Why, in a sentence: owners read it."""

    reason = serializers.CharField(max_length=REASON_MAX_CHARS)


def _knob(knob: Knob, *, is_given: bool) -> serializers.Field:
    """One knob, as it is given or taken."""
    said = _about(knob)
    more: dict[str, Any] = {"help_text": said} if is_given else {"help_text": said, "required": False}
    if knob.type in (Fraction, str):
        return serializers.CharField(max_length=MARGIN_MAX_CHARS if knob.type is Fraction else 40, **more)
    bound: dict[str, Any] = {} if is_given else {"min_value": 0, "max_value": policies.most_of(knob.name)}
    if knob.type == WORDS:
        return serializers.ListField(child=serializers.CharField(max_length=40), **more)
    if knob.is_list:
        return serializers.ListField(child=serializers.IntegerField(**bound), **more)
    return serializers.IntegerField(**bound, **more)


def _about(knob: Knob) -> str:
    """What it is, in the language of the description, whoever asks first."""
    with translation.override(settings.LANGUAGE_CODE):
        said = f"{knob.title}. {knob.meaning} "
        if knob.choices:
            said += "; ".join(f"`{word}`: {meaning}" for word, meaning in knob.choices.items()) + ". "
        unit = f"In {UNITS[knob.unit]}; " if knob.unit else ""
        return f"{said}{unit}{json.dumps(policies.DEFAULTS[knob.name])} unless changed."


def _knobs(name: str, base: type[serializers.Serializer], doc: str, *, is_given: bool) -> type[serializers.Serializer]:
    """A serializer with a field for each knob of the engine's policy."""
    found = {each.name: _knob(each, is_given=is_given) for each in KNOBS.values()}
    return type(name, (base,), {"__doc__": doc, "__module__": __name__, **found})


KNOBS_SAID = "Knobs of a policy. Durations are whole seconds; `swap_margin` is text such as `1/2`."
KnobsIn = _knobs("KnobsIn", Strict, KNOBS_SAID, is_given=False)
KnobsOut = _knobs("KnobsOut", serializers.Serializer, KNOBS_SAID, is_given=True)


class PolicyIn(Strict):
    """Other values of some knobs, from the next pass on; those not named keep theirs."""

    knobs = KnobsIn()
    reason = serializers.CharField(max_length=2_000)
    version = serializers.IntegerField(min_value=1, max_value=2**31 - 1, required=False)


# --- what it gives ----------------------------------------------------------------------------------------------------


class StopOut(serializers.Serializer):
    """The emergency stop that a cluster is under."""

    since = serializers.DateTimeField()
    by = serializers.CharField()
    reason = serializers.CharField()


class RulesStepOut(serializers.Serializer):
    """Other rules that are planned."""

    rules = serializers.ChoiceField(Mode.values)
    from_at = serializers.DateTimeField()


class ClusterOut(serializers.Serializer):
    """A cluster. `rules` are `contracts`, or `shadow`: decided and shown, and nothing is started.

    While `stopped` is there nothing starts either: an operator has stopped it.
    """

    name = serializers.CharField()
    title = serializers.CharField(allow_blank=True)
    unit = serializers.CharField()
    model = serializers.CharField(allow_blank=True)
    executor = serializers.ChoiceField(Cluster.Executor.values)
    rules = serializers.ChoiceField(Mode.values)
    next_rules = RulesStepOut(allow_null=True)
    size_milli = serializers.IntegerField()
    stopped = StopOut(allow_null=True)


class FiguresOut(serializers.Serializer):
    """A cluster now. `in_contract` can't be taken over, `interruptible` can; amounts in thousandths of the unit."""

    healthy_milli = serializers.IntegerField()
    held_milli = serializers.IntegerField()
    in_contract_milli = serializers.IntegerField()
    interruptible_milli = serializers.IntegerField()
    waiting_funded = serializers.IntegerField()
    waiting_funded_milli = serializers.IntegerField()
    waiting_unallocated = serializers.IntegerField()
    waiting_unallocated_milli = serializers.IntegerField()
    held_workloads = serializers.IntegerField()


class ClusterDetailOut(ClusterOut):
    """A cluster with its figures, its last pass, and the version of its policy."""

    figures = FiguresOut()
    last_pass_at = serializers.DateTimeField(allow_null=True)
    last_pass = serializers.IntegerField(allow_null=True)
    policy_version = serializers.IntegerField()


class StoppedOut(serializers.Serializer):
    """What an emergency stop, or its end, did."""

    changed = serializers.BooleanField(help_text="false: it was so already")
    stopped_runs = serializers.IntegerField(help_text="runs that were told to stop")
    cluster = ClusterOut()


class VersionOut(serializers.Serializer):
    """One version of a policy; `changed` are the knobs that differ from the defaults."""

    version = serializers.IntegerField()
    made_at = serializers.DateTimeField()
    made_by = serializers.CharField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    ledger_entry = serializers.IntegerField(allow_null=True, help_text="its number in the ledger; none for the system")
    changed = serializers.DictField()


class PolicyOut(serializers.Serializer):
    """The policy in force. Its ETag is its version: send it with a change."""

    cluster = serializers.CharField()
    version = serializers.IntegerField()
    made_at = serializers.DateTimeField()
    made_by = serializers.CharField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    knobs = KnobsOut()
    history = VersionOut(many=True, help_text="the last 20 versions, the latest first")


class PassOut(serializers.Serializer):
    """One pass of the engine."""

    number = serializers.IntegerField()
    at = serializers.DateTimeField()
    policy_version = serializers.IntegerField()
    engine_version = serializers.CharField()
    event_mark = serializers.IntegerField(help_text="it saw the cluster's events up to this one")
    considered = serializers.IntegerField(help_text="waiting workloads in its order, at most 200")
    is_shadow = serializers.BooleanField(help_text="nothing of it was carried out")
    load_ms = serializers.IntegerField()
    decide_ms = serializers.IntegerField()
    apply_ms = serializers.IntegerField()


class DecisionOut(serializers.Serializer):
    """What a pass decided about one workload, where that was news."""

    workload = serializers.CharField()
    action = serializers.CharField()
    code = serializers.CharField()
    reason = serializers.CharField(allow_blank=True)
    numbers = serializers.DictField(help_text="the numbers behind it")
    run = serializers.IntegerField(allow_null=True)
    by = serializers.CharField(allow_null=True, help_text="who took the devices")
    place = serializers.IntegerField(allow_null=True)


class PassDetailOut(PassOut):
    """A pass with its order, the figures that made it, and what it decided."""

    order = serializers.ListField(child=serializers.CharField())
    figures = serializers.DictField()
    decisions = DecisionOut(many=True, help_text="at most 1,000")


def stop(row: EmergencyStop | None) -> dict[str, Any] | None:
    """StopOut."""
    if row is None:
        return None
    return {"since": moment(row.started_at), "by": row.started_by.username, "reason": row.reason}


def cluster(
    row: Cluster, size_milli: int, rules: tuple[Mode, RolloutStep | None], stopped: EmergencyStop | None
) -> dict[str, Any]:
    """ClusterOut."""
    mode, following = rules
    return {
        "name": row.name,
        "title": row.title,
        "unit": row.unit,
        "model": row.model,
        "executor": row.executor,
        "rules": str(mode),
        "next_rules": None if following is None else {"rules": following.mode, "from_at": moment(following.starts_at)},
        "size_milli": size_milli,
        "stopped": stop(stopped),
    }


def policy(row: Cluster, versions: list[PolicyVersion]) -> dict[str, Any]:
    """PolicyOut. `versions` are the latest first."""
    latest = versions[0]
    return {
        "cluster": row.name,
        **{name: value for name, value in version(latest).items() if name not in ("changed", "ledger_entry")},
        "knobs": policies.effective(latest),
        "history": [version(each) for each in versions],
    }


def version(row: PolicyVersion) -> dict[str, Any]:
    """VersionOut."""
    return {
        "version": row.number,
        "made_at": moment(row.made_at),
        "made_by": row.made_by.username if row.made_by else None,
        "reason": row.reason,
        "ledger_entry": row.entry_id,
        "changed": row.knobs,
    }


def pass_row(row: Pass) -> dict[str, Any]:
    """PassOut."""
    return {
        "number": row.pk,
        "at": moment(row.at),
        "policy_version": row.policy.number,
        "engine_version": row.engine_version,
        "event_mark": row.event_mark,
        "considered": len(row.order),
        "is_shadow": row.shadow is not None,
        "load_ms": row.load_ms,
        "decide_ms": row.decide_ms,
        "apply_ms": row.apply_ms,
    }


def pass_detail(row: Pass, decisions: Iterable[Decision]) -> dict[str, Any]:
    """PassDetailOut."""
    return {
        **pass_row(row),
        "order": row.order,
        "figures": row.figures,
        "decisions": [decision(each) for each in decisions],
    }


def decision(row: Decision) -> dict[str, Any]:
    """DecisionOut."""
    numbers: Mapping[str, Any] = row.numbers
    return {
        "workload": row.workload.code,
        "action": row.action,
        "code": row.code,
        "reason": row.text,
        "numbers": {name: value for name, value in numbers.items() if name != "person_id"},
        "run": row.run.number if row.run else None,
        "by": row.by.code if row.by else None,
        "place": row.place,
    }
