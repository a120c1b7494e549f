"""The pace of a budget on its page: how much is used beside how much of the time is gone, and where it will end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from budgets.models import BudgetNode, Cluster
from budgets.queries import midnight
from portal import figure_charts, formats
from portal.pages import choice, day_named
from scheduler.queries import pace, usage
from scheduler.queries.pace import HISTORY_DAYS, HISTORY_DAYS_MIN, RANGE_PERCENT, STRETCH_DAYS, Pace
from scheduler.queries.spans import steps
from scheduler.queries.usage import Step

DAY = timedelta(days=1)
DAYS_MAX = 370
EVEN_POINTS = 3
"""Used and gone that differ by so many hundredths of the whole are "about even"."""

SPANS: Mapping[str, str | Promise] = {
    "week": gettext_lazy("Week"),
    "month": gettext_lazy("Month"),
    "quarter": gettext_lazy("Quarter"),
}


@dataclass(frozen=True, slots=True)
class Span:
    """Whole days [first, last]; `key` is week, month or quarter, or empty for two days that were named."""

    key: str
    first: date
    last: date

    @property
    def words(self) -> str:
        """1 Oct to 31 Dec."""
        return gettext("{start} to {end}").format(start=formats.short_day(self.first), end=formats.short_day(self.last))


@dataclass(frozen=True, slots=True)
class Grown:
    """What had been delivered by an instant, and what would have been by an even use of the entitlement."""

    at: datetime
    delivered_milli_s: int
    even_milli_s: int


def span_named(request: HttpRequest, on: date) -> Span:
    """The period that `?pace=` names, around the day `on`, or `?pace_from=` and `?pace_until=`; the month if none.

    Raises:
        BadRequest: no such period, no dates, or too long a time.
    """
    if "pace_from" in request.GET or "pace_until" in request.GET:
        first, last = day_named(request, "pace_from", on), day_named(request, "pace_until", on)
        if not 2000 <= first.year <= last.year <= 2200 or not first <= last < first + DAYS_MAX * DAY:
            raise BadRequest(
                gettext("pace_from: {first} to {last} is not a time of 1 to {days} days").format(
                    first=first, last=last, days=DAYS_MAX
                )
            )
        return Span("", first, last)
    return span_around(choice(request, "pace", dict(SPANS), "month"), on)


def span_around(key: str, on: date) -> Span:
    """The calendar's week (from Monday), month or quarter in which a day lies."""
    if key == "week":
        first = on - timedelta(days=on.weekday())
        return Span(key, first, first + 6 * DAY)
    months = 1 if key == "month" else 3
    first = date(on.year, (on.month - 1) // months * months + 1, 1)
    after = first.month + months
    return Span(key, first, date(on.year + (after > 12), (after - 1) % 12 + 1, 1) - DAY)


def pace_of(node: BudgetNode, cluster: Cluster, span: Span, at: datetime) -> Pace:
    """How the node does in a span, seen from `at`."""
    start, end = midnight(span.first).astimezone(UTC), midnight(span.last + DAY).astimezone(UTC)
    return pace.pace(node, cluster, start, end, max(at, start))


def pace_context(request: HttpRequest, node: BudgetNode, cluster: Cluster, on: date, at: datetime) -> dict[str, Any]:
    """What node/_pace.html shows."""
    span = span_named(request, on)
    found = pace_of(node, cluster, span, at)
    grown = grown_of(node, cluster, found)
    is_known = bool(found.entitled_milli_s) and found.at > found.start
    return {
        "pace": found,
        "span": span,
        "spans": SPANS,
        "pace_sentence": sentence(node, cluster, found, span),
        "pace_chart": chart_of(found, grown, cluster) if is_known else None,
        "grown": grown,
        "method": gettext(
            "The forecast fills the days still to come with stretches of {stretch} days drawn from the last {days}, "
            "each day's delivered as a part of what it was entitled to, and lays them on what these days are entitled "
            "to, with every change of shares that is decided; that the past is only a sample widens the range. Of "
            "1,000 draws the middle one and the range that holds {range} of 100 are shown. It knows no holidays, and "
            "no change of habits."
        ).format(stretch=STRETCH_DAYS, days=HISTORY_DAYS, range=RANGE_PERCENT),
        "history_min": HISTORY_DAYS_MIN,
    }


def chart_of(found: Pace, grown: Sequence[Grown], cluster: Cluster) -> dict[str, Any]:
    """The chart of a pace."""
    delivered = [(each.at, each.delivered_milli_s) for each in grown]
    return figure_charts.pace_to_the_end(found, delivered, due_of(found, grown), cluster)


def grown_of(node: BudgetNode, cluster: Cluster, found: Pace) -> Sequence[Grown]:
    """Delivered as it grew, day by day, from 0 on; beside it the entitlement as it came due."""
    if found.at <= found.start:
        return []
    days = steps(found.start, found.at, Step.DAY)
    amounts = usage.by_step([node], cluster, days.starts, days.end)[node.pk]
    delivered, even, grown = 0, 0, [Grown(found.start, 0, 0)]
    for (_, end), amount in zip(days.bounds(), amounts, strict=True):
        delivered, even = delivered + amount.charged_milli_s, even + amount.entitled_milli_s
        grown.append(Grown(end, delivered, even))
    return grown


def due_of(found: Pace, grown: Sequence[Grown]) -> list[tuple[datetime, int]]:
    """The entitlement as it came and will come due, up to the end of the period."""
    due = [(each.at, each.even_milli_s) for each in grown]
    at = found.at
    for amount in found.to_come_milli_s:
        at = min(at + DAY, found.end)
        due.append((at, due[-1][1] + amount))
    return due


def sentence(node: BudgetNode, cluster: Cluster, found: Pace, span: Span) -> str:
    """How the node does, as one would say it."""
    if found.used is None:
        return gettext("{code} is entitled to nothing on {cluster} from {words}.").format(
            code=node.code, cluster=cluster.name, words=span.words
        )
    if found.at <= found.start:
        return gettext("{words} has not begun.").format(words=span.words)
    used, gone = formats.measured_percent(found.used), formats.measured_percent(found.gone)
    if found.is_over:
        return gettext("{code} used {used} of what {words} entitled it to.").format(
            code=node.code, used=used, words=span.words
        )
    said = gettext("{code} has used {used} of what {words} entitles it to, with {gone} of it gone: {pace}.").format(
        code=node.code, used=used, words=span.words, gone=gone, pace=pace_words(found)
    )
    if found.forecast is None:
        return said
    whole = found.entitled_milli_s
    low, high = (
        formats.measured_percent(Fraction(amount, whole))
        for amount in (found.forecast.low_milli_s, found.forecast.high_milli_s)
    )
    return gettext("{said} By the end it will probably be {low} to {high}.").format(said=said, low=low, high=high)


def pace_words(found: Pace) -> str:
    """Ahead of, behind, or about at an even use."""
    assert found.used is not None
    assert found.gone is not None
    points = round((found.used - found.gone) * 100)
    if abs(points) <= EVEN_POINTS:
        return gettext("about an even pace")
    if points > 0:
        return gettext("{points} points ahead of an even pace").format(points=points)
    return gettext("{points} points behind an even pace").format(points=-points)
