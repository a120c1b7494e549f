"""What rows show, in words: in the queue of a waiting workload and of a level of the tree, and on the page of a
workload of those in its leaf and of those ahead.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

from django.utils.translation import gettext, pgettext

from budgets import sentences
from budgets.models import Cluster
from portal import formats
from portal.formats import NOT_APPLICABLE
from portal.templatetags.allotment import bare_reason, reason_at
from scheduler.models import Workload
from scheduler.queries.levels import Level
from scheduler.queries.queue import QueuePage, Row
from scheduler.queries.workload import Explanation


class Chip(NamedTuple):
    """A node of the tree beside its workload."""

    code: str
    name: str
    colour: int


class ShownRow(NamedTuple):
    """One that waits. `name` is None to those who may not read it; `contract` is empty without one."""

    code: str
    place: int | None
    is_mine: bool
    name: str | None
    leaf: Chip | None
    leaf_code: str
    unit: str
    size: str
    contract: str
    class_word: str
    waited: str
    served: tuple[str, ...]
    reason: str
    reason_code: str
    promise: int | None
    certain: str
    is_left_for_it: bool
    earliest: str


class ShownLevel(NamedTuple):
    """A node of the tree among its siblings. With `is_holding`, the order is by what is held now: `held`, and either
    its minimum and maximum (`has_bounds`) or what it holds most of.
    """

    code: str
    name: str
    colour: int
    depth: int
    cluster: str
    turn: int | None
    share: str
    entitled: str
    is_holding: bool
    held: str
    has_bounds: bool
    bounds: str
    used: str
    committed: str
    served: Fraction | None
    waiting: int
    asked: str


class ShownInLeaf(NamedTuple):
    """One that waits in the same leaf, or the workload itself."""

    code: str
    is_me: bool
    priority: int
    submitted: str
    size: str


class ShownAhead(NamedTuple):
    """One that is ahead in the order."""

    code: str
    place: int | None
    leaf: Chip | None
    size: str
    served: str
    certain: str


def shown_rows(page: QueuePage, reader_id: int, inside: Container[int], now: datetime) -> Iterator[ShownRow]:
    """The rows of a page for one reader, who sees the leaves `inside`."""
    unit = formats.unit_word(page.cluster.unit)
    for row in page.rows:
        is_mine = row.owner_id == reader_id
        yield _row(row, unit, now, is_mine=is_mine, is_named=is_mine or row.leaf_id in inside)


def _row(row: Row, unit: str, now: datetime, *, is_mine: bool, is_named: bool) -> ShownRow:
    def near(at: datetime | None) -> str:
        return "" if at is None else formats.near_instant(at, now)

    reason = row.reason_text or gettext("New: the next pass considers it.")
    is_standard = row.workload_class == Workload.Class.STANDARD
    return ShownRow(
        code=row.code,
        place=row.place,
        is_mine=is_mine,
        name=row.name if is_named else None,
        leaf=_chip(row.leaf),
        leaf_code=row.leaf_code,
        unit=unit,
        size=formats.units(row.size_milli),
        contract=formats.duration(row.min_runtime_s) if row.is_funded else "",
        class_word="" if is_standard else sentences.said(row.workload_class),
        waited=formats.duration(row.waited_s),
        served=tuple(map(formats.measured, row.served)) if row.is_funded else (),
        reason=bare_reason(reason_at(reason, row.earliest_start_at)),
        reason_code=row.reason_code,
        promise=row.promise,
        certain=near(row.certain_at),
        is_left_for_it=row.reason_code == "waiting_victims" and row.earliest_start_at is not None,
        earliest=near(row.earliest_start_at),
    )


def shown_in_leaf(told: Explanation) -> list[ShownInLeaf]:
    """Those who wait in its leaf, in the leaf's order."""
    return [
        ShownInLeaf(
            code=each.code,
            is_me=each.code == told.workload.code,
            priority=each.priority,
            submitted=formats.near_instant(each.submitted_at, told.now),
            size=formats.units(each.size_milli),
        )
        for each in told.same_leaf
    ]


def shown_ahead(told: Explanation) -> list[ShownAhead]:
    """The first of those ahead of it."""
    return [
        ShownAhead(
            code=each.code,
            place=each.place,
            leaf=_chip(each.leaf),
            size=formats.units(each.size_milli),
            served=formats.measured(None if each.leaf is None else each.leaf.served),
            certain="" if each.certain_at is None else formats.near_instant(each.certain_at, told.now),
        )
        for each in told.ahead
    ]


def _chip(level: Level | None) -> Chip | None:
    return None if level is None else Chip(level.code, level.name, level.colour)


def shown_levels(levels: Sequence[Level], cluster: Cluster, tree_order: str, *, is_holding: bool) -> list[ShownLevel]:
    """Levels below the root, in their order."""
    return [_level(level, cluster, tree_order, is_holding=is_holding) for level in levels if level.depth]


def _level(level: Level, cluster: Cluster, tree_order: str, *, is_holding: bool) -> ShownLevel:
    return ShownLevel(
        code=level.code,
        name=level.name,
        colour=level.colour,
        depth=level.depth,
        cluster=cluster.name,
        turn=level.turn,
        share=formats.share(level.shares),
        entitled=formats.unit_hours(level.entitled_milli_s),
        is_holding=is_holding,
        held=formats.units(level.standing["held_milli"]) if level.standing else NOT_APPLICABLE,
        has_bounds=tree_order == "fair",
        bounds=_bounds(level, cluster) if is_holding else "",
        used=formats.unit_hours(level.used_milli_s),
        committed=formats.unit_hours(level.committed_milli_s),
        served=level.served,
        waiting=level.waiting,
        asked=formats.units(level.waiting_milli),
    )


def _bounds(level: Level, cluster: Cluster) -> str:
    """Its minimum and maximum, or what it holds most of."""
    if not level.standing:
        return NOT_APPLICABLE
    if most := level.standing.get("dominant"):
        words = {"memory": gettext("memory"), "cores": gettext("cores")}
        return f"{words.get(most) or formats.unit_word(cluster.unit)} {formats.measured_percent(level.dominant)}"
    maximum = level.standing["maximum_milli"]
    most = pgettext("maximum", "none") if maximum is None else formats.units(maximum)
    return f"{formats.units(level.standing['minimum_milli'])}, {most}"
