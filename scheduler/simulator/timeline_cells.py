"""A stretch of a timeline in few marks: cells of time and nodes, each divided among who held them.

A cell is a group of neighbouring nodes during one column of time. It is cut into lanes from top to bottom: teams in
their order, within each what can't be interrupted, what is after its contract, what is unallocated, and last what is
free. So a lane's height means a part of the devices, and nothing that held more than half a lane's worth is lost;
neighbouring equal lanes are one mark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .timeline import INSIDE, INTERRUPTIBLE, TO_COME, Bar, Timeline, parts_of, was_taken

MARKS_MAX = 9_000
"""Marks of one chart; the axis, the spells of unfit nodes and the labels are drawn beside them."""
BARS_MAX = 1_500
"""A view with no more bars than this shows each of them: six marks at most, so that there are fewer than 10,000."""
COLUMNS, GROUPS = 180, 64
"""The grid of a view that shows cells, at most; one more column where the view does not begin with one."""
FEW_COLUMNS = 90
"""Of a view whose groups are of several nodes: so there is room for two lanes, which say more than narrower columns."""
WIDTHS_S = (60, 300, 600, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800, 345_600)
"""Columns are as wide as one of these, and begin at multiples of it."""
LANES_MAX, LOOKS_MAX = 8, 48_000
"""Lanes of a group, and lanes of all cells, at most; fewer where they would be more than MARKS_MAX marks."""
LOOK_KINDS = 4
"""More than there are kinds of what is held: a team and a kind are one number."""
SAMPLED = 8
"""One group in so many is looked at to choose the number of lanes."""


class View(NamedTuple):
    """What is looked at: [from_s, until_s) on the rows [first_row, end_row)."""

    from_s: int
    until_s: int
    first_row: int
    end_row: int

    @property
    def span_s(self) -> int:
        """Its length."""
        return self.until_s - self.from_s


class Grid(NamedTuple):
    """How a view is cut: `per_group` nodes each, columns of `column_s` seconds from the view's start."""

    view: View
    groups: int
    per_group: int
    columns: int
    column_s: int


class Held(NamedTuple):
    """How long how much was held in a cell: INSIDE (safe), OVER or UNALLOCATED; `team` is an index."""

    group: int
    column: int
    team: int
    kind: int
    milli_s: int


class Mark(NamedTuple):
    """A lane's piece of equal cells: columns [from_column, until_column) of one lane of one group."""

    group: int
    lane: int
    from_column: int
    until_column: int
    team: int
    kind: int


@dataclass(frozen=True, slots=True)
class Cells:
    """The marks of a view. `taken` is what was preempted there: thousandths by (group, column)."""

    grid: Grid
    lanes: int
    marks: Sequence[Mark]
    taken: Mapping[tuple[int, int], int]


def whole(timeline: Timeline) -> View:
    """All rows from the start, or the first bar before it, to the end."""
    first_s = min((bar.start_s for bar in timeline.bars), default=0)
    return View(min(0, first_s), max(timeline.now_s, 1), 0, len(timeline.rows))


def bars_in(timeline: Timeline, view: View) -> list[Bar]:
    """The bars of a view; a contract still to come counts as part of its bar."""
    found = []
    for bar in timeline.bars:
        if bar.start_s >= view.until_s:
            break
        end_s = max(timeline.now_s, bar.contract_end_s or 0) if bar.end_s is None else bar.end_s
        if end_s > view.from_s and view.first_row <= bar.node < view.end_row:
            found.append(bar)
    return found


