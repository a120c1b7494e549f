"""Instants of a simulation in words, and the ticks of its time axis."""

from __future__ import annotations

from typing import NamedTuple

DAY_S, HOUR_S, MINUTE_S = 86_400, 3_600, 60
STEPS_S = (
    1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, DAY_S, 2 * DAY_S, 5 * DAY_S, 7 * DAY_S,
    14 * DAY_S, 30 * DAY_S, 90 * DAY_S, 365 * DAY_S,
)  # fmt: skip
"""Distances of ticks that people can read off."""


class Tick(NamedTuple):
    """A line across the drawing with its label; a major one begins a day."""

    at_s: int
    words: str
    is_major: bool


def duration_word(seconds: int) -> str:
    """As scenario files write it: 90s is "1m30s", 129,600 s is "1d12h"; nothing is "0"."""
    sign, rest_s = ("−" if seconds < 0 else ""), abs(seconds)
    words = ""
    for unit_s, letter in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "m"), (1, "s")):
        count, rest_s = divmod(rest_s, unit_s)
        words += f"{count}{letter}" if count else ""
    return sign + words if words else "0"


def step_of(span_s: int, ticks_max: int) -> int:
    """The least readable distance that gives no more than so many ticks."""
    return next((step_s for step_s in STEPS_S if span_s <= step_s * ticks_max), STEPS_S[-1])


def ticks_of(from_s: int, until_s: int, ticks_max: int) -> list[Tick]:
    """Ticks of simulated time in [from_s, until_s], at most so many and one."""
    step_s = step_of(until_s - from_s, ticks_max)
    first_s = -(-from_s // step_s) * step_s
    return [Tick(at_s, duration_word(at_s), at_s % DAY_S == 0) for at_s in range(first_s, until_s + 1, step_s)]
