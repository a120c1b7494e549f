"""Policies by a name that people can type: a scheduler, or contracts with some knobs, as `leaf_order=tiresias`.

Ways to place are parts of a name as knobs are: `packing=first_fit`, `fifo,packing=worst_fit`. Whatever scheduler, order
or placement is registered has its name here by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.engine import KNOB_TYPES, LEAF_ORDERS, TREE_ORDERS, WORDS, Policy

from .fields import ScenarioError
from .placements import PLACEMENTS, check_words
from .scenario import SCHEDULERS

CONTRACTS = "contracts"
SCHEDULER = "scheduler"
ORDERS = {"leaf_order": LEAF_ORDERS, "tree_order": TREE_ORDERS}
"""The knobs that choose an order, with all that they may be; the first is what a policy has if it says nothing."""
EVERY = "all"
"""Stands for all schedulers, and for contracts with each order by itself."""
EVERY_PLACEMENT = "placements"
"""Stands for contracts as they are, and with each way to place that any scenario can be run under."""
OF_CLASSES = "classes"
"""The placement that needs a scenario whose nodes have classes, and a policy that ranks them."""
STANDING = Policy()


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy: its name, what of a scenario's `policy` it sets (`scheduler` among it), and how it places."""

    name: str
    knobs: Mapping[str, Any] = field(default_factory=dict)
    placement: Mapping[str, str] = field(default_factory=dict)


def registered() -> list[NamedPolicy]:
    """Contracts as the scenario has them, with each other order by itself, then every other scheduler."""
    orders = [f"{knob}={name}" for knob, names in ORDERS.items() for name in names[1:]]
    return [read(name) for name in (CONTRACTS, *orders, *(name for name in SCHEDULERS if name != CONTRACTS))]


def placements() -> list[NamedPolicy]:
    """Contracts with each way to place by itself that is another than usual."""
    return [read(f"{word}={value}") for word, values in PLACEMENTS.items() for value in values[1:]]


def read(words: str) -> NamedPolicy:
    """A policy from its name: "fifo", "contracts,lookback_s=3d" or, under contracts, "leaf_order=tiresias".

    Without a scheduler it is contracts; what is not named stays as the scenario has it. Several values of one knob are
    divided by "/". Whether knobs' values are any good is for `variants.with_policy` to say.

    Raises:
        ScenarioError: the path is the name; a part of it is neither a scheduler nor a knob or a placement with a value.
    """
    name = ",".join(part.strip() for part in words.split(","))
    first, *rest = name.split(",")
    knobs: dict[str, Any] = {}
    placement: dict[str, str] = {}
    if "=" in first:
        rest = [first, *rest]
    elif first != CONTRACTS:
        if first not in SCHEDULERS:
            raise ScenarioError(name, f"there is no scheduler {first!r}: it must be one of {', '.join(SCHEDULERS)}")
        knobs[SCHEDULER] = first
    for part in rest:
        knob, equals, value = (each.strip() for each in part.partition("="))
        if not (knob and equals and value):
            raise ScenarioError(name, f'must be a scheduler and knobs such as "lookback_s=3d", and {part!r} is neither')
        if knob in knobs or knob in placement:
            raise ScenarioError(name, f"has {knob} twice")
        if knob in PLACEMENTS:
            placement[knob] = value
        elif knob in KNOB_TYPES:
            knobs[knob] = _value(knob, value)
        else:
            raise ScenarioError(name, f"there is no knob {knob!r}")
    try:
        check_words(placement)
    except ScenarioError as error:
        raise ScenarioError(name, str(error)) from None
    if (knobs or placement) and SCHEDULER not in knobs:
        knobs[SCHEDULER] = CONTRACTS
    return NamedPolicy(name, knobs, placement)


def read_all(names: Iterable[str]) -> list[NamedPolicy]:
    """Several, each once, in the order given; "all" stands for `registered`, "placements" for all that always can be.

    Raises:
        ScenarioError: as `read`; or one is there twice.
    """
    found: list[NamedPolicy] = []
    for words in names:
        if (several := _standing_for(words.strip())) is not None:
            found += [each for each in several if each not in found]
            continue
        policy = read(words)
        if policy in found:
            raise ScenarioError(policy.name, "is there twice")
        found.append(policy)
    return found


def _standing_for(word: str) -> list[NamedPolicy] | None:
    """The policies that a word stands for; None for a name."""
    if word == EVERY:
        return registered()
    if word == EVERY_PLACEMENT:
        return [read(CONTRACTS), *(each for each in placements() if OF_CLASSES not in each.placement)]
    return None


def _value(knob: str, text: str) -> Any:
    """As a scenario file would hold it: a list, a whole number, another number, or text such as "3d"."""
    if isinstance(getattr(STANDING, knob), tuple):
        parts = [part.strip() for part in text.split("/")]
        return parts if KNOB_TYPES[knob] == WORDS else [_number(part) for part in parts]
    return _number(text)


def _number(text: str) -> int | float | str:
    """A number where it is one; else what reads the knob says what is wrong with it."""
    if re.fullmatch(r"-?[0-9]{1,15}", text, re.ASCII):
        return int(text)
    return float(text) if re.fullmatch(r"-?[0-9]{1,9}\.[0-9]{1,9}", text, re.ASCII) else text
