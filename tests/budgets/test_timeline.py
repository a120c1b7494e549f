"""Spells of days, beside a plain table with a row for each day."""

from __future__ import annotations

import itertools
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from budgets.timeline import Spell, overlay, sums

FIRST = date(2026, 3, 20)
DAYS = [FIRST + timedelta(days=n) for n in range(20)]


@st.composite
def spells(draw: st.DrawFn) -> Spell:
    """A spell that begins within the table, with or without an end."""
    start = draw(st.integers(0, 15))
    length = draw(st.none() | st.integers(1, 10))
    end = None if length is None else FIRST + timedelta(days=start + length)
    return Spell(FIRST + timedelta(days=start), end, draw(st.integers(0, 3)))


def on(timeline: list[Spell], day: date) -> int:
    """The one value that holds on the day."""
    found = [spell.basis_points for spell in timeline if spell.holds_on(day)]
    assert len(found) <= 1
    return found[0] if found else 0


@given(st.lists(spells(), max_size=8))
def test_later_entries_replace_earlier_ones_on_their_days_only(entries: list[Spell]) -> None:
    timeline: list[Spell] = []
    table = dict.fromkeys(DAYS, 0)
    for entry in entries:
        timeline = overlay(timeline, entry)
        table.update({day: entry.basis_points for day in DAYS if entry.holds_on(day)})
    assert {day: on(timeline, day) for day in DAYS} == table
    for left, right in itertools.pairwise(timeline):
        assert left.end is not None
        assert left.end < right.start or left.basis_points != right.basis_points  # joined where it can be
    assert all(spell.basis_points for spell in timeline)


@given(st.lists(st.lists(spells(), max_size=4), max_size=4))
def test_sums_hold_from_each_change_to_the_next(entries: list[list[Spell]]) -> None:
    timelines = []
    for each in entries:
        timeline: list[Spell] = []
        for entry in each:
            timeline = overlay(timeline, entry)
        timelines.append(timeline)
    stepped = sums(timelines)
    for day in DAYS:
        total = next((total for start, total in reversed(stepped) if start <= day), 0)
        assert total == sum(on(timeline, day) for timeline in timelines)
