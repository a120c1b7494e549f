"""How people write amounts and times, and how they are shown to them.

The API speaks of thousandths of a unit, thousandths times seconds, basis points, exact ratios and instants in UTC.
Here these are GPUs, GPU-hours, per cent and the time of the machine's own zone, which is always named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import click

MILLI = 1_000
HOUR_MILLI_S = 3_600 * MILLI
DASH = "–"
DAY_S = 86_400
UNIT_S = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3_600, "d": DAY_S, "w": 7 * DAY_S}
PARTS = re.compile(r"(\d+(?:\.\d+)?)\s*(sec|s|min|m|h|d|w)", re.ASCII)
CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)", re.ASCII)
"""As Slurm writes it: 2:30:00, 1-12:00:00."""
LONGEST_S = 315_360_000
UNITS = {"gpu": ("GPU", "GPUs"), "core": ("core", "cores")}


class Duration(click.ParamType):
    """90m, 2h, 1h30m, 1d, or Slurm's 1-12:00:00; 0 is none. Becomes whole seconds."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Whole seconds."""
        if isinstance(value, int):
            return value
        try:
            return seconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Amount(click.ParamType):
    """8, or 0.5 of one device, in up to three decimals. Becomes thousandths."""

    name = "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Thousandths."""
        if isinstance(value, int):
            return value
        milli = _scaled(value, MILLI)
        if milli is None or milli <= 0:
            self.fail(f"{value!r} is not a number of devices, such as 8 or 0.5", param, ctx)
        return milli


class Percent(click.ParamType):
    """40%, 40 or 12.5, up to two decimals. Becomes basis points."""

    name = "PERCENT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Basis points."""
        if isinstance(value, int):
            return value
        points = _scaled(value.rstrip("% "), 100)
        if points is None or not 0 <= points <= 10_000:
            self.fail(f"{value!r} is not a share from 0% to 100% with at most two decimals", param, ctx)
        return points


class ShareOf(click.ParamType):
    """A1=40%: a code and its share. Becomes the code and basis points."""

    name = "CODE=PERCENT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Both."""
        if isinstance(value, tuple):
            return value
        code, equals, part = value.partition("=")
        if not equals or not code.strip():
            self.fail(f"{value!r} is not a code and its share, such as A1=40%", param, ctx)
        return code.strip(), Percent().convert(part, param, ctx)


class Day(click.ParamType):
    """2026-11-30, today, yesterday, or so many days ago: 7d. Becomes a date."""

    name = "DAY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """The day, on this machine's clock."""
        if isinstance(value, date):
            return value
        today = datetime.now().astimezone().date()
        if value in ("today", "yesterday", "tomorrow"):
            return today + timedelta(days=("yesterday", "today", "tomorrow").index(value) - 1)
        ago = re.fullmatch(r"(\d{1,4})d", value, re.ASCII)
        if ago:
            return today - timedelta(days=int(ago[1]))
        try:
            return datetime.strptime(value, "%Y-%m-%d").date()  # noqa: DTZ007 - a day has no zone
        except ValueError:
            self.fail(f"{value!r} is not a day, such as 2026-11-30, yesterday or 7d (ago)", param, ctx)


