"""Past days of the GPU timeline, summed up: what was held of each node in each hour, or in each three hours.

A day's tile never changes once it is settled: what ended in it has been reported by then. `services.timeline` stores
tiles; reading takes the stored ones, and asks the runs for the days that have none (today, and what is new).
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from budgets.models import Cluster
from scheduler.models import TimelineTile
from scheduler.queries.timeline_runs import Wanted
from scheduler.simulator.timeline_cells import LOOK_KINDS, Grid
from scheduler.simulator.timeline_words import DAY_S

WIDTHS_S = (43_200, 21_600, 10_800, 3_600)
"""Columns of tiles, the widest first; a view's column is a multiple of one of them."""
HELD, TAKEN = 5, 4
"""Columns of a row of each kind (`timeline_runs.HeldRow`, `TakenRow`)."""

Rows = Iterable[Sequence[int]]
TwoKinds = tuple[Rows, Rows]
"""What was held, and what was preempted: tuples as `timeline_runs.HeldRow` and `TakenRow`."""


def width_for(column_s: int) -> int | None:
    """The columns of the tiles that a view with such columns is made of; None where tiles are too coarse."""
    return next((width_s for width_s in WIDTHS_S if column_s % width_s == 0), None)


def summed(cluster: Cluster, nodes: Sequence[int], span: tuple[int, int], width_s: int, now_s: int) -> TwoKinds:
    """What was held and what was preempted in a stretch, by node, column and leaf. Two queries."""
    wanted = Wanted(cluster, nodes, span, now_s)
    return wanted.held(width_s), wanted.taken(width_s)


def pack(held: Rows, taken: Rows) -> bytes:
    """The stored form of a tile: zlib-compressed JSON of two flat lists."""
    flat = [[value for row in rows for value in row] for rows in (held, taken)]
    return zlib.compress(json.dumps(flat, separators=(",", ":")).encode(), 1)


def unpack(stored: bytes) -> TwoKinds:
    """The rows of a tile."""
    held, taken = json.loads(zlib.decompress(stored))
    return zip(*[iter(held)] * HELD, strict=True), zip(*[iter(taken)] * TAKEN, strict=True)


class Sums:
    """The rows of a view added up in its cells."""

    def __init__(
        self, grid: Grid, nodes: Sequence[int], team_of: Mapping[int, int], leaf_ids: Sequence[int] | None
    ) -> None:
        """Nothing is in them yet.

        Args:
            grid: the view's cells.
            nodes: the ids of its rows.
            team_of: the index of each leaf's team.
            leaf_ids: only these leaves.
        """
        self._columns = grid.columns
        self._first = {node: at // grid.per_group * grid.columns for at, node in enumerate(nodes)}
        self._look_of: dict[int, int] = {}
        self._team_of = team_of
        self._leaves = None if leaf_ids is None else frozenset(leaf_ids)
        # By cell, and in it by look: a month has so many parts that tuples as keys would take their time.
        self._held: list[dict[int, int]] = [defaultdict(int) for _ in range(grid.groups * grid.columns)]
        self._taken: dict[int, int] = defaultdict(int)

    def add(self, rows: TwoKinds, shift: int = 0, step: int = 1) -> None:
        """Rows whose column 0 is the grid's column `shift / step`, and of which `step` make one of its columns."""
        columns, leaves, looks = self._columns, self._leaves, self._look_of
        first_of, held, taken = self._first.get, self._held, self._taken
        for node, column, leaf, kind, milli_s in rows[0]:
            first, at = first_of(node), (shift + column) // step
            if first is None or not 0 <= at < columns:
                continue
            look = looks.get(leaf)
            if look is None:
                is_wanted = leaves is None or leaf in leaves
                look = looks[leaf] = self._team_of[leaf] * LOOK_KINDS if is_wanted else -1
            if look >= 0:
                held[first + at][look + kind] += milli_s
        for node, column, leaf, milli in rows[1]:
            first, at = first_of(node), (shift + column) // step
            if first is not None and 0 <= at < columns and (leaves is None or leaf in leaves):
                taken[first + at] += milli

    def by_cell(self) -> dict[tuple[int, int], dict[int, int]]:
        """What was held in each cell: thousandths times seconds by look, by (group, column), where a look is a team's
        index times LOOK_KINDS and the kind.
        """
        return {divmod(at, self._columns): cell for at, cell in enumerate(self._held) if cell}

    def totals(self) -> dict[tuple[int, int], int]:
        """What was held in the whole view, by team and kind."""
        totals: dict[int, int] = {}
        known = totals.get
        for cell in self._held:
            for look, milli_s in cell.items():
                totals[look] = known(look, 0) + milli_s
        return {divmod(look, LOOK_KINDS): milli_s for look, milli_s in totals.items()}

    def taken(self) -> dict[tuple[int, int], int]:
        """What was preempted, thousandths by (group, column)."""
        return {divmod(cell, self._columns): milli for cell, milli in self._taken.items()}


def read_into(sums: Sums, cluster: Cluster, nodes: Sequence[int], grid: Grid, now_s: int) -> None:
    """Add up a view. One query, and two for each gap between stored days.

    Args:
        sums: where to.
        cluster: whose.
        nodes: all of its nodes.
        grid: the view, in columns that are a multiple of a tile's.
        now_s: where what is known ends.
    """
    view, width_s = grid.view, width_for(grid.column_s)
    assert width_s is not None
    first, last = view.from_s // DAY_S, (view.until_s - 1) // DAY_S
    tiles = TimelineTile.objects.filter(cluster=cluster, width_s=width_s, day__range=(first, last))
    stored = dict(tiles.values_list("day", "rows"))
    step = grid.column_s // width_s
    gap: int | None = None
    for day in range(first, last + 2):
        if day <= last and day not in stored:
            gap = day if gap is None else gap
            continue
        if gap is not None:
            span = (max(gap * DAY_S, view.from_s), min(day * DAY_S, view.until_s, now_s + 1))
            if span[1] > span[0]:
                rows = summed(cluster, nodes, span, width_s, now_s)
                sums.add(rows, (span[0] - view.from_s) // width_s, step)
            gap = None
        if day in stored:
            sums.add(unpack(bytes(stored[day])), (day * DAY_S - view.from_s) // width_s, step)
