"""The runs of a cluster as bars on its devices: what a GPU timeline draws, of simulated runs or of real ones.

Instants are whole seconds on the caller's clock, intervals half-open; amounts and places on a node are thousandths of
a device. Which device a simulated run held is not recorded, since devices of a node are interchangeable
(semantics.md section 5): `Shelf` gives each run devices as the live cluster does, from the lowest up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from scheduler.engine import DEVICE_MILLI

from .recorded import Recorded, UnfitSpell

COLOURS = 16
"""Hues that teams may have; 0 is "other"."""

STARTING, INSIDE, OVER, UNALLOCATED, LEAVING, TO_COME = range(6)
"""Parts of a bar: start-up; inside its contract; after it; never protected; told to stop; contract still to come."""
INTERRUPTIBLE = (OVER, UNALLOCATED)


class Team(NamedTuple):
    """Whose a run is. `colour` is 1 to COLOURS, 0 is "other"."""

    code: str
    name: str
    colour: int


class Row(NamedTuple):
    """A node with its devices."""

    name: str
    size_milli: int
    rack: str


class Bar(NamedTuple):
    """What one run holds of neighbouring devices of one node: [lane_milli, lane_milli + size_milli).

    `node` and `team` are indexes; `run` is the same for all bars of a run. `end_s` is None while it goes on, the other
    instants where they did not happen. `taker` is the workload that the run was preempted for.
    """

    node: int
    lane_milli: int
    size_milli: int
    start_s: int
    running_s: int | None
    contract_end_s: int | None
    told_s: int | None
    end_s: int | None
    is_funded: bool
    team: int
    run: int
    workload: str
    reason: str
    taker: str | None


class Part(NamedTuple):
    """A stretch of a bar."""

    kind: int
    from_s: int
    until_s: int


class Promise(NamedTuple):
    """A reservation: [start_s, end_s) of so much of a node (an index of the rows) for a workload, at the latest."""

    node: int
    size_milli: int
    start_s: int
    end_s: int
    workload: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """All bars of a stretch of time in the order of their starts. `now_s` is where what is known ends; `promises` are
    the reservations of then, in the order of their starts.
    """

    rows: Sequence[Row]
    teams: Sequence[Team]
    bars: Sequence[Bar]
    unfit: Sequence[UnfitSpell]
    now_s: int
    promises: Sequence[Promise] = ()

    def index_of(self) -> dict[str, int]:
        """Each row's index by its name."""
        return {row.name: index for index, row in enumerate(self.rows)}


def parts_of(bar: Bar, now_s: int) -> Iterator[Part]:
    """The stretches of a bar one after the other; what is empty is left out.

    A run that never came to run was starting up until it ended; one that goes on is drawn up to `now_s`, and its
    contract, where it ends later, as still to come.
    """
    end_s = now_s if bar.end_s is None else bar.end_s
    told_s = end_s if bar.told_s is None else min(bar.told_s, end_s)
    if not bar.is_funded:
        steps = [(UNALLOCATED, bar.start_s), (LEAVING, told_s)]
    else:
        running_s = told_s if bar.running_s is None else min(bar.running_s, told_s)
        over_s = told_s if bar.contract_end_s is None else min(max(bar.contract_end_s, running_s), told_s)
        steps = [(STARTING, bar.start_s), (INSIDE, running_s), (OVER, over_s), (LEAVING, told_s)]
    for (kind, from_s), (_, until_s) in pairwise([*steps, (LEAVING, end_s)]):
        if until_s > from_s:
            yield Part(kind, from_s, until_s)
    if bar.end_s is None and bar.told_s is None and bar.is_funded and (bar.contract_end_s or 0) > now_s:
        yield Part(TO_COME, now_s, bar.contract_end_s or now_s)


def was_taken(bar: Bar) -> bool:
    """Whether the run was preempted, for another workload or by a rule."""
    return bar.end_s is not None and (bar.taker is not None or bar.reason.startswith("preempted"))


