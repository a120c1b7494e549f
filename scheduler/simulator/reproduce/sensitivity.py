"""What changes when an assumption of the invented laboratory is off by a quarter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.simulator.lab import Assumptions

from .table import Row

FACTORS = (0.75, 1.25)


@dataclass(frozen=True, slots=True)
class Variation:
    """One assumption multiplied.

    Attributes:
        name: of the assumption.
        factor: by which.
        assume: all of them, with that one changed.
    """

    name: str
    factor: float
    assume: Assumptions


@dataclass(frozen=True, slots=True)
class Change:
    """What a variation came to.

    Attributes:
        variation: what was varied.
        medians: each figure's median over the seeds, by the line's name.
        lost: the lines whose bounds the base kept on every seed, and the variation did not.
    """

    variation: Variation
    medians: dict[str, float | None]
    lost: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "assumption": self.variation.name,
            "factor": self.variation.factor,
            "medians": self.medians,
            "lost": list(self.lost),
        }


def variations() -> list[Variation]:
    """Each assumption a quarter less, then a quarter more."""
    base = Assumptions()
    return [Variation(each.name, factor, base.varied(each.name, factor)) for each, _ in base for factor in FACTORS]


def changes(base: Sequence[Row], varied: Sequence[tuple[Variation, Sequence[Row]]]) -> list[Change]:
    """What each came to, against the base."""
    kept = {row.line.name for row in base if row.met == len(row.values)}
    return [
        Change(
            variation,
            {row.line.name: row.median for row in rows},
            tuple(row.line.name for row in rows if row.line.name in kept and row.met < len(row.values)),
        )
        for variation, rows in varied
    ]
