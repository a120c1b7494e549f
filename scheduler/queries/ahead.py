"""Who is ahead of a waiting workload, grouped by the reason for it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from django.db.models import QuerySet

from budgets.models import Cluster
from scheduler.models import Workload
from scheduler.queries.levels import Level, Levels

MOST = 10_000
"""Those in the order that are looked at; beyond that the numbers are "at least"."""
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


class InOrder(NamedTuple):
    """One who waits; those who have a place in the order have it by the last pass."""

    place: int | None
    pk: int
    code: str
    name: str
    leaf_id: int
    size_milli: int
    priority: int
    min_runtime_s: int
    submitted_at: datetime


def queued(cluster: Cluster) -> QuerySet[Workload]:
    """All who wait there and are not held."""
    return Workload.objects.filter(cluster=cluster, state=Workload.State.QUEUED)


def in_order(rows: QuerySet[Workload]) -> list[InOrder]:
    """What is said of these. One query."""
    return list(map(InOrder._make, rows.values_list(*InOrder._fields)))


def order_of(cluster: Cluster) -> list[InOrder]:
    """The first MOST who wait and have a place, by place. One query."""
    return in_order(queued(cluster).filter(place__isnull=False).order_by("place")[:MOST])


def before(order: Sequence[InOrder], workload: Workload) -> Sequence[InOrder]:
    """Those ahead of a workload; none of one that has no place."""
    if workload.place is None or workload.state != Workload.State.QUEUED:
        return ()
    return order[: bisect_left(order, workload.place, key=attrgetter("place"))]


def groups(workload: Workload, ahead: Sequence[InOrder], levels: Levels, promised: Collection[int]) -> list[Group]:
    """Those `ahead` of it, in the order of the first of each group.

    `promised` are the keys of the workloads for which a reservation stands.
    """
    mine = levels.by_id.get(workload.leaf_id)
    path = levels.path(mine.code) if mine is not None else []
    forks: dict[int, tuple[Level, Level] | None] = {}
    found: dict[tuple[str, str], Group] = {}
    for row in ahead:
        if row.leaf_id not in forks:
            forks[row.leaf_id] = _fork(path, row.leaf_id, levels)
        fork = forks[row.leaf_id]
        reason = _reason(row, workload, fork, is_promised=row.pk in promised)
        sides = fork if reason == LEVEL and fork is not None else (None, None)
        key = (reason, sides[0].code if sides[0] else "")
        if key not in found:
            found[key] = Group(reason, *sides)
        known = found[key]
        known.count += 1
        known.size_milli += row.size_milli
        if len(known.first) < NAMED:
            known.first.append(row.code)
    return list(found.values())


def _reason(row: InOrder, workload: Workload, fork: tuple[Level, Level] | None, *, is_promised: bool) -> str:
    if is_promised:
        return PROMISED
    if row.min_runtime_s and not workload.min_runtime_s:
        return FUNDED
    if fork is not None:
        return LEVEL
    return PRIORITY if row.priority > workload.priority else EARLIER


def _fork(path: Sequence[Level], leaf_id: int, levels: Levels) -> tuple[Level, Level] | None:
    """Their side and this one's, where the two ways from the root part; None for the same leaf."""
    leaf: Any = levels.by_id.get(leaf_id)
    if leaf is None:
        return None
    for theirs, mine in zip(levels.path(leaf.code), path, strict=False):
        if theirs.code != mine.code:
            return theirs, mine
    return None
