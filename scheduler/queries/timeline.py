"""Who held which devices of a cluster, in a stretch of time: the GPU timeline's bars where they are few, its cells
where they are many.

Instants are whole seconds since 1970 (UTC), so that the pure part counts as it does in simulations. Cells and their
sums are made by the database: a view of tens of thousands of runs never loads them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models import Count, Exists, OuterRef, Q

from budgets.models import BudgetNode, Cluster
from scheduler.models import WHOLE_DEVICE_MILLI, Holding, MaintenanceWindow, Node, NodeSpell, Run
from scheduler.simulator.recorded import UnfitSpell
from scheduler.simulator.timeline import Bar, Row, Shelf, Team, Timeline
from scheduler.simulator.timeline_cells import BARS_MAX, Cells, Grid, Held, View, cells, grid_of
from scheduler.simulator.timeline_figures import TeamLine, by_team

OTHER = Team("other", "Other", 0)


@dataclass(frozen=True, slots=True)
class Machine:
    """The rows of a cluster with their ids, and whose the leaves of the tree are; `team_of` goes by a leaf's id."""

    cluster: Cluster
    rows: Sequence[Row]
    node_ids: Sequence[int]
    teams: Sequence[Team]
    team_of: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Shown:
    """A view as it is drawn: either `bars` of the timeline, or `cells`, with a line for each team."""

    timeline: Timeline
    view: View
    bars: Sequence[Bar] | None
    cells: Cells | None
    lines: Sequence[TeamLine]


@dataclass(frozen=True, slots=True)
class Taken:
    """A run that was preempted in a view."""

    at: datetime
    workload: str
    leaf: BudgetNode
    size_milli: int
    nodes: Sequence[str]
    reason: str
    taker: str | None


def machine_of(cluster: Cluster, start: datetime) -> Machine:
    """The nodes that were there at some time since `start`, and all teams. Two queries.

    A team is the project that a leaf belongs to, or the leaf itself where it belongs to none.
    """
    there = Node.objects.filter(Q(retired_at=None) | Q(retired_at__gt=start), cluster=cluster)
    found = there.annotate(count=Count("devices")).order_by("name").values_list("pk", "name", "rack__name", "count")
    nodes = [each for each in found if each[3]]
    teams: list[Team] = []
    index: dict[int, int] = {}
    rows = BudgetNode.objects.order_by("path").values_list("pk", "path", "kind", "code", "name", "colour")
    for pk, path, kind, code, name, colour in rows:
        above = next((index[each] for each in path[:-1] if each in index), None)
        if above is not None and kind != BudgetNode.Kind.PROJECT:
            index[pk] = above
        elif kind in (BudgetNode.Kind.PROJECT, BudgetNode.Kind.SUBPROJECT):
            index[pk] = len(teams)
            teams.append(Team(code, name, colour))
    return Machine(
        cluster=cluster,
        rows=[Row(name, count * WHOLE_DEVICE_MILLI, rack or "") for _, name, rack, count in nodes],
        node_ids=[pk for pk, *_ in nodes],
        teams=[*teams, OTHER],
        team_of=defaultdict(lambda: len(teams), index),
    )


def show(machine: Machine, view: View, now: datetime, leaf_ids: Sequence[int] | None = None) -> Shown:
    """A view of a cluster. At most five queries, whatever is in it.

    Args:
        machine: the cluster.
        view: what to show, in seconds since 1970.
        now: where what is known ends.
        leaf_ids: only the runs of these leaves.
    """
    now_s = int(now.timestamp())
    timeline = Timeline(machine.rows, machine.teams, (), unfit_spells(machine, view, now), now_s)
    wanted = Wanted(machine, view, now_s, leaf_ids)
    if wanted.runs_at_most(BARS_MAX + 1) <= BARS_MAX:
        bars = wanted.bars()
        if len(bars) <= BARS_MAX:
            return Shown(timeline, view, bars, None, by_team(machine.teams, bars, view, now_s))
    grid = grid_of(view)
    held, taken = wanted.held(grid), wanted.taken(grid)
    sizes_milli = [row.size_milli for row in machine.rows[view.first_row : view.end_row]]
    return Shown(timeline, view, None, cells(grid, held, taken, sizes_milli, now_s), wanted.lines())


