"""How fast it is. `python -m benchmarks` measures everything here and keeps the table in docs/benchmarks.md.

A benchmark is a module of this package with a function `measure() -> list[Row]`; whatever is in the package is found.
One that needs what is not there raises `Missing`. What takes long is measured once; noise is named, not averaged away.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One figure of the table.

    Attributes:
        name: what was measured, in words, with its size ("live pass, whole: 4,096 GPUs, 5,000 queued").
        value: how much.
        unit: of the value and the target ("ms", "jobs/s", "MiB").
        target: the bound as text ("<= 250", ">= 8,000"); empty where there is none.
        ratio: how many times better than the target: 1 or more meets it; None without a target.
    """

    name: str
    value: float
    unit: str
    target: str = ""
    ratio: float | None = None


class Missing(Exception):
    """What a benchmark needs is not on this machine, in one line."""


def at_most(name: str, value: float, unit: str, bound: float) -> Row:
    """A figure that may not exceed its bound."""
    return Row(name, value, unit, f"<= {bound:,}", bound / value if value else float("inf"))


def at_least(name: str, value: float, unit: str, bound: float) -> Row:
    """A figure that may not fall short of its bound."""
    return Row(name, value, unit, f">= {bound:,}", value / bound)


def plain(name: str, value: float, unit: str) -> Row:
    """A figure without a target, there to be compared."""
    return Row(name, value, unit)
