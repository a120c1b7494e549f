"""What was published, beside what comes out here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from .figures import Figures

HOUR_S = 3_600
SCHEDULERS = ("contracts", "priority", "partition")
BySchedulers = Mapping[str, Figures]
"""The figures of one seed under each of SCHEDULERS."""


@dataclass(frozen=True, slots=True)
class Line:
    """One published figure.

    Attributes:
        name: for programs.
        label: for people.
        unit: "part" (printed in per cent), "s", "x" or "count".
        published: as text.
        least, most: the bounds that ours is to keep, either may be None.
        ours: from the figures of one seed.
        beside: the same under `priority` where that says something; None otherwise.
    """

    name: str
    label: str
    unit: str
    published: str
    least: float | None
    most: float | None
    ours: Callable[[BySchedulers], float | None]
    beside: Callable[[BySchedulers], float | None] | None = None

    def is_met(self, value: float | None) -> bool:
        """Whether a value keeps the bounds."""
        if value is None:
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


def _of(scheduler: str, name: str) -> Callable[[BySchedulers], float | None]:
    return lambda seed: seed[scheduler][name]


def _both(name: str) -> tuple[Callable[[BySchedulers], float | None], Callable[[BySchedulers], float | None]]:
    return _of("contracts", name), _of("priority", name)


def _less_than(name: str, baseline: str) -> Callable[[BySchedulers], float | None]:
    """By what part a figure is less under contracts than under a baseline."""

    def part(seed: BySchedulers) -> float | None:
        ours, theirs = seed["contracts"][name], seed[baseline][name]
        return None if ours is None or not theirs else 1 - ours / theirs

    return part


def _more_than(name: str, baseline: str) -> Callable[[BySchedulers], float | None]:
    def part(seed: BySchedulers) -> float | None:
        less = _less_than(name, baseline)(seed)
        return None if less is None else -less

    return part


LINES: Sequence[Line] = (
    Line("demand_median", "demand, median hour", "x", "2 to 3", 2, 3, *_both("demand_median")),
    Line("demand_p5", "demand, one hour in 20 has less", "x", "2", 2, None, *_both("demand_p5")),
    Line("demand_p95", "demand, one hour in 20 has more", "x", "3", None, 3, *_both("demand_p95")),
    Line("occupancy", "occupancy", "part", ">= 98 %", 0.98, None, *_both("occupancy")),
    Line("delivery", "delivery of the cluster", "part", ">= 98 %", 0.98, None, *_both("delivery")),
    Line("teams_served_well", "teams with 95 % delivered", "count", "13 of 15", 13, None, *_both("teams_served_well")),
    Line("worst_team", "delivery of the worst team", "part", ">= 90 %", 0.90, None, *_both("worst_team")),
    Line("unallocated", "unallocated, of what was held", "part", "10 to 25 %", 0.10, 0.25, *_both("unallocated")),
    Line("debug_p90_s", "debug runs, p90 wait", "s", "30 s", None, 300, *_both("debug_p90_s")),
    Line(
        "debug_p90_priority_s",
        "the same under priority",
        "s",
        "hours",
        2 * HOUR_S,
        None,
        _of("priority", "debug_p90_s"),
    ),
    Line("wait_median_s", "all, median wait", "s", "24 s", None, 60, *_both("wait_median_s")),
    Line("wait_p90_s", "all, p90 wait", "s", "", None, None, *_both("wait_p90_s")),
    Line(
        "wait_p90_less",
        "all, p90 wait less than under priority",
        "part",
        "a third",
        1 / 3,
        None,
        _less_than("wait_p90_s", "priority"),
    ),
    Line("large_p90_s", "large gangs, p90 wait", "s", "", None, None, *_both("large_p90_s")),
    Line(
        "large_p90_less",
        "large gangs, p90 wait less than under priority",
        "part",
        "no worse",
        0,
        None,
        _less_than("large_so_far_p90_s", "priority"),
    ),
    Line(
        "repairs_less",
        "repairs that need a person, less than under priority",
        "part",
        "74 %",
        0.74,
        None,
        _less_than("repairs_with_person", "priority"),
    ),
    Line(
        "bursty_more",
        "a bursty team's compute, more than with fixed slots",
        "part",
        "about 30 %",
        0.20,
        None,
        _more_than("bursty_gpu_h", "partition"),
    ),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line with ours filled in: over all seeds the median, the least, the most, and how many kept the bounds."""

    line: Line
    values: tuple[float | None, ...]
    beside: float | None

    @property
    def known(self) -> list[float]:
        """The values that there are."""
        return [value for value in self.values if value is not None]

    @property
    def median(self) -> float | None:
        """Over the seeds."""
        return median(self.known) if self.known else None

    @property
    def met(self) -> int:
        """The seeds that kept the bounds."""
        return sum(self.line.is_met(value) for value in self.values)


def table(seeds: Sequence[BySchedulers]) -> list[Row]:
    """Every published figure beside ours.

    Args:
        seeds: the figures of each seed under each scheduler.
    """
    rows = []
    for line in LINES:
        values = tuple(line.ours(seed) for seed in seeds)
        beside = None
        if line.beside is not None:
            known = [value for seed in seeds if (value := line.beside(seed)) is not None]
            beside = median(known) if known else None
        rows.append(Row(line, values, beside))
    return rows
