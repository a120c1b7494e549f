"""Variants of shares that are pinned in the reallocation editor, to be replayed beside the one that is typed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from budgets.errors import InputError
from budgets.models import WHOLE_BASIS_POINTS

MOST = 2
"""Pinned ones; with the one that is typed they are three."""
NAMES = ("variant 1", "variant 2")
TYPED = "as proposed"
"""What the variant that is typed is called."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One variant: basis points by the children's codes."""

    name: str
    shares: Mapping[str, int]


def read(text: str) -> list[Pin]:
    """The pinned variants, as `written` wrote them into the form.

    Raises:
        InputError: they were tampered with.
    """
    if not text:
        return []
    try:
        rows = json.loads(text)
        pins = [Pin(NAMES[index], _shares(row)) for index, row in enumerate(rows)]
    except (ValueError, TypeError, IndexError, AttributeError):
        raise InputError("pins", gettext("are no pinned variants")) from None
    return pins


def written(pins: Sequence[Pin]) -> str:
    """The pinned variants for the form."""
    return json.dumps([dict(pin.shares) for pin in pins]) if pins else ""


def with_one_more(pins: Sequence[Pin], shares: Mapping[str, int]) -> list[Pin]:
    """Pin these shares too.

    Raises:
        InputError: they are pinned, or there is no room.
    """
    if any(dict(pin.shares) == dict(shares) for pin in pins):
        raise InputError("pins", gettext("this variant is pinned already"))
    if len(pins) >= MOST:
        raise InputError(
            "pins",
            gettext("{most} variants are pinned already, which with the one you type are three").format(most=MOST),
        )
    return [*pins, Pin(NAMES[len(pins)], dict(shares))]


def _shares(row: Mapping[str, int]) -> dict[str, int]:
    shares = {}
    for code, points in row.items():
        if type(code) is not str or type(points) is not int or not 0 <= points <= WHOLE_BASIS_POINTS:
            raise ValueError(code)
        shares[code] = points
    return shares
