"""The reallocation editor's sheet: what the proposed shares mean, row by row, and whether they balance.

Pure values, written out as they stand on the page, so that page and parts say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from django.utils.translation import gettext, ngettext

from budgets import split
from budgets.models import WHOLE_BASIS_POINTS, BudgetNode, Cluster
from portal import formats
from scheduler.queries.at_risk import AtRisk
from scheduler.queries.usage import Books

HOURS_A_WEEK = 168


@dataclass(frozen=True, slots=True)
class Number:
    """One computed cell: its id on the page, its text and its class."""

    id: str
    text: str
    css: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A child: what it has (basis points), what is proposed (None where it can't be read), what that means.

    `theirs` is what somebody else made of it meanwhile, where that is another value than the page was read with.
    """

    node: BudgetNode
    now: int
    proposed: int | None
    base: int
    numbers: Mapping[str, Number]
    got: Fraction | None
    at_risk: AtRisk
    has_part: bool
    is_kept: bool

    @property
    def change(self) -> int:
        """Basis points more, or less."""
        return 0 if self.proposed is None else self.proposed - self.now

    @property
    def theirs(self) -> int | None:
        """What it became since the page was read, if that is another value."""
        return self.now if self.now != self.base else None


@dataclass(frozen=True, slots=True)
class Sheet:
    """All rows, what is left, and a sentence that says what would happen."""

    rows: Sequence[Row]
    numbers: Mapping[str, Number]
    unassigned_now: int
    left: int
    units: Fraction
    sentence: str
    warnings: Sequence[str]

    @property
    def balances(self) -> bool:
        """The children get no more than there is, and each cell can be read."""
        return self.left >= 0 and all(row.proposed is not None for row in self.rows)

    @property
    def changes(self) -> list[Row]:
        """The rows that would change."""
        return [row for row in self.rows if row.change]

    def every_number(self) -> list[Number]:
        """All computed cells, for a part that replaces them one by one."""
        return [*self.numbers.values(), *(number for row in self.rows for number in row.numbers.values())]


def sheet(
    *,
    node: BudgetNode,
    cluster: Cluster,
    children: Sequence[BudgetNode],
    now: Mapping[int, int],
    proposed: Mapping[int, int],
    base: Mapping[int, int],
    units: Fraction,
    books: Mapping[int, Books],
    at_risk: Mapping[int, AtRisk],
    parts: set[int],
    kept: set[int],
    starts: str,
) -> Sheet:
    """What these shares mean. `units` is what the node itself is entitled to, in units of the cluster; `parts` are the
    children in which the person who edits has a part.
    """
    rows = [
        Row(
            node=child,
            now=now.get(child.pk, 0),
            proposed=proposed.get(child.pk),
            base=base.get(child.pk, 0),
            numbers=_numbers(str(child.pk), now.get(child.pk, 0), proposed.get(child.pk), units),
            got=_got(books[child.pk]),
            at_risk=at_risk[child.pk] if proposed.get(child.pk, 0) < now.get(child.pk, 0) else AtRisk(),
            has_part=child.pk in parts,
            is_kept=child.pk in kept,
        )
        for child in children
    ]
    was = WHOLE_BASIS_POINTS - sum(row.now for row in rows)
    left = WHOLE_BASIS_POINTS - sum(row.now if row.proposed is None else row.proposed for row in rows)
    numbers = _numbers("rest", was, left, units)
    is_read = all(row.proposed is not None for row in rows)
    status = Number("status", gettext("balances"), "tag run")
    if not is_read:
        status = Number("status", gettext("a share can't be read"), "tag stop")
    elif left < 0:
        status = Number("status", gettext("{left} too much").format(left=formats.share(-left)), "tag stop")
    return Sheet(
        rows=rows,
        numbers={**numbers, "status": status, "proposed": Number("proposed-rest", formats.share(left), "")},
        unassigned_now=was,
        left=left,
        units=units,
        sentence=_sentence(node, rows, was, left, starts),
        warnings=_warnings(rows, left),
    )


def _numbers(key: str, now: int, proposed: int | None, units: Fraction) -> dict[str, Number]:
    after = now if proposed is None else proposed
    was, will = units * now / WHOLE_BASIS_POINTS, units * after / WHOLE_BASIS_POINTS
    css = "chg" if after != now else "muted"
    return {
        "change": Number(f"change-{key}", formats.change(after - now), css),
        "units": Number(f"units-{key}", formats.entitled_units(will)),
        "units_change": Number(f"units-change-{key}", _signed(will - was, 1), css),
        "hours": Number(f"hours-{key}", formats.count(will * HOURS_A_WEEK)),
        "hours_change": Number(f"hours-change-{key}", _signed((will - was) * HOURS_A_WEEK, 0), css),
    }