RUNS = """
    run AS MATERIALIZED (
        SELECT id, workload_id, leaf_id, funded, size_milli, end_reason, preempted_by_id,
            extract(epoch FROM started_at)::bigint AS start_s,
            extract(epoch FROM running_at)::bigint AS running_s,
            extract(epoch FROM contract_ends_at)::bigint AS contract_end_s,
            extract(epoch FROM stop_asked_at)::bigint AS told_s,
            extract(epoch FROM ended_at)::bigint AS end_s,
            ended_at < %(until)s AND (preempted_by_id IS NOT NULL OR end_reason LIKE 'preempted%%') AS was_taken
        FROM scheduler_run
        WHERE cluster_id = %(cluster)s AND started_at < %(until)s AND (ended_at IS NULL OR ended_at > %(from)s)
            AND started_at IS DISTINCT FROM ended_at {leaves}
    )
"""
"""The runs of a view, with their instants in seconds."""
LEAVES = "AND leaf_id = ANY(%(leaves)s)"
NODES = "AND h.node_id = ANY(%(nodes)s)"

ON_NODES = f"""
    place AS (
        SELECT run.id, h.node_id, sum(h.milli) AS milli
        FROM run JOIN scheduler_holding h ON h.run_id = run.id {NODES}
        GROUP BY run.id, h.node_id
    )
"""
"""What each run held of each node of the view."""
ANYWHERE = "place AS (SELECT id, NULL::bigint AS node_id, size_milli AS milli FROM run)"
"""What each run held, wherever."""

PARTS = """
    life AS (
        SELECT id, leaf_id, funded, was_taken, start_s, contract_end_s, coalesce(end_s, %(now_s)s) AS last_s,
            least(coalesce(told_s, end_s, %(now_s)s), coalesce(end_s, %(now_s)s)) AS stop_s
        FROM run
    ),
    part AS (
        SELECT id, node_id, milli, leaf_id, funded, was_taken, can_go,
            greatest(a, %(from_s)s) AS a, least(b, %(until_s)s) AS b
        FROM life JOIN place USING (id), LATERAL (VALUES
            (start_s, least(coalesce(contract_end_s, stop_s), stop_s), FALSE, funded),
            (least(coalesce(contract_end_s, stop_s), stop_s), stop_s, TRUE, funded),
            (start_s, stop_s, TRUE, NOT funded),
            (stop_s, last_s, FALSE, TRUE)
        ) AS piece (a, b, can_go, is_so)
        WHERE is_so AND least(b, %(until_s)s) > greatest(a, %(from_s)s)
    )
"""
"""The stretches of those runs, and whether others could have had them: `simulator.timeline.parts_of` in SQL."""


