"""From futures to a range: 80 % of what really comes should lie in it, and how much did is counted.

A range goes from the 10th to the 90th percentile of the futures, stretched away from their median by factors learned
on earlier forecasts whose end is known (conformal prediction). Distances are taken on a logarithmic scale, since an
hour's error means less to a wait of a day than to one of a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, log

LOW, HIGH = 0.1, 0.9
NOMINAL = 0.8
"""The part of the real starts that a range should hold."""
SCALE_S = 300
"""Waits of much less than this are all alike."""
LEAST_SPREAD = 0.05
"""On the logarithmic scale: futures that all agree may still be wrong by about so much."""
LATER = 2
"""A start after the horizon counts as one after so many horizons, where a distance is needed."""
ENOUGH = 50
"""Forecasts from which factors are learned; from fewer they are not."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """By which factors the distances from the median to both ends are multiplied."""

    low: float = 1.0
    high: float = 1.0


@dataclass(frozen=True, slots=True)
class Range:
    """Seconds from the forecast's instant; None is after its horizon."""

    low_s: int | None
    middle_s: int | None
    high_s: int | None

    def holds(self, start_s: int | None, horizon_s: int) -> bool:
        """Whether a real start lies in it; None, or one after the horizon, is "later"."""
        if start_s is None or start_s >= horizon_s:
            return self.high_s is None
        if self.low_s is None or start_s < self.low_s:
            return False
        return self.high_s is None or start_s <= self.high_s


@dataclass(frozen=True, slots=True)
class Past:
    """A forecast whose end is known: the futures as they were drawn, and the real start (None: after the horizon)."""

    kind: str
    at_s: int
    futures: Sequence[int | None]
    start_s: int | None


def quantile(futures: Sequence[int | None], part: float) -> int | None:
    """The least value that this part of the futures does not exceed (nearest rank); None for "later"."""
    known = sorted(each for each in futures if each is not None)
    index = min(len(futures) - 1, max(0, ceil(part * len(futures) - 1e-9) - 1))
    return known[index] if index < len(known) else None


def range_of(futures: Sequence[int | None], horizon_s: int, stretch: Stretch) -> Range:
    """The range that futures come to."""
    low, middle, high = (quantile(futures, part) for part in (LOW, 0.5, HIGH))
    at = _scaled(middle, horizon_s)
    below, above = _spreads(low, middle, high, horizon_s)
    return Range(
        _unscaled(at - stretch.low * below, horizon_s, down=True),
        middle,
        _unscaled(at + stretch.high * above, horizon_s, down=False),
    )


def _scaled(value_s: int | None, horizon_s: int) -> float:
    return log(SCALE_S + (LATER * horizon_s if value_s is None else value_s))


def _unscaled(value: float, horizon_s: int, *, down: bool) -> int | None:
    seconds = exp(value) - SCALE_S
    if seconds >= horizon_s:
        return None
    return max(0, int(seconds) if down else -int(-seconds // 1))


def _spreads(low: int | None, middle: int | None, high: int | None, horizon_s: int) -> tuple[float, float]:
    at = _scaled(middle, horizon_s)
    return (
        max(LEAST_SPREAD, at - _scaled(low, horizon_s)),
        max(LEAST_SPREAD, _scaled(high, horizon_s) - at),
    )


# --- learning ---------------------------------------------------------------------------------------------------------


def learn(past: Iterable[Past], horizon_s: int) -> dict[str, Stretch]:
    """Factors by class, and under "" for all together, so that a range holds NOMINAL of the real starts.

    A tenth may lie after the range; what of that tenth cannot, as ranges that are open to the future hold all that
    starts later, may lie before it. Classes with less than ENOUGH forecasts have no factors of their own.
    """
    by_kind: dict[str, list[tuple[float, float]]] = {}
    for each in past:
        scores = _scores(each, horizon_s)
        by_kind.setdefault("", []).append(scores)
        by_kind.setdefault(each.kind, []).append(scores)
    return {kind: _stretch(scores) for kind, scores in by_kind.items() if len(scores) >= ENOUGH}


def _stretch(scores: Sequence[tuple[float, float]]) -> Stretch:
    high = _tail([above for _, above in scores], HIGH)
    missed = sum(above > high for _, above in scores) / len(scores)
    return Stretch(_tail([below for below, _ in scores], NOMINAL + missed), high)


def _scores(past: Past, horizon_s: int) -> tuple[float, float]:
    """How many of its distances below, and above, the median the real start lay."""
    low, middle, high = (quantile(past.futures, part) for part in (LOW, 0.5, HIGH))
    start_s = None if past.start_s is None or past.start_s >= horizon_s else past.start_s
    off = _scaled(start_s, horizon_s) - _scaled(middle, horizon_s)
    below, above = _spreads(low, middle, high, horizon_s)
    return -off / below, off / above


def _tail(scores: Sequence[float], part: float) -> float:
    """The least factor, not below 0, that this part of the scores does not exceed."""
    ordered = sorted(scores)
    index = min(len(ordered) - 1, ceil(part * (len(ordered) + 1)) - 1)
    return max(0.0, ordered[index])


def stretch_for(kind: str, learned: Mapping[str, Stretch]) -> Stretch:
    """The factors of a class, else of all, else none."""
    return learned.get(kind) or learned.get("") or Stretch()


@dataclass(frozen=True, slots=True)
class Score:
    """How good ranges have been: of how many forecasts, how many held."""

    count: int = 0
    held: int = 0

    @property
    def part(self) -> float | None:
        """The part that held."""
        return self.held / self.count if self.count else None


def score(past: Iterable[Past], horizon_s: int, learned: Mapping[str, Stretch]) -> dict[str, Score]:
    """By class, and under "" for all: of how many forecasts the real start lay in the range."""
    found: dict[str, Score] = {"": Score()}
    for each in past:
        range_ = range_of(each.futures, horizon_s, stretch_for(each.kind, learned))
        held = range_.holds(each.start_s, horizon_s)
        for kind in ("", each.kind):
            before = found.get(kind, Score())
            found[kind] = Score(before.count + 1, before.held + held)
    return found
