"""Sweeps: one knob over several values, each value several times with work that came a little differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .fields import ScenarioError, count, duration
from .report import percentile

MOST_PARTS = 200
"""Of one sweep: values times seeds."""
DAY_S, HOUR_S = 86_400, 3_600


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob that may be swept, with its bounds (whole seconds, or a count)."""

    name: str
    title: str
    least: int
    most: int
    is_count: bool = False


KNOBS: Mapping[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob("lookback_s", "lookback", DAY_S, 28 * DAY_S),
        Knob("min_runtime_max_s", "longest contract", HOUR_S, 24 * HOUR_S),
        Knob("reservations", "reservations", 0, 16, is_count=True),
    )
}
FIGURES = ("occupancy", "delivery", "unallocated_share", "preemptions")
"""Figures of a whole outcome that a sweep's table has, beside waits."""


def read_values(knob: Knob, values: Sequence[object]) -> list[int]:
    """The values of a knob: numbers, or durations such as "7d".

    Raises:
        ScenarioError: names the value that is none, or is out of the knob's bounds, or is there twice.
    """
    found: list[int] = []
    for value in values:
        number = count(value, knob.name) if knob.is_count else duration(value, knob.name)
        if not knob.least <= number <= knob.most:
            raise ScenarioError(knob.name, f"must be from {said(knob, knob.least)} to {said(knob, knob.most)}")
        if number in found:
            raise ScenarioError(knob.name, f"has {said(knob, number)} twice")
        found.append(number)
    if not found:
        raise ScenarioError(knob.name, "needs at least one value")
    return found


def said(knob: Knob, value: int) -> str:
    """A value as people say it: "7 d", "90 min", "4"."""
    if knob.is_count:
        return str(value)
    for name, unit_s in (("d", DAY_S), ("h", HOUR_S), ("min", 60)):
        if value and value % unit_s == 0 and (name != "d" or knob.most > DAY_S):
            return f"{value // unit_s} {name}"
    return f"{value} s"


def parts(knob: Knob, values: Sequence[int], seeds: int) -> list[dict[str, Any]]:
    """The changes of a sweep, value by value and seed by seed. Seed 0 is the work as it was.

    Raises:
        ScenarioError: there would be more than MOST_PARTS.
    """
    if seeds < 1:
        raise ScenarioError("seeds", f"must be at least 1, but is {seeds}")
    if len(values) * seeds > MOST_PARTS:
        raise ScenarioError("seeds", f"{len(values)} values times {seeds} seeds are more than {MOST_PARTS} runs")
    return [{"policy": {knob.name: value}, "seed": seed} for value in values for seed in range(seeds)]


def table(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """A line for each value, in the order given, with the median and the spread over its seeds of each figure.

    Args:
        rows: (value, `comparison.figures`) of each run.

    Returns:
        {"value", "runs", name: [least, median, most] or None}; waits are named like "debug_p90_s".
    """
    by_value: dict[int, list[Mapping[str, Any]]] = {}
    for value, each in rows:
        by_value.setdefault(value, []).append(each)
    return [
        {"value": value, "runs": len(all_of_it), **{name: _spread(all_of_it, name) for name in names(all_of_it)}}
        for value, all_of_it in by_value.items()
    ]


def names(outcomes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns: figures, then waits by class."""
    classes = outcomes[0]["waits"] if outcomes else ()
    return [*FIGURES, *(f"{name}_{what}" for name in classes for what in ("median_s", "p90_s"))]


def _spread(outcomes: Sequence[Mapping[str, Any]], name: str) -> list[Any] | None:
    """Least, median (a value that occurred) and most; None where none of the runs has one."""
    if name in FIGURES:
        found = [each[name] for each in outcomes]
    else:
        class_name, _, what = name.partition("_")
        found = [each["waits"][class_name][what] for each in outcomes]
    known = [value for value in found if value is not None]
    return [min(known), percentile(known, 50), max(known)] if known else None