class Instant(click.ParamType):
    """2026-11-30T14:00, with or without a zone (else this machine's), 14:00 (today), or so long ago: 36h."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """An instant with its zone."""
        if isinstance(value, datetime):
            return value
        now = datetime.now().astimezone()
        try:
            return now - timedelta(seconds=seconds(value))
        except ValueError:
            pass
        if re.fullmatch(r"\d{1,2}:\d\d", value, re.ASCII):
            value = f"{now.date()}T{value:0>5}"
        try:
            return parsed(value.replace(" ", "T")).astimezone()
        except ValueError:
            self.fail(f"{value!r} is not a time, such as 2026-11-30T14:00, 14:00, or 36h (ago)", param, ctx)


def seconds(text: str) -> int:
    """A duration as people write it, in whole seconds.

    Raises:
        ValueError: it can't be read, or could mean two things; the message says so.
    """
    text = text.strip().lower()
    if text == "0":
        return 0
    clock = CLOCK.fullmatch(text)
    if clock:
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        return _bounded(Fraction(days * DAY_S + hours * 3_600 + minutes * 60 + rest), text)
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        raise ValueError(f"{text!r} has no unit: say {text}m or {text}h")
    if re.fullmatch(r"\d+:\d\d", text, re.ASCII):
        first, last = text.split(":")
        raise ValueError(f"{text!r} may be hours or minutes: say {int(first)}h{last}m or {int(first)}m{last}s")
    found = PARTS.findall(text)
    if not found or PARTS.sub("", text).strip():
        raise ValueError(f"{text!r} is not a duration, such as 90m, 2h, 1h30m or 1-12:00:00")
    return _bounded(sum((Fraction(number) * UNIT_S[unit] for number, unit in found), Fraction()), text)


def _bounded(exact: Fraction, text: str) -> int:
    if exact.denominator != 1:
        raise ValueError(f"{text!r} is no whole number of seconds")
    if exact > LONGEST_S:
        raise ValueError(f"{text!r} is longer than ten years")
    return int(exact)


def _scaled(text: str, by: int) -> int | None:
    """A decimal times `by`, if that is a whole number that is not absurdly large."""
    try:
        exact = Decimal(text.strip()) if re.fullmatch(r"\s*\d{1,9}(\.\d{1,9})?\s*", text, re.ASCII) else None
    except InvalidOperation:
        return None
    if exact is None or exact * by % 1:
        return None
    return int(exact * by)


# --- shown ------------------------------------------------------------------------------------------------------------


def parsed(text: str) -> datetime:
    """An instant of the API. Python before 3.11 does not know Z."""
    return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)


def now() -> datetime:
    """This instant."""
    return datetime.now(timezone.utc)


def half_up(value: int | float | Fraction, decimals: int = 0) -> str:
    """With separated thousands and this many decimals, rounded half away from zero."""
    exact = Fraction(value)
    scaled = abs(exact) * 10**decimals
    units = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    whole, part = divmod(units, 10**decimals)
    sign = "−" if exact < 0 and units else ""
    return f"{sign}{whole:,}" + (f".{part:0{decimals}d}" if decimals else "")


def amount(milli: int) -> str:
    """Devices without their unit: 32, or 0.25."""
    whole, part = divmod(milli, MILLI)
    return f"{whole:,}" + (f".{part:03d}".rstrip("0") if part else "")


def unit(kind: str, milli: int = 0) -> str:
    """GPU or GPUs."""
    one, many = UNITS.get(kind, (kind, f"{kind}s"))
    return one if 0 < milli <= MILLI else many


def with_unit(milli: int, kind: str) -> str:
    """32 GPUs."""
    return f"{amount(milli)} {unit(kind, milli)}"


def hours(milli_s: int | Fraction | None) -> str:
    """Device time in hours: whole from 100 on, else with one decimal."""
    if milli_s is None:
        return DASH
    value = Fraction(milli_s) / HOUR_MILLI_S
    return half_up(value, 0 if abs(value) >= 100 or not value else 1)


def hours_word(kind: str) -> str:
    """GPU-hours."""
    return f"{unit(kind, MILLI)}-hours"


def ratio(pair: Sequence[int] | None) -> Fraction | None:
    """An exact ratio of the API; None where there was nothing to divide by."""
    return Fraction(pair[0], pair[1]) if pair and pair[1] else None


def percent(value: Fraction | float | None, decimals: int = 1) -> str:
    """93.2 %; a dash where it does not apply."""
    return DASH if value is None else f"{half_up(Fraction(value) * 100, decimals)} %"


def decimals_of(values: Iterable[Fraction | None]) -> int:
    """So many decimals of per cent, 1 to 4, that values which differ are told apart."""
    known = {value for value in values if value is not None}
    return next((number for number in (1, 2, 3) if len({percent(each, number) for each in known}) == len(known)), 4)


def share(points: int) -> str:
    """Basis points as 35.00 %."""
    return f"{half_up(Fraction(points, 100), 2)} %"


def duration(total_s: int | float) -> str:
    """The two largest units: 4 h 22 min, 15 min, 41 s."""
    left = max(0, int(total_s))
    minutes, rest_s = divmod(left, 60)
    hour_count, rest_min = divmod(minutes, 60)
    days, rest_h = divmod(hour_count, 24)
    if days:
        parts = [(days, "d"), (rest_h, "h")]
    elif hour_count:
        parts = [(hour_count, "h"), (rest_min, "min")]
    elif minutes:
        parts = [(minutes, "min"), (rest_s if minutes < 10 else 0, "s")]
    else:
        return f"{left} s"
    return " ".join(f"{value} {word}" for value, word in parts if value)


def contract(min_runtime_s: int) -> str:
    """The contract: 2 h, or none."""
    return duration(min_runtime_s) if min_runtime_s else "none"


def since(text: str | None, at: datetime) -> str:
    """How long ago an instant of the API was."""
    return DASH if text is None else duration((at - parsed(text)).total_seconds())


def clock(text: str | None, at: datetime) -> str:
    """The time of day of an instant of the API; with its day where that is not the day of `at`."""
    if text is None:
        return DASH
    here, today = parsed(text).astimezone(), at.astimezone().date()
    if here.date() == today:
        return f"{here:%H:%M}"
    year = "" if here.year == today.year else f" {here.year}"
    return f"{here:%a} {here.day} {here:%b}{year}, {here:%H:%M}"


def instant(text: str | None, at: datetime) -> str:
    """The time of an instant of the API with its zone: 14:20 CEST."""
    return DASH if text is None else f"{clock(text, at)} {parsed(text).astimezone():%Z}"


def zone() -> str:
    """The name of this machine's zone."""
    return f"{datetime.now().astimezone():%Z}"


def ordinal(place: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    suffix = "th" if 10 <= place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place:,}{suffix}"


def plural(number: int, one: str, many: str = "") -> str:
    """1 workload; 3 workloads."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def joined(words: Sequence[str]) -> str:
    """A, B and C."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
