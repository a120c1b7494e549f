"""Who is ahead of a waiting workload, grouped by the reason for it. One query."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scheduler.models import Workload
from scheduler.queries.levels import Level, Levels
from scheduler.queries.queue import waiting

MOST = 10_000
"""Those ahead that are looked at; beyond that the numbers are "at least"."""
NAMED = 3
"""Ids that a group names."""
PROMISED, FUNDED, LEVEL, PRIORITY, EARLIER = "promised", "funded", "level", "priority", "earlier"


@dataclass(slots=True)
class Group:
    """Those who are ahead for one reason.

    Attributes:
        reason: PROMISED (a reservation stands for them), FUNDED (this one is unallocated, they are not), LEVEL (where
            the ways from the root part, their side has had less of its share), PRIORITY or EARLIER (the same leaf).
        theirs, mine: both sides where the ways part, for LEVEL.
        count, size_milli: how many, and what they ask for.
        first: ids of the first of them.
    """

    reason: str
    theirs: Level | None = None
    mine: Level | None = None
    count: int = 0
    size_milli: int = 0
    first: list[str] = field(default_factory=list)


class _Ahead(NamedTuple):
    """The columns of one who is ahead."""

    pk: int
    code: str
    leaf_id: int
    size_milli: int
    priority: int
    min_runtime_s: int


def groups(workload: Workload, levels: Levels, promised: Collection[int]) -> list[Group]:
    """In the order of the first of each group; empty for one without a place. One query.

    `promised` are the keys of the workloads for which a reservation stands.
    """
    if workload.place is None or workload.state != Workload.State.QUEUED:
        return []
    rows = waiting(workload.cluster).filter(state=Workload.State.QUEUED, place__lt=workload.place).order_by("place")
    mine = levels.by_id.get(workload.leaf_id)
    path = levels.path(mine.code) if mine is not None else []
    forks: dict[int, tuple[Level, Level] | None] = {}
    found: dict[tuple[str, str], Group] = {}
    for row in map(_Ahead._make, rows.values_list(*_Ahead._fields)[:MOST]):
        if row.leaf_id not in forks:
            forks[row.leaf_id] = _fork(path, row.leaf_id, levels)
        group = _group(row, workload, forks[row.leaf_id], is_promised=row.pk in promised)
        known = found.setdefault((group.reason, group.theirs.code if group.theirs else ""), group)
        known.count += 1
        known.size_milli += row.size_milli
        if len(known.first) < NAMED:
            known.first.append(row.code)
    return list(found.values())


def _group(row: _Ahead, workload: Workload, fork: tuple[Level, Level] | None, *, is_promised: bool) -> Group:
    if is_promised:
        return Group(PROMISED)
    if row.min_runtime_s and not workload.min_runtime_s:
        return Group(FUNDED)
    if fork is not None:
        return Group(LEVEL, *fork)
    return Group(PRIORITY if row.priority > workload.priority else EARLIER)


def _fork(path: Sequence[Level], leaf_id: int, levels: Levels) -> tuple[Level, Level] | None:
    """Their side and this one's, where the two ways from the root part; None for the same leaf."""
    leaf: Any = levels.by_id.get(leaf_id)
    if leaf is None:
        return None
    for theirs, mine in zip(levels.path(leaf.code), path, strict=False):
        if theirs.code != mine.code:
            return theirs, mine
    return None
