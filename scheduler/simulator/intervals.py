"""What several runs say of a figure: an estimate with its 95 % interval, and how two policies differ on the same work.

Where each seed is work of its own (invented laboratories, work that came a little differently), the estimate is their
mean, with Student's interval for it, which narrows with more seeds. Where one history was drawn anew, the estimate is
what that history came to, and the interval comes from the spread of what the drawn ones came to (Efron's standard error
of the bootstrap): more seeds make it surer, not narrower, as there still is only the one history.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple


class Again(StrEnum):
    """What the seeds after the first are."""

    INVENTED = "invented"
    """Each a laboratory of its own."""
    DRAWN = "drawn"
    """The first's arrivals drawn anew (`resampled`)."""
    MOVED = "moved"
    """The first's work come a little differently (`variants.jittered`)."""
    ALONE = "alone"
    """There are none."""


class Interval(NamedTuple):
    """An estimate, and the bounds of its 95 % interval; None where so few runs tell nothing of it."""

    value: float
    low: float | None
    high: float | None
    runs: int


T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t at 97.5 %, for 1, 2, 3 ... degrees of freedom."""


def t_975(degrees: int) -> float:
    """Student's t at 97.5 %; beyond the table within a thousandth."""
    return T_975[degrees - 1] if degrees <= len(T_975) else 1.96 + 2.37 / degrees + 2.8 / degrees**2


def interval(values: Sequence[float | None], again: Again) -> Interval | None:
    """What runs say of a figure.

    Args:
        values: by seed; the first is the work as it is. None where a run had nothing to measure.
        again: what the seeds after the first are.
    """
    if again is Again.DRAWN:
        if not values or values[0] is None:
            return None
        drawn = [value for value in values[1:] if value is not None]
        half = t_975(len(drawn) - 1) * stdev(drawn) if len(drawn) > 1 else None
        return _around(values[0], half, len(drawn) + 1)
    known = [value for value in values if value is not None]
    if not known:
        return None
    half = t_975(len(known) - 1) * stdev(known) / sqrt(len(known)) if len(known) > 1 else None
    return _around(fmean(known), half, len(known))


def difference(values: Sequence[float | None], base: Sequence[float | None], again: Again) -> Interval | None:
    """How much more a figure is than under another policy, seed by seed on the same work."""
    pairs = zip(values, base, strict=True)
    return interval([None if one is None or other is None else one - other for one, other in pairs], again)


def _around(value: float, half: float | None, runs: int) -> Interval:
    return Interval(value, None, None, runs) if half is None else Interval(value, value - half, value + half, runs)