class Shelf:
    """One node's devices while runs come and go in the order of their starts."""

    def __init__(self, size_milli: int) -> None:
        """All devices are free."""
        self._held: list[list[tuple[int, int]]] = [[] for _ in range(-(-size_milli // DEVICE_MILLI))]
        self._ends: list[tuple[int, list[tuple[int, int]]]] = []  # (instant, what is let go then)

    def put(self, start_s: int, end_s: int | None, amount_milli: int) -> list[tuple[int, int]]:
        """Places for a run: (lane_milli, size_milli) of each row of neighbouring devices.

        Raises:
            ValueError: the devices that are free then are too few.
        """
        while self._ends and self._ends[0][0] <= start_s:
            for lane_milli, size_milli in heapq.heappop(self._ends)[1]:
                self._let_go(lane_milli, size_milli)
        places = self._fraction(amount_milli) if amount_milli < DEVICE_MILLI else self._whole(amount_milli)
        if not places:
            raise ValueError(f"{amount_milli} thousandths are not free on a node at second {start_s}")
        if end_s is not None:
            heapq.heappush(self._ends, (end_s, places))
        return places

    def _whole(self, amount_milli: int) -> list[tuple[int, int]]:
        wanted = -(-amount_milli // DEVICE_MILLI)
        free = [index for index, held in enumerate(self._held) if not held]
        if len(free) < wanted:
            return []
        chosen = next(
            (free[at : at + wanted] for at in range(len(free) - wanted + 1) if _are_neighbours(free, at, wanted)),
            free[:wanted],
        )
        places: list[tuple[int, int]] = []
        for index in chosen:
            self._held[index].append((0, DEVICE_MILLI))
            if places and places[-1][0] + places[-1][1] == index * DEVICE_MILLI:
                places[-1] = (places[-1][0], places[-1][1] + DEVICE_MILLI)
            else:
                places.append((index * DEVICE_MILLI, DEVICE_MILLI))
        return places

    def _fraction(self, amount_milli: int) -> list[tuple[int, int]]:
        """A part of one device: the fullest with room; in pieces where what is free of it is scattered."""
        rooms = [(DEVICE_MILLI - sum(size for _, size in held), index) for index, held in enumerate(self._held)]
        fitting = [(free, index) for free, index in rooms if free >= amount_milli]
        if not fitting:
            return []
        index = min(fitting)[1]
        pieces = _pieces(self._held[index], amount_milli)
        self._held[index] += pieces
        return [(index * DEVICE_MILLI + offset, size) for offset, size in pieces]

    def _let_go(self, lane_milli: int, size_milli: int) -> None:
        if size_milli < DEVICE_MILLI:
            index, offset = divmod(lane_milli, DEVICE_MILLI)
            self._held[index].remove((offset, size_milli))
            return
        for index in range(lane_milli // DEVICE_MILLI, (lane_milli + size_milli) // DEVICE_MILLI):
            self._held[index].clear()


def _are_neighbours(free: Sequence[int], at: int, wanted: int) -> bool:
    return free[at + wanted - 1] - free[at] == wanted - 1


def _pieces(held: Sequence[tuple[int, int]], amount_milli: int) -> list[tuple[int, int]]:
    """(offset, size) on a device with room: the lowest gap that takes it all, else gaps from the lowest up."""
    gaps, offset = [], 0
    for start, size in [*sorted(held), (DEVICE_MILLI, 0)]:
        if start > offset:
            gaps.append((offset, start - offset))
        offset = start + size
    for start, size in gaps:
        if size >= amount_milli:
            return [(start, amount_milli)]
    pieces = []
    for start, size in gaps:
        taken = min(size, amount_milli)
        if taken:
            pieces.append((start, taken))
        amount_milli -= taken
    return pieces


def of_recorded(recorded: Recorded, teams: Sequence[Team], team_of: Mapping[str, int]) -> Timeline:
    """The timeline of a simulation's runs.

    Args:
        recorded: the runs.
        teams: whose they may be.
        team_of: the index of each leaf's team.

    Raises:
        ValueError: two runs held the same device.
    """
    rows = [Row(*node) for node in recorded.nodes]
    index = {row.name: at for at, row in enumerate(rows)}
    shelves = [Shelf(row.size_milli) for row in rows]
    bars: list[Bar] = []
    for number, run in enumerate(recorded.runs):
        if run.end_s == run.start_s:
            continue
        workload = recorded.workloads[run.workload]
        for name, amount_milli in run.holdings.items():
            node = index[name]
            bars += [
                Bar(
                    node, lane_milli, size_milli, run.start_s, run.running_s, run.contract_end_s, run.told_s,
                    run.end_s, run.is_funded, team_of[workload.leaf], number, workload.id, run.end_reason or "",
                    run.preempted_by,
                )
                for lane_milli, size_milli in shelves[node].put(run.start_s, run.end_s, amount_milli)
            ]  # fmt: skip
    return Timeline(rows, teams, bars, recorded.unfit, recorded.end_s)


def teams_of(parents: Mapping[str, str | None]) -> tuple[list[Team], dict[str, int]]:
    """Teams of a tree that has no colours of its own, and the index of the team of each budget node.

    Teams are the budget nodes of the deepest level that has no more of them than there are hues (with what ends higher
    up), in the order of the tree; where even the first level has more, the last ones share the colour of "other".

    Args:
        parents: each budget node's parent, None below the root; parents come first.
    """
    depth: dict[str, int] = {}
    for name, parent in parents.items():
        depth[name] = 0 if parent is None else depth[parent] + 1
    inner = set(parents.values())
    chosen: list[str] = []
    for level in range(max(depth.values(), default=0) + 1):
        found = [name for name in parents if depth[name] == level or (depth[name] < level and name not in inner)]
        if not chosen or len(found) <= COLOURS:
            chosen = found
    order = {name: at for at, name in enumerate(chosen)}
    teams = [Team(name, name, at + 1 if at < COLOURS else 0) for name, at in order.items()]
    index: dict[str, int] = {}
    for name, parent in parents.items():
        if name in order:
            index[name] = order[name]
        elif parent is not None and parent in index:
            index[name] = index[parent]
    return teams, {**dict.fromkeys(parents, 0), **index}