def grid_of(view: View) -> Grid:
    """How a view is cut, widened to whole columns: at most GROUPS groups and COLUMNS + 1 columns."""
    rows = max(view.end_row - view.first_row, 1)
    per_group = -(-rows // GROUPS)
    columns_max = COLUMNS if per_group == 1 else FEW_COLUMNS
    width_s = next((each for each in WIDTHS_S if view.span_s <= each * columns_max), -(-view.span_s // columns_max))
    from_s = view.from_s // width_s * width_s
    columns = -(-(view.until_s - from_s) // width_s)
    widened = view._replace(from_s=from_s, until_s=from_s + columns * width_s)
    return Grid(widened, -(-rows // per_group), per_group, columns, width_s)


def held_in(bars: Iterable[Bar], grid: Grid, now_s: int) -> list[Held]:
    """What the bars held in each cell of a grid, exactly."""
    view, width_s = grid.view, grid.column_s
    sums: dict[tuple[int, int, int, int], int] = defaultdict(int)
    for bar in bars:
        group = (bar.node - view.first_row) // grid.per_group
        for kind, from_s, until_s in parts_of(bar, now_s):
            start_s, end_s = max(from_s, view.from_s) - view.from_s, min(until_s, view.until_s) - view.from_s
            if kind == TO_COME or end_s <= start_s:
                continue
            shown = kind if kind in INTERRUPTIBLE else INSIDE
            for column in range(start_s // width_s, (end_s - 1) // width_s + 1):
                inside_s = min(end_s, (column + 1) * width_s) - max(start_s, column * width_s)
                sums[group, column, bar.team, shown] += inside_s * bar.size_milli
    return [Held(*key, milli_s) for key, milli_s in sums.items()]


def taken_in(bars: Iterable[Bar], grid: Grid) -> dict[tuple[int, int], int]:
    """How much of what ended in each cell was preempted, in thousandths."""
    view = grid.view
    taken: dict[tuple[int, int], int] = defaultdict(int)
    for bar in bars:
        if was_taken(bar) and bar.end_s is not None and view.from_s <= bar.end_s < view.until_s:
            column = (bar.end_s - view.from_s) // grid.column_s
            taken[(bar.node - view.first_row) // grid.per_group, column] += bar.size_milli
    return dict(taken)


def cells(
    grid: Grid,
    held: Iterable[Sequence[int]],
    taken: Mapping[tuple[int, int], int],
    sizes_milli: Sequence[int],
    until_s: int,
) -> Cells:
    """The marks of a view, of what was held as `Held`, each (group, column, team, kind) once. Else as `cells_of`."""
    by_cell: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for group, column, team, kind, milli_s in held:
        by_cell[group, column][team * LOOK_KINDS + kind] = milli_s
    return cells_of(grid, by_cell, taken, sizes_milli, until_s)


def cells_of(
    grid: Grid,
    by_cell: Mapping[tuple[int, int], Mapping[int, int]],
    taken: Mapping[tuple[int, int], int],
    sizes_milli: Sequence[int],
    until_s: int,
) -> Cells:
    """The marks of a view, in as many lanes as its number of marks allows.

    Args:
        grid: how the view is cut.
        by_cell: what was held, thousandths times seconds by look, by (group, column); a look is a team's index times
            LOOK_KINDS and the kind.
        taken: what was preempted, thousandths by (group, column).
        sizes_milli: of the view's rows, in their order.
        until_s: where what is known ends; columns after it stay empty.
    """
    sizes = [sum(sizes_milli[at * grid.per_group : (at + 1) * grid.per_group]) for at in range(grid.groups)]
    devices = max(1, max(sizes, default=1) // 1_000)
    lanes = max(1, min(LANES_MAX, devices, LOOKS_MAX // max(len(by_cell), 1)))
    room = MARKS_MAX - len(taken)
    if grid.groups >= SAMPLED:  # some groups foretell how many marks all come to: most lanes are drawn once
        some = range(0, grid.groups, SAMPLED)
        foretold = len(_marks(grid, by_cell, lanes, sizes, until_s, some)) * grid.groups // len(some)
        lanes = max(1, min(lanes, lanes * room // max(foretold, 1)))
    while True:
        marks = _marks(grid, by_cell, lanes, sizes, until_s, range(grid.groups))
        if lanes == 1 or len(marks) <= room:
            return Cells(grid, lanes, marks, taken)
        lanes = max(1, min(lanes - 1, lanes * room // len(marks)))


def _marks(
    grid: Grid,
    by_cell: Mapping[tuple[int, int], Mapping[int, int]],
    lanes: int,
    sizes_milli: Sequence[int],
    until_s: int,
    groups: Iterable[int],
) -> list[Mark]:
    """The lanes of these groups, neighbours of one look merged."""
    marks: list[Mark] = []
    view, width_s = grid.view, grid.column_s
    nothing: list[int | None] = [None] * lanes
    for group in groups:
        size_milli = sizes_milli[group]
        looks, since = nothing, [0] * lanes
        for column in range(grid.columns + 1):
            known_s = min(max(until_s - view.from_s - column * width_s, 0), width_s)
            found = by_cell.get((group, column))
            now = _lanes(found, lanes, size_milli * known_s) if found and known_s else nothing
            if now == looks:
                continue
            for lane in range(lanes):
                before = looks[lane]
                if now[lane] == before:
                    continue
                if before is not None:
                    marks.append(Mark(group, lane, since[lane], column, *divmod(before, LOOK_KINDS)))
                since[lane] = column
            looks = now
    return marks


def _lanes(held: Mapping[int, int], lanes: int, whole_milli_s: int) -> list[int | None]:
    """Whose each lane of a cell is: who stands at the middle of it when all parts are laid one after the other."""
    looks: list[int | None] = [None] * lanes
    lane, filled_milli_s = 0, 0
    for look in sorted(held):
        filled_milli_s += held[look]
        while lane < lanes and (2 * lane + 1) * whole_milli_s < 2 * lanes * filled_milli_s:
            looks[lane] = look
            lane += 1
        if lane == lanes:
            break
    return looks