def _signed(value: Fraction, decimals: int) -> str:
    text = formats.half_up(value, decimals)
    return f"+{text}" if value > 0 and text.strip("0.,") else "0" if not text.strip("0.,") else text


def _got(books: Books) -> Fraction | None:
    return Fraction(books.charged_milli_s, books.entitled_milli_s) if books.entitled_milli_s else None


def _sentence(node: BudgetNode, rows: Sequence[Row], was: int, left: int, starts: str) -> str:
    """Who gets more, and from whom it comes."""
    more = [f"{row.node.code} {formats.share_percent(row.change)}" for row in rows if row.change > 0]
    less = [f"{formats.share_percent(-row.change)} from {row.node.code}" for row in rows if row.change < 0]
    if left < was and left >= 0:
        less.append(gettext("{was} from unassigned").format(was=formats.share_percent(was - left)))
    if left > was:
        more.append(f"unassigned {formats.share_percent(left - was)}")
    if not more and not less:
        return gettext("Nothing changes yet: edit a proposed share of {node}.").format(node=node.code)
    if not any(row.change > 0 for row in rows):
        return gettext("Takes {less} and leaves it unassigned in {node}, from {starts} on.").format(
            less=_and(less), node=node.code, starts=starts
        )
    return gettext("Gives {more} more of {node} from {starts}: {value}.").format(
        more=_and(more), node=node.code, starts=starts, value=_and(less) or gettext("from nobody yet")
    )


def _and(words: Sequence[str]) -> str:
    return formats.joined(words)


def _warnings(rows: Sequence[Row], left: int) -> list[str]:
    """What stands in the way, or happens besides."""
    found = []
    if left < 0:
        found.append(
            gettext("The children would have {left} more than there is. Take it from others, or give less.").format(
                left=formats.share_percent(-left)
            )
        )
    mine = [row.node.code for row in rows if row.has_part and row.change > 0]
    if mine:
        found.append(
            gettext(
                "You have a part in {mine}: raising it is not yours to decide, so this goes to the level above."
            ).format(mine=_and(mine))
        )
    risky = [row for row in rows if row.at_risk.runs]
    if risky:
        runs = sum(row.at_risk.runs for row in risky)
        found.append(
            ngettext(
                "{count} run of {nodes} goes on after its contract and may be interrupted sooner.",
                "{count} runs of {nodes} go on after their contract and may be interrupted sooner.",
                runs,
            ).format(count=formats.count(runs), nodes=_and([row.node.code for row in risky]))
        )
    return found


# --- take what is missing -----------------------------------------------------------------------------------------


class NothingToTake(ValueError):
    """It can't be taken that way; says why."""


def take(how: str, rows: Sequence[Row], books: Mapping[int, Books]) -> dict[int, int]:
    """Proposed shares with what is missing taken from the rows that are neither raised nor kept.

    Args:
        how: `evenly`, in `proportion` to what each has, or from what went `unused` in the books' time.

    Raises:
        NothingToTake: nothing is missing, or those rows can't give so much.
    """
    proposed = {row.node.pk: row.now if row.proposed is None else row.proposed for row in rows}
    missing = sum(proposed.values()) - WHOLE_BASIS_POINTS
    if missing <= 0:
        raise NothingToTake(gettext("Nothing is missing: unassigned covers what is given."))
    givers = [row for row in rows if row.change <= 0 and not row.is_kept and proposed[row.node.pk]]
    most = [proposed[row.node.pk] for row in givers]
    if how == "evenly":
        weights = [1] * len(givers)
    elif how == "proportion":
        weights = most
    else:
        unused = [_unused(row, books[row.node.pk], limit) for row, limit in zip(givers, most, strict=True)]
        weights, most = unused, unused
    if sum(limit for limit, weight in zip(most, weights, strict=True) if weight) < missing:
        words = gettext("went unused by") if how == "unused" else gettext("is left with")
        raise NothingToTake(
            gettext("{missing} is missing, and only {most} {words} those who are neither raised nor kept.").format(
                missing=formats.share_percent(missing), most=formats.share_percent(sum(most)), words=words
            )
        )
    for row, part in zip(givers, split.taken(missing, weights, most), strict=True):
        proposed[row.node.pk] -= part
    return proposed


def _unused(row: Row, books: Books, limit: int) -> int:
    """The part of its share that was entitled and not asked for, in basis points."""
    if not books.entitled_milli_s:
        return limit
    return min(limit, limit * books.not_asked_milli_s // books.entitled_milli_s)
