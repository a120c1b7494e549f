"""Fields for what people type: durations such as "2 h 30 min", shares such as 35.00, memory such as 64 GiB, commands as
argument lists.
"""

from __future__ import annotations

import re
import shlex
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext

SECONDS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
WORDS = {
    "": "min",
    "m": "min",
    "mins": "min",
    "minute": "min",
    "minutes": "min",
    "hour": "h",
    "hours": "h",
    "sec": "s",
    "day": "d",
    "days": "d",
}
SHOWN = 60
"""So much of what was typed is said again where it can't be read."""
MEMORY = re.compile(r"(\d{1,7})[\s\u00a0]*(?:([mgt])(?:i?b)?)?", re.IGNORECASE | re.ASCII)
MIB = {"m": 1, "g": 1_024, "t": 1_024 * 1_024}
PART = re.compile(r"(\d{1,7})\s*([a-z]*)\s*")


def seconds_of(text: str) -> int:
    """Whole seconds of "2 h", "45 min", "1 h 30 min", "90" (minutes).

    Raises:
        ValueError: it is no duration.
    """
    rest, total = text.strip().lower().replace("\u00a0", " "), 0
    if not rest:
        raise ValueError("empty")
    while rest:
        match = PART.match(rest)
        unit = match and WORDS.get(match[2], match[2])
        if match is None or unit not in SECONDS:
            said = gettext("{text!r} is not a duration such as 2 h, 45 min or 1 h 30 min")
            raise ValueError(said.format(text=text[:SHOWN]))
        total += int(match[1]) * SECONDS[unit]
        rest = rest[match.end() :]
    return total


class DurationField(forms.CharField):
    """A duration in words, in whole seconds; None where it may be empty and is."""

    def to_python(self, value: Any) -> Any:
        """Seconds."""
        text = super().to_python(value)
        if not text:
            return None
        try:
            return seconds_of(text)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None


class ShareField(forms.CharField):
    """A share in per cent with at most two decimals, in basis points; a comma will do for the point."""

    def to_python(self, value: Any) -> Any:
        """Basis points."""
        text = super().to_python(value)
        if not text:
            return None
        try:
            points = Decimal(text.replace(",", ".").replace("%", "").strip()) * 100
        except ArithmeticError:  # no number, or beyond all numbers
            said = gettext("{text!r} is not a share such as 35.00").format(text=text[:SHOWN])
            raise forms.ValidationError(said) from None
        if not points.is_finite() or points != points.to_integral_value() or not 0 <= points <= 10_000:
            raise forms.ValidationError(
                gettext("{text!r} is not a share from 0.00 to 100.00 with at most two decimals").format(
                    text=text[:SHOWN]
                )
            )
        return int(points)


class UnitsField(forms.CharField):
    """An amount of whole units, or a fraction with up to three decimals, in thousandths."""

    def to_python(self, value: Any) -> Any:
        """Thousandths."""
        text = super().to_python(value)
        if not text:
            return None
        if not re.fullmatch(r"\d{1,6}(?:[.,]\d{1,3})?", text):
            raise forms.ValidationError(gettext("{text!r} is not a number such as 8").format(text=text[:SHOWN]))
        return int(Decimal(text.replace(",", ".")) * 1_000)


class MemoryField(forms.CharField):
    """Memory such as 64 GiB or 512 M, in steps of 1,024, in whole MiB; a bare number is GiB. None where it is empty."""

    def to_python(self, value: Any) -> Any:
        """MiB."""
        text = super().to_python(value)
        if not text:
            return None
        match = MEMORY.fullmatch(text.strip())
        if match is None:
            said = gettext("{text!r} is not an amount of memory such as 64 GiB or 512 MiB").format(text=text[:SHOWN])
            raise forms.ValidationError(said)
        return int(match[1]) * MIB[(match[2] or "g").lower()]


class CommandField(forms.CharField):
    """An argument list, typed as one would type it for a shell; no shell ever sees it."""

    widget = forms.Textarea

    def to_python(self, value: Any) -> Any:
        """The arguments."""
        text = super().to_python(value)
        return arguments(text) if text else []


class HiddenTextarea(forms.Textarea):
    """A text area that never shows again what was typed into it."""

    def format_value(self, value: Any) -> str:
        """Nothing."""
        return ""


class SecretsField(forms.CharField):
    """Variables as NAME=value, one a line; a dict. Values are shown to nobody, not even again to who typed them."""

    widget = HiddenTextarea

    def to_python(self, value: Any) -> Any:
        """By name."""
        found: dict[str, str] = {}
        for number, line in enumerate(str(value or "").replace("\r\n", "\n").split("\n"), 1):
            name, equals, secret = line.partition("=")
            if not line.strip():
                continue
            if not equals or not name.strip() or name.strip() in found:
                raise forms.ValidationError(
                    gettext("line {number} is not NAME=value, with another name than those above").format(number=number)
                )
            found[name.strip()] = secret.strip()
        return found


def arguments(text: str) -> list[str]:
    """The words of a command line.

    Raises:
        ValidationError: a quotation is left open.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise forms.ValidationError(
            gettext("it can't be split into arguments: {lower}").format(lower=str(error).lower())
        ) from None
