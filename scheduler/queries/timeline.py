"""Who held which devices of a cluster, in a stretch of time: the GPU timeline's bars where they are few, its cells
where they are many.

Instants are whole seconds since 1970 (UTC), so that the pure part counts as it does in simulations. A view of tens of
thousands of runs never loads them: past days are read from tiles (scheduler/queries/timeline_tiles.py), in which what
each node's devices were held for is summed up; what has no tile yet is summed up by the database.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q

from budgets.models import BudgetNode, Cluster
from scheduler.models import WHOLE_DEVICE_MILLI, Holding, MaintenanceWindow, Node, NodeSpell, Reservation, Run
from scheduler.queries import timeline_tiles
from scheduler.queries.timeline_runs import Wanted
from scheduler.queries.timeline_tiles import Sums
from scheduler.simulator.entitled import UNASSIGNED
from scheduler.simulator.recorded import UnfitSpell
from scheduler.simulator.timeline import INSIDE, UNALLOCATED, Bar, Promise, Row, Shelf, Team, Timeline
from scheduler.simulator.timeline_cells import BARS_MAX, Cells, Grid, View, cells_of, grid_of
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
    teams, index, _ = _teams()
    return Machine(
        cluster=cluster,
        rows=[Row(name, count * WHOLE_DEVICE_MILLI, rack or "") for _, name, rack, count in nodes],
        node_ids=[pk for pk, *_ in nodes],
        teams=teams,
        team_of=defaultdict(lambda: len(teams) - 1, index),
    )


def teams_by_code(codes: Collection[str]) -> tuple[list[Team], dict[str, int]] | None:
    """All teams, and the index of the team of each of these budget nodes; None where some of them are not there. What a
    scenario calls unassigned is no node, and nobody's.

    One query.
    """
    teams, index, ids = _teams()
    if not all(code in ids or code.endswith(UNASSIGNED) for code in codes):
        return None
    other = len(teams) - 1
    return teams, {code: index.get(ids.get(code, 0), other) for code in codes}


def _teams() -> tuple[list[Team], dict[int, int], dict[str, int]]:
    """All teams with OTHER as the last, the index of the team of each budget node that has one, and all ids by code."""
    teams: list[Team] = []
    index: dict[int, int] = {}
    ids: dict[str, int] = {}
    rows = BudgetNode.objects.order_by("path").values_list("pk", "path", "kind", "code", "name", "colour")
    for pk, path, kind, code, name, colour in rows:
        ids[code] = pk
        above = next((index[each] for each in path[:-1] if each in index), None)
        if above is not None and kind != BudgetNode.Kind.PROJECT:
            index[pk] = above
        elif kind in (BudgetNode.Kind.PROJECT, BudgetNode.Kind.SUBPROJECT):
            index[pk] = len(teams)
            teams.append(Team(code, name, colour))
    return [*teams, OTHER], index, ids


def show(machine: Machine, view: View, now: datetime, leaf_ids: Sequence[int] | None = None) -> Shown:
    """A view of a cluster; cells widen it to whole columns. At most seven queries, and two for each gap between tiles.

    Args:
        machine: the cluster.
        view: what to show, in seconds since 1970.
        now: where what is known ends.
        leaf_ids: only the runs of these leaves.
    """
    now_s = int(now.timestamp())
    wanted = wanted_of(machine, view, now_s, leaf_ids)
    if wanted.runs_at_most(BARS_MAX + 1) <= BARS_MAX:
        bars = joined(machine, wanted.bars())
        if len(bars) <= BARS_MAX:
            spells = unfit_spells(machine, view, now)
            reserved = promises(machine, view, now_s, leaf_ids)
            timeline = Timeline(machine.rows, machine.teams, (), spells, now_s, reserved)
            return Shown(timeline, view, bars, None, by_team(machine.teams, bars, view, now_s))
    grid = grid_of(view)
    wanted = wanted_of(machine, grid.view, now_s, leaf_ids)
    sums = sums_of(machine, grid, leaf_ids)
    if timeline_tiles.width_for(grid.column_s):
        timeline_tiles.read_into(sums, machine.cluster, machine.node_ids, grid, now_s)
    else:
        sums.add((wanted.held(grid.column_s), wanted.taken(grid.column_s)))
    sizes_milli = [row.size_milli for row in machine.rows[grid.view.first_row : grid.view.end_row]]
    reserved = promises(machine, grid.view, now_s, leaf_ids)
    timeline = Timeline(machine.rows, machine.teams, (), unfit_spells(machine, grid.view, now), now_s, reserved)
    found = cells_of(grid, sums.by_cell(), sums.taken(), sizes_milli, now_s)
    return Shown(timeline, grid.view, None, found, lines_of(machine, sums.totals(), wanted.counts()))


def wanted_of(machine: Machine, view: View, now_s: int, leaf_ids: Sequence[int] | None) -> Wanted:
    """The queries of a view."""
    nodes = machine.node_ids[view.first_row : view.end_row]
    is_everywhere = len(nodes) == len(machine.node_ids)
    span = (view.from_s, view.until_s)
    return Wanted(machine.cluster, nodes, span, now_s, leaf_ids, is_everywhere=is_everywhere)


def sums_of(machine: Machine, grid: Grid, leaf_ids: Sequence[int] | None) -> Sums:
    """Empty sums of a view."""
    nodes = machine.node_ids[grid.view.first_row : grid.view.end_row]
    return Sums(grid, nodes, machine.team_of, leaf_ids)


def lines_of(
    machine: Machine, held: Mapping[tuple[int, int], int], counts: Mapping[int, tuple[int, int]]
) -> list[TeamLine]:
    """What each team held, in the order of the teams. `held` is by team and kind, `counts` are (runs, preempted) by
    leaf.
    """
    sums: dict[int, list[int]] = defaultdict(lambda: [0] * 5)
    for (team, kind), milli_s in held.items():
        found = sums[team]
        found[0] += milli_s
        if kind != INSIDE:
            found[1] += milli_s
        if kind == UNALLOCATED:
            found[2] += milli_s
    for leaf, (runs, taken) in counts.items():
        found = sums[machine.team_of[leaf]]
        found[3] += runs
        found[4] += taken
    return [TeamLine(machine.teams[team], *numbers) for team, numbers in sorted(sums.items())]


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


def promises(machine: Machine, view: View, now_s: int, leaf_ids: Sequence[int] | None) -> list[Promise]:
    """What is reserved in the view's part of the future, for the length of the contract. One query, or none."""
    if view.until_s <= now_s:
        return []
    index = {row.name: at for at, row in enumerate(machine.rows)}
    until = datetime.fromtimestamp(view.until_s, UTC)
    rows = Reservation.objects.filter(cluster=machine.cluster, ended_at=None, starts_at__lt=until)
    if leaf_ids is not None:
        rows = rows.filter(workload__leaf__in=leaf_ids)
    found = []
    for starts_at, holdings, code, length_s in rows.order_by("starts_at", "pk").values_list(
        "starts_at", "holdings", "workload__code", "workload__min_runtime_s"
    ):
        start_s = max(int(starts_at.timestamp()), now_s)
        found += [
            Promise(index[name], milli, start_s, start_s + length_s, code)
            for name, milli in sorted(holdings.items())
            if name in index
        ]
    return found


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
        places = [(0, milli)] if milli == WHOLE_DEVICE_MILLI else beside(shelves[node, device], start_s, end_s, milli)
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


def beside(shelf: Shelf, start_s: int, end_s: int | None, milli: int) -> list[tuple[int, int]]:
    """Where a part of a device is drawn; over the others where an imported past says that they were more than it."""
    try:
        return shelf.put(start_s, end_s, milli)
    except ValueError:
        return [(0, milli)]
