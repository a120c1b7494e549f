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


class ResultsOut(serializers.Serializer):
    """Parts side by side; of a sweep, its values. `base` is the index of the part that the others are compared with."""

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


NOTHING: Mapping[str, Any] = {"base": None, "charged_milli_s": [], "waits": [], "nodes": [], "off": None, "sweep": []}


def results_out(row: Simulation, parts: Sequence[SimulationPart]) -> dict[str, Any]:
    """ResultsOut."""
    columns = [
        {"number": part.number, "name": part.name, "state": part.state, "change": part.change or {}} for part in parts
    ]
    known: dict[str, Any] = {"number": row.pk, "kind": row.kind, "state": row.state, "parts": columns, **NOTHING}
    if row.kind == Simulation.Kind.SWEEP:
        return known | {"sweep": [_value(line) for line in asked.sweep_lines(row, parts)]}
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


def _value(line: asked.SweepLine) -> dict[str, Any]:
    return {
        "value": line.value,
        "title": line.title,
        "runs": line.runs,
        "wanted": line.wanted,
        "spreads": dict(line.spreads),
    }
