"""How far a budget is used beside how far its time is gone, and where it will probably stand at the end.

The forecast is a resampling, not a promise: the days still to come are filled with stretches of STRETCH_DAYS days that
are drawn from the last HISTORY_DAYS, each day's delivered as a part of what that day was entitled to, and laid on what
the days to come are entitled to (changes of shares that are decided already included). That the past is itself only a
sample widens the range. It knows no holidays, and no change of habits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from random import Random

from budgets import queries as budget_queries
from budgets.models import BudgetNode, Cluster
from scheduler.models import Device
from scheduler.queries import usage
from scheduler.queries.usage import Books, Series, Step

DAY = timedelta(days=1)
DAY_S = 86_400
HISTORY_DAYS = 28
HISTORY_DAYS_MIN = 7
STRETCH_DAYS = 3
DRAWS = 1_000
RANGE_PERCENT = 80
MILLI = 1_000


@dataclass(frozen=True, slots=True)
class Forecast:
    """Delivered from the start to the end of the period: the middle of the draws, and the range that holds 80 % of
    them.

    `history_days` is how many past days were drawn from.
    """

    low_milli_s: int
    middle_milli_s: int
    high_milli_s: int
    history_days: int


@dataclass(frozen=True, slots=True)
class Pace:
    """A budget in a period [start, end), as it stands at `at`, a whole hour.

    Attributes:
        to_come_milli_s: what each stretch of 24 hours from `at` on is entitled to, the last one cut at the end: with
            the devices of now, and with the shares of now and as decided.
        known_from: the first hour of the period of which anything is known; None where nothing is.
        books: of the time that is over.
        forecast: None where nothing is to come, or too little is known.
    """

    start: datetime
    at: datetime
    end: datetime
    to_come_milli_s: Sequence[int]
    known_from: datetime | None
    books: Books
    forecast: Forecast | None

    @property
    def entitled_milli_s(self) -> int:
        """What the whole period entitles to."""
        return self.books.entitled_milli_s + sum(self.to_come_milli_s)

    @property
    def gone(self) -> Fraction | None:
        """How much of what the period entitles to has come due: its time, weighed by the shares of each day."""
        return Fraction(self.books.entitled_milli_s, self.entitled_milli_s) if self.entitled_milli_s else None

    @property
    def used(self) -> Fraction | None:
        """Delivered as a part of what the whole period is entitled to."""
        return Fraction(self.books.charged_milli_s, self.entitled_milli_s) if self.entitled_milli_s else None

    @property
    def is_over(self) -> bool:
        """Whether nothing is to come."""
        return self.at >= self.end


def pace(node: BudgetNode, cluster: Cluster, start: datetime, end: datetime, at: datetime) -> Pace:
    """How a node does in [start, end), seen from `at` (the end of the last whole hour that is known).

    A number of queries that no length of time raises.
    """
    at = min(at, end)
    known_from = min(start, at - HISTORY_DAYS * DAY)
    history = usage.series(node, cluster, known_from, at, Step.HOUR)
    known = [point for point in history.points if point.start >= start]
    books = sum((point.books for point in known), Books())
    to_come = _entitled_by_day(node, cluster, at, end)
    ratios = _ratios(history, at)
    forecast = None
    if at < end and len(ratios) >= HISTORY_DAYS_MIN and any(to_come):
        forecast = _forecast(ratios, to_come, books.charged_milli_s, seed=f"{node.pk} {cluster.pk} {end:%Y-%m-%d}")
    return Pace(start, at, end, to_come, known[0].start if known else None, books, forecast)


def _entitled_by_day(node: BudgetNode, cluster: Cluster, at: datetime, end: datetime) -> list[int]:
    """What each stretch of 24 hours from `at` on is entitled to; the last one is cut at the end."""
    if at >= end:
        return []
    size_milli = MILLI * Device.objects.filter(node__cluster=cluster, node__retired_at=None).count()
    first, last = budget_queries.day_of(at), budget_queries.day_of(end)
    steps = budget_queries.entitlement_steps(node, cluster, first, last + DAY)
    found = []
    while at < end:
        until = min(at + DAY, end)
        entitlement = _on(steps, budget_queries.day_of(at))
        found.append(int(entitlement * size_milli * int((until - at).total_seconds())))
        at = until
    return found


def _on(steps: Sequence[tuple[date, Fraction]], day: date) -> Fraction:
    """The entitlement in force on a day."""
    return next((value for begin, value in reversed(steps) if begin <= day), Fraction(0))


def _ratios(history: Series, at: datetime) -> list[float]:
    """Delivered over entitled in each of the last HISTORY_DAYS spans of 24 hours that is wholly known, in order."""
    sums: dict[int, list[int]] = {}
    for point in history.points:
        back = (at - point.start - timedelta(hours=1)) // DAY
        if back < HISTORY_DAYS:
            span = sums.setdefault(back, [0, 0, 0])
            span[0] += point.books.charged_milli_s
            span[1] += point.books.entitled_milli_s
            span[2] += 1
    return [
        charged / entitled
        for _, (charged, entitled, hours) in sorted(sums.items(), reverse=True)
        if entitled and hours == 24
    ]


def _forecast(ratios: Sequence[float], to_come: Sequence[int], so_far: int, *, seed: str) -> Forecast:
    """Draw, always the same for the same node and period, and take the middle and the range.

    What is known of the past is itself a sample: so each draw first draws what the past could have been, and moves all
    days to come by the difference of the means. Without that, the range is too narrow, the more so the longer it is.
    """
    chance = Random(seed)
    mean = sum(ratios) / len(ratios)
    whole = sum(to_come)
    # Behind the last day comes the first one again.
    stretches = [[ratios[(begin + step) % len(ratios)] for step in range(STRETCH_DAYS)] for begin in range(len(ratios))]
    ends = []
    for _ in range(DRAWS):
        past = _drawn(stretches, len(ratios), chance)
        moved = sum(past) / len(past) - mean
        days = _drawn(stretches, len(to_come), chance)
        total = sum(ratio * entitled for ratio, entitled in zip(days, to_come, strict=True)) + moved * whole
        ends.append(max(0.0, total))
    ends.sort()
    tail = DRAWS * (100 - RANGE_PERCENT) // 200
    low, middle, high = (so_far + round(ends[place]) for place in (tail, DRAWS // 2, DRAWS - 1 - tail))
    return Forecast(low, middle, high, len(ratios))


def _drawn(stretches: Sequence[Sequence[float]], days: int, chance: Random) -> list[float]:
    """So many days, in stretches that begin anywhere."""
    found: list[float] = []
    while len(found) < days:
        begin = chance.randrange(len(stretches))
        found += stretches[begin]
    return found[:days]
