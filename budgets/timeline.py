"""A node's share over time, as plain values: half-open spells of days with whole basis points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True)
class Spell:
    """Basis points on the days [start, end); no end is "for good"."""

    start: date
    end: date | None
    basis_points: int

    def holds_on(self, day: date) -> bool:
        """Whether the day lies in it."""
        return self.start <= day and (self.end is None or day < self.end)


def overlay(spells: Iterable[Spell], new: Spell) -> list[Spell]:
    """The spells with `new` laid over them: what it covers is replaced, the rest stays; neighbours of equal
    value are joined, and spells of 0 are left out (no share and a share of 0 are the same).
    """
    pieces = [new]
    for old in spells:
        if old.start < new.start:
            pieces.append(Spell(old.start, _earlier(old.end, new.start), old.basis_points))
        if new.end is not None and (old.end is None or old.end > new.end):
            pieces.append(Spell(max(old.start, new.end), old.end, old.basis_points))
    joined: list[Spell] = []
    for piece in sorted((piece for piece in pieces if piece.basis_points), key=lambda piece: piece.start):
        last = joined[-1] if joined else None
        if last and last.end == piece.start and last.basis_points == piece.basis_points:
            joined[-1] = Spell(last.start, piece.end, piece.basis_points)
        else:
            joined.append(piece)
    return joined


def sums(timelines: Iterable[Iterable[Spell]]) -> list[tuple[date, int]]:
    """The sum over all timelines from each day on which it can change, in the order of the days."""
    flat = [spell for timeline in timelines for spell in timeline]
    days = sorted({spell.start for spell in flat} | {spell.end for spell in flat if spell.end})
    return [(day, sum(spell.basis_points for spell in flat if spell.holds_on(day))) for day in days]


def _earlier(end: date | None, day: date) -> date:
    return day if end is None else min(end, day)
