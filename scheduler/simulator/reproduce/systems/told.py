"""What a system's row of the table holds, and what a system is to the command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from scheduler.simulator.lab.chance import Chance

Numbers = Mapping[str, float]
"""What one seed came to, by name."""


class SystemRow(NamedTuple):
    """One published result beside ours.

    Attributes:
        figure: what is told.
        published: as the paper says it; empty where it says nothing.
        ours: the same here; "–" where it can't be measured here.
        kept: whether ours keeps the bound that `bound` tells; None where there is none.
        bound: in words; empty for none.
        remark: why they differ, or what they hang on.
    """

    figure: str
    published: str
    ours: str
    kept: bool | None = None
    bound: str = ""
    remark: str = ""


class System(NamedTuple):
    """One published system.

    Attributes:
        title: its name and where it was published.
        seeds: how many are run.
        run: one seed; its numbers.
        rows: from the numbers of all seeds, in order; their names are those of `run`.
    """

    title: str
    seeds: int
    run: Callable[[Chance], Numbers]
    rows: Callable[[Sequence[Numbers]], list[SystemRow]]


def nothing(chance: Chance) -> Numbers:
    """For a system of which nothing is drawn at random."""
    return {}


def medians(found: Sequence[Numbers]) -> dict[str, float]:
    """Of each number over the seeds."""
    return {name: median(each[name] for each in found) for name in found[0]}


def spread(found: Sequence[Numbers], name: str, say: Callable[[float], str]) -> str:
    """The median of a number, and from the least to the most of all seeds."""
    values = [each[name] for each in found]
    return f"{say(median(values))} ({say(min(values))} to {say(max(values))})"


def times(value: float) -> str:
    """A ratio."""
    return f"{value:.2f}x"


def percent(part: float) -> str:
    """A part of one."""
    return f"{100 * part:.0f} %"
