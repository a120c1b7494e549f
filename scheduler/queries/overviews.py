"""What the timelines of a large simulation look like at first, kept when it is over: reading it takes no runs.

An overview shows all nodes over the time of all variants. Looking closer reads the runs. Teams are as they were when it
was made.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.models import Simulation, SimulationPart
from scheduler.queries.timeline import teams_by_code
from scheduler.simulator.recorded import UnfitSpell, unpack
from scheduler.simulator.timeline import Row, Team, Timeline, of_recorded, teams_of
from scheduler.simulator.timeline_cells import (
    BARS_MAX,
    Cells,
    Mark,
    View,
    bars_in,
    cells,
    grid_of,
    held_in,
    taken_in,
    whole,
)
from scheduler.simulator.timeline_figures import TeamLine, by_team

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Overview:
    """One variant: the timeline without its bars, its marks, and a line for each team."""

    timeline: Timeline
    view: View
    cells: Cells
    lines: Sequence[TeamLine]


def timeline_of(part: SimulationPart, *, is_real: bool) -> Timeline:
    """The runs of a variant, its teams as the portal's pages know them where they are real. At most one query."""
    recorded = unpack(bytes(part.runs or b""))
    known = teams_by_code(list(recorded.parents)) if is_real else None
    return of_recorded(recorded, *(known or teams_of(recorded.parents)))


def keep(simulation: Simulation) -> int:
    """Store the overviews of a simulation that is over, if it has more runs than are drawn one by one. How many."""
    parts = list(SimulationPart.objects.filter(simulation=simulation, runs__isnull=False).order_by("number"))
    found = [timeline_of(part, is_real=simulation.from_at is not None) for part in parts]
    if all(len(each.bars) <= BARS_MAX for each in found):
        return 0
    wholes = [whole(each) for each in found]
    view = View(
        min(each.from_s for each in wholes),
        max(each.until_s for each in wholes),
        0,
        max(each.end_row for each in wholes),
    )
    for part, timeline in zip(parts, found, strict=True):
        SimulationPart.objects.filter(pk=part.pk).update(overview=pack(overview_of(timeline, view)))
    return len(parts)


def overview_of(timeline: Timeline, view: View) -> Overview:
    """A timeline over a view, in cells."""
    grid = grid_of(view)
    bars = bars_in(timeline, grid.view)
    sizes_milli = [row.size_milli for row in timeline.rows[view.first_row : view.end_row]]
    held = held_in(bars, grid, timeline.now_s)
    found = cells(grid, held, taken_in(bars, grid), sizes_milli, timeline.now_s)
    lines = by_team(timeline.teams, bars, grid.view, timeline.now_s)
    return Overview(Timeline(timeline.rows, timeline.teams, (), timeline.unfit, timeline.now_s), view, found, lines)


def pack(found: Overview) -> bytes:
    """The stored form: zlib-compressed JSON."""
    index = {team: at for at, team in enumerate(found.timeline.teams)}
    stored = {
        "format": FORMAT,
        "rows": found.timeline.rows,
        "teams": found.timeline.teams,
        "unfit": found.timeline.unfit,
        "now": found.timeline.now_s,
        "view": found.view,
        "lanes": found.cells.lanes,
        "marks": found.cells.marks,
        "taken": [[*cell, milli] for cell, milli in found.cells.taken.items()],
        "lines": [[index[line.team], *line[1:]] for line in found.lines],
    }
    return zlib.compress(json.dumps(stored, separators=(",", ":")).encode())


def unpacked(stored: bytes) -> Overview | None:
    """What `pack` stored; None if it is of another format."""
    said = json.loads(zlib.decompress(stored))
    if said["format"] != FORMAT:
        return None
    teams = [Team(*each) for each in said["teams"]]
    rows, unfit = [Row(*each) for each in said["rows"]], [UnfitSpell(*each) for each in said["unfit"]]
    view = View(*said["view"])
    taken = {(group, column): milli for group, column, milli in said["taken"]}
    return Overview(
        timeline=Timeline(rows, teams, (), unfit, said["now"]),
        view=view,
        cells=Cells(grid_of(view), said["lanes"], [Mark(*each) for each in said["marks"]], taken),
        lines=[TeamLine(teams[team], *rest) for team, *rest in said["lines"]],
    )
