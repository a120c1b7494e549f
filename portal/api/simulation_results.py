"""What came out of a simulation, side by side, as the API gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rest_framework import serializers

from scheduler.models import Simulation, SimulationPart
from scheduler.queries import simulations as asked
from scheduler.queries.simulations import Sides


class ResultPartOut(serializers.Serializer):
    """One column: what really happened (number 0), or a variant and what is different in it."""

    number = serializers.IntegerField()
    name = serializers.CharField()
    state = serializers.CharField()
    change = serializers.DictField()


class WaitsOfPartsOut(serializers.Serializer):
    """The waits of one class of work, in each part; null where it has not finished."""

    workload_class = serializers.CharField()
    parts = serializers.ListField(child=serializers.DictField(allow_null=True))


class NodeOfPartsOut(serializers.Serializer):
    """One budget node: what was charged to it in each part, and how that differs from the base."""

    node = serializers.CharField()
    depth = serializers.IntegerField()
    charged_milli_s = serializers.ListField(child=serializers.IntegerField(allow_null=True))
    changes_milli_s = serializers.ListField(child=serializers.IntegerField(allow_null=True))
    deliveries = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text="0 to 1")


class SweepValueOut(serializers.Serializer):
    """One value of a swept knob: [least, median, most] of each figure, over the seeds that have finished."""

    value = serializers.IntegerField()
    title = serializers.CharField()
    runs = serializers.IntegerField()
    wanted = serializers.IntegerField()
    spreads = serializers.DictField()


class IntervalOut(serializers.Serializer):
    """An estimate with its 95 % interval; null bounds where so few runs tell nothing of them."""

    value = serializers.FloatField()
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    runs = serializers.IntegerField()


class MeasureOut(IntervalOut):
    """A figure, and how much more it is than under the first policy on the same work."""

    difference = IntervalOut(allow_null=True)


class PolicyOut(serializers.Serializer):
    """One policy: how many of its runs have finished, and its figures by name."""

    name = serializers.CharField()
    done = serializers.IntegerField()
    wanted = serializers.IntegerField()
    measures = serializers.DictField(child=MeasureOut(allow_null=True))


class ResultsOut(serializers.Serializer):
    """Parts side by side; of a sweep, its values; of policies over seeds, each with its intervals.

    `base` is the index of the part that the others are compared with. `again` says what the seeds after the first are:
    `invented` laboratories, arrivals `drawn` anew, work `moved` a little, or `alone`.
    """

    number = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=Simulation.Kind.values)
    state = serializers.ChoiceField(choices=Simulation.State.values)
    parts = ResultPartOut(many=True)
    base = serializers.IntegerField(allow_null=True)
    charged_milli_s = serializers.ListField(child=serializers.IntegerField(allow_null=True))
    waits = WaitsOfPartsOut(many=True)
    nodes = NodeOfPartsOut(many=True)
    off = serializers.DictField(allow_null=True, help_text="how far the replay of things as they were is off")
    sweep = SweepValueOut(many=True)
    policies = PolicyOut(many=True)
    again = serializers.CharField(allow_null=True)
    real = serializers.DictField(
        child=serializers.FloatField(allow_null=True), allow_null=True, help_text="measures of what really happened"
    )


NOTHING: Mapping[str, Any] = {
    "base": None,
    "charged_milli_s": [],
    "waits": [],
    "nodes": [],
    "off": None,
    "sweep": [],
    "policies": [],
    "again": None,
    "real": None,
}


def results_out(row: Simulation, parts: Sequence[SimulationPart]) -> dict[str, Any]:
    """ResultsOut."""
    columns = [
        {"number": part.number, "name": part.name, "state": part.state, "change": part.change or {}} for part in parts
    ]
    known: dict[str, Any] = {"number": row.pk, "kind": row.kind, "state": row.state, "parts": columns, **NOTHING}
    if row.kind == Simulation.Kind.SWEEP:
        return known | {"sweep": [_value(line) for line in asked.sweep_lines(row, parts)]}
    if row.kind == Simulation.Kind.POLICIES:
        return known | _policies(asked.policies_compared(row, parts))
    if any(part.figures for part in parts):
        return known | _sides(asked.sides(row, parts))
    return known


def _sides(sides: Sides) -> dict[str, Any]:
    return {
        "base": sides.base,
        "charged_milli_s": list(sides.charged_milli_s),
        "waits": [{"workload_class": line.name, "parts": list(line.waits)} for line in sides.waits],
        "nodes": [
            {
                "node": line.code,
                "depth": line.depth,
                "charged_milli_s": list(line.charged_milli_s),
                "changes_milli_s": list(line.changes_milli_s),
                "deliveries": list(line.deliveries),
            }
            for line in sides.nodes
        ],
        "off": sides.off,
    }


def _policies(compared: asked.PoliciesCompared) -> dict[str, Any]:
    return {
        "policies": [
            {"name": name, "done": done, "wanted": compared.seeds, "measures": line}
            for name, done, line in zip(compared.policies, compared.done, compared.lines, strict=True)
        ],
        "again": compared.again,
        "real": compared.real,
    }


def _value(line: asked.SweepLine) -> dict[str, Any]:
    return {
        "value": line.value,
        "title": line.title,
        "runs": line.runs,
        "wanted": line.wanted,
        "spreads": dict(line.spreads),
    }
