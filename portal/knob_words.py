"""Knobs' values in words: as they are read, and as they are typed (portal/forms/knobs.py reads these again)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext

from portal import formats
from scheduler.engine import WORDS
from scheduler.knobs import KNOBS, UNITS, Knob, Unit

MOST_LISTED = 8
"""Of a longer list only the ends are read."""


def shown(knob: Knob, value: Any) -> str:
    """A value as `policies.effective` has it, with its unit: 7 d; 30 min, 1 h, 2 h; 60 Gbit/s; none."""
    if not knob.is_list:
        return _with_unit(knob, _one(knob, value), value)
    if not value:
        return gettext("none")
    if len(value) > MOST_LISTED and knob.type != WORDS:
        ends = _one(knob, value[0]), _one(knob, value[-1])
        said = gettext("{count} values, {first} to {last}")
        return _with_unit(knob, said.format(count=formats.count(len(value)), first=ends[0], last=ends[1]), value)
    words = [_one(knob, each) for each in value]
    # A number has commas of its own between its thousands; what runs from fast to slow has no "and".
    return _with_unit(knob, formats.joined(words) if knob.unit is Unit.DEVICE_SECONDS else ", ".join(words), value)


def typed(knob: Knob, value: Any) -> str:
    """A value as one types it: 7 d; 3250, 7200; 1/2; 0.01."""
    said = ", ".join(_typed(knob, each) for each in value) if knob.is_list else _typed(knob, value)
    return said.replace(formats.NBSP, " ")


def meaning_of(knob: Knob, value: Any) -> str:
    """What a word is that a knob may be; "" of a number."""
    return str(knob.choices.get(value, "")) if knob.choices else ""


def unit_of(knob: Knob) -> str:
    """In what one types it; "" where that is plain."""
    if knob.unit is Unit.SECONDS:
        return gettext("d, h, min, s")
    return str(UNITS[Unit.DEVICES if knob.unit is Unit.DEVICE_MILLI else knob.unit])


def only_with(knob: Knob, values: Mapping[str, Any]) -> str:
    """What it needs to have an effect, where with these values it has none: "Only with High-end classes"."""
    if knob.needs is None or knob.needs.is_met(values):
        return ""
    other = KNOBS[knob.needs.knob].title
    if not knob.needs.values:
        return gettext("Only with {knob}").format(knob=other)
    return gettext("Only with {knob}: {values}").format(knob=other, values=", ".join(sorted(knob.needs.values)))


def _one(knob: Knob, value: Any) -> str:
    if knob.unit is Unit.SECONDS:
        return formats.exact_duration(value)
    if knob.unit is Unit.DEVICE_MILLI:
        return formats.units(value)
    return formats.count(value) if isinstance(value, int) else str(value)


def _with_unit(knob: Knob, said: str, value: Any) -> str:
    if knob.unit is Unit.TIMES:
        return f"{said}×"
    if knob.unit is Unit.PERCENT:
        return f"{said}{formats.NARROW_NBSP}%"
    if knob.unit is Unit.DEVICE_MILLI:
        return f"{said}{formats.NBSP}{formats.unit_word('gpu', value)}"
    unit = "" if knob.unit in (Unit.NONE, Unit.SECONDS) else str(UNITS[knob.unit])
    return f"{said}{formats.NBSP}{unit}" if unit else said


def _typed(knob: Knob, value: Any) -> str:
    return _one(knob, value) if knob.unit in (Unit.SECONDS, Unit.DEVICE_MILLI) else str(value)