class Wanted:
    """The queries of one view."""

    def __init__(self, machine: Machine, view: View, now_s: int, leaf_ids: Sequence[int] | None) -> None:
        """Nothing is asked yet."""
        self._machine, self._view, self._now_s = machine, view, now_s
        self._nodes = list(machine.node_ids[view.first_row : view.end_row])
        self._is_part = len(self._nodes) < len(machine.node_ids)
        self._runs = RUNS.format(leaves="" if leaf_ids is None else LEAVES)
        self._values: dict[str, Any] = {
            "cluster": machine.cluster.pk,
            "from": datetime.fromtimestamp(view.from_s, UTC),
            "until": datetime.fromtimestamp(view.until_s, UTC),
            "from_s": view.from_s,
            "until_s": view.until_s,
            "now_s": now_s,
            "nodes": self._nodes,
            "leaves": list(leaf_ids or ()),
        }

    def _ask(self, sql: str, **more: Any) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql, {**self._values, **more})
            return cursor.fetchall()

    def runs_at_most(self, limit: int) -> int:
        """How many runs the view has; counting stops at the limit."""
        some = self._runs.replace("AS MATERIALIZED", "AS NOT MATERIALIZED")
        exists = f"WHERE EXISTS (SELECT 1 FROM scheduler_holding h WHERE h.run_id = run.id {NODES})"
        rows = f"SELECT 1 FROM run {exists if self._is_part else ''} LIMIT %(limit)s"
        return self._ask(f"WITH {some} SELECT count(*) FROM ({rows}) AS found", limit=limit)[0][0]

    def bars(self) -> list[Bar]:
        """Every bar of the view, on the very devices that its run held."""
        rows = self._ask(
            f"""
            WITH {self._runs}
            SELECT run.id, h.node_id, d.index, h.milli, run.start_s, run.running_s, run.contract_end_s, run.told_s,
                run.end_s, run.funded, run.leaf_id, w.code, run.end_reason, taker.code
            FROM run
            JOIN scheduler_holding h ON h.run_id = run.id {NODES}
            JOIN scheduler_device d ON d.id = h.device_id
            JOIN scheduler_workload w ON w.id = run.workload_id
            LEFT JOIN scheduler_workload taker ON taker.id = run.preempted_by_id
            ORDER BY run.start_s, run.id, h.node_id, d.index
            """
        )
        return joined(self._machine, rows)

    def held(self, grid: Grid) -> list[Held]:
        """What was held in each cell."""
        rows = self._ask(
            f"""
            WITH {self._runs}, {ON_NODES}, {PARTS},
            at_group AS (SELECT * FROM unnest(%(nodes)s::bigint[], %(groups)s::int[]) AS t (node_id, group_number)),
            whose AS (SELECT * FROM unnest(%(team_leaves)s::bigint[], %(team_numbers)s::int[]) AS t (leaf_id, team))
            SELECT group_number, col, team, can_go,
                sum(milli * (least(b, %(from_s)s + (col + 1) * %(width)s) - greatest(a, %(from_s)s + col * %(width)s)))
                    ::bigint
            FROM part JOIN at_group USING (node_id) LEFT JOIN whose USING (leaf_id),
                LATERAL generate_series((a - %(from_s)s) / %(width)s, (b - 1 - %(from_s)s) / %(width)s) AS col
            GROUP BY group_number, col, team, can_go
            """,
            width=grid.column_s,
            groups=[at // grid.per_group for at in range(len(self._nodes))],
            team_leaves=list(self._machine.team_of),
            team_numbers=list(self._machine.team_of.values()),
        )
        other = len(self._machine.teams) - 1
        return [
            Held(group, column, other if team is None else team, can_go, milli_s)
            for group, column, team, can_go, milli_s in rows
        ]

    def taken(self, grid: Grid) -> dict[tuple[int, int], int]:
        """How much was preempted in each cell, in thousandths."""
        rows = self._ask(
            f"""
            WITH {self._runs}
            SELECT h.node_id, (end_s - %(from_s)s) / %(width)s, sum(h.milli)
            FROM run JOIN scheduler_holding h ON h.run_id = run.id {NODES}
            WHERE was_taken AND end_s >= %(from_s)s
            GROUP BY 1, 2
            """,
            width=grid.column_s,
        )
        group_of = {node: at // grid.per_group for at, node in enumerate(self._nodes)}
        found: dict[tuple[int, int], int] = defaultdict(int)
        for node, column, milli in rows:
            found[group_of[node], column] += int(milli)
        return dict(found)

    def lines(self) -> list[TeamLine]:
        """What each team held in the view, in the order of the teams."""
        rows = self._ask(
            f"""
            WITH {self._runs}, {ON_NODES if self._is_part else ANYWHERE}, {PARTS}
            SELECT leaf_id, sum(milli * (b - a)), coalesce(sum(milli * (b - a)) FILTER (WHERE can_go), 0),
                coalesce(sum(milli * (b - a)) FILTER (WHERE can_go AND NOT funded), 0),
                count(DISTINCT id), count(DISTINCT id) FILTER (WHERE was_taken)
            FROM part GROUP BY leaf_id
            """
        )
        sums: dict[int, list[int]] = defaultdict(lambda: [0] * 5)
        for leaf, *numbers in rows:
            team = self._machine.team_of[leaf]
            sums[team] = [a + int(b) for a, b in zip(sums[team], numbers, strict=True)]
        return [TeamLine(self._machine.teams[team], *numbers) for team, numbers in sorted(sums.items())]


def unfit_spells(machine: Machine, view: View, now: datetime) -> list[UnfitSpell]:
    """When nodes of the view were not to be used, or are to be maintained. Two queries."""
    names = {pk: row.name for pk, row in zip(machine.node_ids, machine.rows, strict=True)}
    nodes = list(machine.node_ids[view.first_row : view.end_row])
    start, end = (datetime.fromtimestamp(at_s, UTC) for at_s in (view.from_s, view.until_s))
    spells = NodeSpell.objects.filter(Q(ended_at=None) | Q(ended_at__gt=start), node__in=nodes, started_at__lt=end)
    unfit = spells.exclude(state=NodeSpell.State.HEALTHY).values_list("node", "started_at", "ended_at", "state")
    found = [
        UnfitSpell(
            names[node],
            int(began.timestamp()),
            int((ended or now).timestamp()),
            "unhealthy" if state == NodeSpell.State.DRAINING else "down",
        )
        for node, began, ended, state in unfit
    ]
    windows = MaintenanceWindow.objects.filter(cancelled_at=None, node__in=nodes, starts_at__lt=end, ends_at__gt=start)
    found += [
        UnfitSpell(names[node], int(began.timestamp()), int(ended.timestamp()), "maintenance")
        for node, began, ended in windows.values_list("node", "starts_at", "ends_at")
    ]
    return sorted(found)


def last_taken(machine: Machine, view: View, leaf_ids: Sequence[int] | None, limit: int) -> list[Taken]:
    """The last runs that were preempted in a view, the latest first. Two queries."""
    nodes = list(machine.node_ids[view.first_row : view.end_row])
    start, end = (datetime.fromtimestamp(at_s, UTC) for at_s in (view.from_s, view.until_s))
    rows = Run.objects.filter(cluster=machine.cluster, ended_at__gt=start, ended_at__lt=end)
    rows = rows.filter(Q(preempted_by__isnull=False) | Q(end_reason__startswith="preempted"))
    if leaf_ids is not None:
        rows = rows.filter(leaf__in=leaf_ids)
    if len(nodes) < len(machine.node_ids):
        rows = rows.filter(Exists(Holding.objects.filter(run=OuterRef("pk"), node__in=nodes)))
    chosen = list(rows.select_related("workload", "leaf", "preempted_by").order_by("-ended_at", "-pk")[:limit])
    where: dict[int, set[str]] = defaultdict(set)
    for run, name in Holding.objects.filter(run__in=chosen).values_list("run", "node__name"):
        where[run].add(name)
    return [
        Taken(
            at=run.ended_at,  # type: ignore[arg-type]
            workload=run.workload.code,
            leaf=run.leaf,
            size_milli=run.size_milli,
            nodes=sorted(where[run.pk]),
            reason=run.end_reason,
            taker=run.preempted_by.code if run.preempted_by else None,
        )
        for run in chosen
    ]


def joined(machine: Machine, rows: Sequence[tuple[Any, ...]]) -> list[Bar]:
    """Bars of rows of devices, neighbouring devices of a run joined; parts of one device are laid beside each other."""
    index = {pk: at for at, pk in enumerate(machine.node_ids)}
    shelves: dict[tuple[int, int], Shelf] = defaultdict(lambda: Shelf(WHOLE_DEVICE_MILLI))
    bars: list[Bar] = []
    for run, node, device, milli, start_s, running_s, contract_s, told_s, end_s, funded, leaf, code, why, taker in rows:
        places = [(0, milli)] if milli == WHOLE_DEVICE_MILLI else shelves[node, device].put(start_s, end_s, milli)
        for offset, size_milli in places:
            lane_milli = device * WHOLE_DEVICE_MILLI + offset
            last = bars[-1] if bars else None
            is_next = last is not None and (last.run, last.node) == (run, index[node])
            if last is not None and is_next and last.lane_milli + last.size_milli == lane_milli:
                bars[-1] = last._replace(size_milli=last.size_milli + size_milli)
                continue
            bars.append(
                Bar(
                    index[node], lane_milli, size_milli, start_s, running_s, contract_s, told_s, end_s, funded,
                    machine.team_of[leaf], run, code, why, taker,
                )
            )  # fmt: skip
    return bars
