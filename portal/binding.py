"""What keeps a waiting workload from starting, in words, and what would change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext, ngettext

from portal import formats, order_words
from scheduler.engine import HOLDING_ORDERS
from scheduler.models import WHOLE_DEVICE_MILLI, Workload
from scheduler.queries.ahead import EARLIER, FUNDED, LEVEL, PRIORITY, Group
from scheduler.queries.workload import Explanation
from scheduler.services.emergency import STOPPED

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Binding:
    """One sentence for the limit, and one for each thing that would change it."""

    limit: str
    changes: Sequence[str]


@dataclass(frozen=True, slots=True)
class GroupLine:
    """Those who are ahead for one reason, in words."""

    group: Group
    why: str


def binding_of(told: Explanation) -> Binding | None:
    """Of one that is queued and was looked at by a pass; None for any other."""
    workload = told.workload
    if workload.state != Workload.State.QUEUED or not workload.reason_code:
        return None
    words = LIMITS.get(workload.reason_code)
    return None if words is None else words(told)


def _size(told: Explanation) -> str:
    return formats.amount(told.workload.size_milli, told.workload.cluster.unit)


def _unit(told: Explanation) -> str:
    return formats.unit_word(told.workload.cluster.unit)


def _smaller() -> str:
    return gettext("Fewer may fit where this many do not: try it below.")


def _order(told: Explanation) -> Binding:
    if not told.workload.min_runtime_s:
        return Binding(
            gettext("Free room: what nobody funded needs is taken, and it preempts nobody."),
            [
                gettext("It starts when {unit} stay free; others who had fewer free cycles go first.").format(
                    unit=_unit(told)
                ),
                gettext("With a contract it would be funded, and might take over from others: try it below."),
            ],
        )
    return Binding(
        gettext("Its place in the order: nobody holds {unit} that it may take over, and others are before it.").format(
            unit=_unit(told)
        ),
        [
            gettext("It moves up as those ahead are served, which counts at once.").format(),
            _passing(told),
            gettext("A shorter contract changes its rank little; fewer {unit} may start in a gap.").format(
                unit=_unit(told)
            ),
        ],
    )


def _passing(told: Explanation) -> str:
    """How what its side has had stops counting."""
    if told.policy.tree_order in HOLDING_ORDERS:
        return gettext("It moves up as its side holds less: what ends counts at once.")
    if told.policy.decay_s is not None:
        return order_words.use_decays(told.policy)
    return gettext("What its side used leaves the window after {days} days.").format(days=told.window_s // DAY_S)


def _capacity(told: Explanation) -> Binding:
    if told.promised_at is not None:
        return Binding(
            ngettext(
                "Time: {size} is reserved for it from {at} on.",
                "Time: {size} are reserved for it from {at} on.",
                1 if told.workload.size_milli <= WHOLE_DEVICE_MILLI else 2,
            ).format(size=_size(told), at=formats.near_instant(told.promised_at, told.now)),
            [gettext("It starts earlier if enough comes free earlier.")],
        )
    at = told.workload.earliest_start_at
    limit = gettext("Contracts: the {unit} that it may have are inside contracts, which nobody can cut short.")
    if at is not None:
        limit = gettext(
            "Contracts: the {unit} that it may have are inside contracts until {at}, which nobody can cut short."
        )
    return Binding(
        limit.format(unit=_unit(told), at="" if at is None else formats.near_instant(at, told.now)), [_smaller()]
    )


def _placement(told: Explanation) -> Binding:
    free_milli = told.workload.reason_numbers.get("free_milli", 0)
    return Binding(
        gettext("Where they are: {free} are free on the cluster, but not together as {size} need.").format(
            free=formats.amount(free_milli, told.workload.cluster.unit), size=_size(told)
        ),
        [_smaller()]
        + ([gettext("It is pinned to one node; without the pin it may start on another.")] if _pin(told) else []),
    )


def _pin(told: Explanation) -> bool:
    return told.workload.node_id is not None


def _reservation(told: Explanation) -> Binding:
    at = told.others_promised_at
    changes = [gettext("It starts when that reservation has been served.")]
    left_s = 0 if at is None else int((at - told.now).total_seconds())
    if at is not None and left_s >= 60:
        changes.insert(
            0,
            gettext("A contract of at most {left} would end before {at} and may start now: try it below.").format(
                left=formats.duration(left_s // 60 * 60), at=formats.near_instant(at, told.now)
            ),
        )
    return Binding(gettext("A reservation: its contract would delay a start that was promised to another."), changes)


def _cells(told: Explanation) -> Binding:
    numbers = told.workload.reason_numbers
    number, missing = numbers.get("nodes", 0), numbers.get("missing", {})
    changes = [
        gettext("It starts when enough comes free on other nodes."),
        gettext("Without a contract it may run there until they are claimed: try it below."),
    ]
    if any(missing.values()):
        changes.insert(0, gettext("Some cells are not fit and clear yet; what is fit is kept for them until they are."))
    return Binding(
        ngettext(
            "Private cells: {number} node that it could use is kept for {names}.",
            "Private cells: {number} nodes that it could use are kept for {names}.",
            number,
        ).format(number=number, names=", ".join(numbers.get("tenants", []))),
        changes,
    )


def _victims(told: Explanation) -> Binding:
    return Binding(
        gettext("Others are leaving: its {unit} are chosen and held for it.").format(unit=_unit(told)),
        [gettext("Nothing needs to change: it starts as soon as they have saved, after their grace at the latest.")],
    )


def _nodes(told: Explanation) -> Binding:
    return Binding(
        gettext("Nodes: too few are fit for {size}.").format(size=_size(told)),
        [gettext("It starts after repairs, without anybody's doing."), _smaller()],
    )


def _maximum(told: Explanation) -> Binding:
    numbers, unit = told.workload.reason_numbers, told.workload.cluster.unit
    return Binding(
        gettext("A maximum: {node} may hold {most} at once, and has {held}.").format(
            node=numbers.get("node", ""),
            most=formats.amount(numbers.get("maximum_milli", 0), unit),
            held=formats.amount(numbers.get("counted_milli", 0), unit),
        ),
        [
            gettext("It starts when enough of what {node} holds has ended.").format(node=numbers.get("node", "")),
            _smaller(),
        ],
    )


def _too_large(told: Explanation) -> Binding:
    return Binding(
        gettext("Its size: the whole cluster has less than {size}.").format(size=_size(told)),
        [gettext("It never starts like this. Ask for fewer: try it below.")],
    )


def _stopped(told: Explanation) -> Binding:
    return Binding(
        gettext("An operator: nothing starts on {cluster} now.").format(cluster=told.workload.cluster.name),
        [gettext("It keeps its place, and waits on once an operator starts the cluster again.")],
    )


LIMITS: dict[str, Callable[[Explanation], Binding]] = {
    "waiting_order": _order,
    "waiting_capacity": _capacity,
    "waiting_placement": _placement,
    "waiting_reservation": _reservation,
    "waiting_cells": _cells,
    "waiting_victims": _victims,
    "waiting_nodes": _nodes,
    "waiting_maximum": _maximum,
    "too_large": _too_large,
    STOPPED: _stopped,
}


def lines_of(told: Explanation) -> list[GroupLine]:
    """Who is ahead and why, in words."""
    return [GroupLine(group, _why(group, told)) for group in told.groups]


def _why(group: Group, told: Explanation) -> str:
    if group.reason == LEVEL and group.theirs is not None and group.mine is not None:
        is_funded = told.workload.min_runtime_s > 0
        theirs, mine = (
            formats.measured_percent(level.served if is_funded else level.uncharged)
            for level in (group.theirs, group.mine)
        )
        if group.theirs.standing:
            said = gettext("{theirs} holds {their_part} of its part now, {mine} {my_part}")
            return said.format(theirs=group.theirs.name, their_part=theirs, mine=group.mine.name, my_part=mine)
        said = (
            gettext("{theirs} has had {their_part} of its share, {mine} {my_part}")
            if is_funded
            else gettext("{theirs} has had free cycles of {their_part} of its share, {mine} of {my_part}")
        )
        return said.format(theirs=group.theirs.name, their_part=theirs, mine=group.mine.name, my_part=mine)
    if group.reason == FUNDED:
        return gettext("They are funded; unallocated work comes after all of them")
    if group.reason == PRIORITY:
        return gettext("Higher priority in the same project")
    if group.reason == EARLIER:
        return order_words.ahead_inside(told.policy)
    return ngettext(
        "A reservation stands for it: promised before", "Reservations stand for them: promised before", group.count
    )
