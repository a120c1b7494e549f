"""What a view of a timeline comes to in numbers: the table beside the drawing, and its sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .timeline import INTERRUPTIBLE, TO_COME, UNALLOCATED, Bar, Team, Timeline, parts_of, was_taken
from .timeline_cells import View

MILLI_S_PER_HOUR = 3_600_000


class TeamLine(NamedTuple):
    """What a team held in a view; `interruptible_milli_s` is the part of it that others could have had."""

    team: Team
    held_milli_s: int
    interruptible_milli_s: int
    unallocated_milli_s: int
    runs: int
    taken: int


class Sum(NamedTuple):
    """A whole view. `known_milli_s` is what its devices could have been held until where what is known ends."""

    known_milli_s: int
    held_milli_s: int
    unallocated_milli_s: int
    runs: int
    taken: int


def by_team(teams: Sequence[Team], bars: Iterable[Bar], view: View, now_s: int) -> list[TeamLine]:
    """A line for each team that held anything in the view, in the order of the teams."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    runs: dict[int, set[int]] = defaultdict(set)
    taken: dict[int, set[int]] = defaultdict(set)
    for bar in bars:
        runs[bar.team].add(bar.run)
        if was_taken(bar) and bar.end_s is not None and bar.end_s <= view.until_s:
            taken[bar.team].add(bar.run)
        for kind, from_s, until_s in parts_of(bar, now_s):
            length_s = min(until_s, view.until_s) - max(from_s, view.from_s)
            if kind == TO_COME or length_s <= 0:
                continue
            found = sums[bar.team]
            found[0] += length_s * bar.size_milli
            found[1] += length_s * bar.size_milli if kind in INTERRUPTIBLE else 0
            found[2] += length_s * bar.size_milli if kind == UNALLOCATED else 0
    return [
        TeamLine(teams[team], held, interruptible, unallocated, len(runs[team]), len(taken[team]))
        for team, (held, interruptible, unallocated) in sorted(sums.items())
    ]


def sum_of(timeline: Timeline, lines: Iterable[TeamLine], view: View) -> Sum:
    """The whole of a view."""
    lines = list(lines)
    known_s = max(0, min(view.until_s, timeline.now_s) - view.from_s)
    size_milli = sum(row.size_milli for row in timeline.rows[view.first_row : view.end_row])
    return Sum(
        known_milli_s=size_milli * known_s,
        held_milli_s=sum(line.held_milli_s for line in lines),
        unallocated_milli_s=sum(line.unallocated_milli_s for line in lines),
        runs=sum(line.runs for line in lines),
        taken=sum(line.taken for line in lines),
    )


def percent(part: int, whole: int) -> str:
    """A part in per cent with one decimal, rounded half up; a dash of nothing."""
    if not whole:
        return "–"
    tenths = (2_000 * part + whole) // (2 * whole)
    return f"{tenths // 10}.{tenths % 10}"


def hours(milli_s: int) -> str:
    """Device time in whole hours with thousands commas."""
    return f"{(2 * milli_s + MILLI_S_PER_HOUR) // (2 * MILLI_S_PER_HOUR):,}"
