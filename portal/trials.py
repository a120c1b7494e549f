"""Addresses of the simulator with a knob filled in: to try it on a cluster's own last week before it is in force."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from budgets.models import Cluster
from scheduler.engine import WORDS
from scheduler.knobs import KNOBS, Knob
from scheduler.simulator import sweeps

MOST_CHARS = 1_000
"""A longer policy is none to write into an address."""
DECIMALS = 9
"""So many digits behind the point may a policy's name have."""


def of_knob(cluster: Cluster, knob: Knob, value: Any) -> str:
    """Where one sees what other values of a knob would do, beside the one in force; "" where it is not to be tried."""
    if knob.name in sweeps.KNOBS:
        return f"{reverse('new_simulation')}?{urlencode({'cluster': cluster.name, 'knob': knob.name})}"
    if not (knob.moves_order and knob.choices):
        return ""
    return _compared(cluster, [f"{knob.name}={word}" for word in knob.choices if word != value])


def of_changes(cluster: Cluster, after: Mapping[str, Any]) -> str:
    """Where one sees what these values would do together; "" where none moves the order, or one can't be written."""
    if not any(KNOBS[name].moves_order for name in after):
        return ""
    said = {name: _written(KNOBS[name], value) for name, value in after.items()}
    name = ",".join(["contracts", *(f"{knob}={text}" for knob, text in said.items())])
    return _compared(cluster, [name]) if all(said.values()) and len(name) <= MOST_CHARS else ""


def _compared(cluster: Cluster, policies: list[str]) -> str:
    return f"{reverse('compare_policies')}?{urlencode({'cluster': cluster.name, 'policy': policies}, doseq=True)}"


def _written(knob: Knob, value: Any) -> str:
    """A value as `named_policies.read` takes it; "" where it has no words for it."""
    if knob.type is Fraction:
        exact = Fraction(value) * 10**DECIMALS
        if exact.denominator != 1:
            return ""
        whole, part = divmod(exact.numerator, 10**DECIMALS)
        return f"{whole}.{part:0{DECIMALS}d}".rstrip("0").rstrip(".")
    if not knob.is_list:
        return str(value)
    is_plain = knob.type != WORDS or not any({",", "/", "="} & set(each) for each in value)
    return "/".join(str(each) for each in value) if is_plain else ""
