"""The time that a page of figures is about, as its address says it.

`?window=` is one of a few lengths that end now, `?from=` and `?until=` are two days, both included. `?as_of=` reads a
window as it stood at the end of that day, so that an address can be kept and means the same later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy

from budgets.queries import midnight, today
from portal import formats
from portal.pages import choice, day_named
from scheduler.queries.spans import Steps, steps
from scheduler.queries.usage import Step

DAY = timedelta(days=1)
DAYS_MAX = 92
"""The longest time of one page."""
HOURLY_UP_TO = 7
"""Days up to which a chart has a point for each hour."""
EARLIEST = date(2000, 1, 1)

WINDOWS: Mapping[str, tuple[int, Any]] = {
    "1d": (1, gettext_lazy("24 hours")),
    "7d": (7, gettext_lazy("7 days")),
    "28d": (28, gettext_lazy("28 days")),
}
"""Days and words of each window."""


@dataclass(frozen=True, slots=True)
class Period:
    """[start, end) in whole hours, that began in the past. `window` is its key, or empty for two days that were named.

    Attributes:
        words: "the last 7 days", "the days from Thu 25 Jun 2026 to Thu 2 Jul 2026": what stands behind "in".
        on: the last day.
        is_past: whether it ended before today, so that it will never change any more.
        now: when the page was asked for.
    """

    start: datetime
    end: datetime
    window: str
    words: str
    on: date
    is_past: bool
    now: datetime

    @property
    def step(self) -> Step:
        """How long a point of a chart is."""
        return Step.HOUR if self.end - self.start <= HOURLY_UP_TO * DAY else Step.DAY

    @property
    def live_end(self) -> datetime:
        """Its end for what needs no whole hours: now, where it is not past."""
        return self.end if self.is_past else self.now

    @property
    def steps(self) -> Steps:
        """Its hours or days."""
        return steps(self.start, self.end, self.step)

    @property
    def keeps(self) -> str:
        """The parameters that mean this very time for good."""
        if self.window:
            return f"window={self.window}&as_of={self.on}"
        return f"from={formats.local(self.start).date()}&until={self.on}"

    def context(self) -> dict[str, Any]:
        """What figures/_period.html shows."""
        return {
            "period": self,
            "windows": {key: words for key, (_, words) in WINDOWS.items()},
            "now": self.now,
            "since": formats.local(self.start).date(),
        }


def period_named(request: HttpRequest, default: str = "7d") -> Period:
    """The time that the address asks for.

    Raises:
        BadRequest: an unknown window, no date, a time that is not over an hour of the past, or one that is too long.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    hour = now.replace(minute=0, second=0)
    if "from" in request.GET or "until" in request.GET:
        return _days_named(request, now, hour)
    window = choice(request, "window", dict(WINDOWS), default)
    days, words = WINDOWS[window]
    on = day_named(request, "as_of", today())
    _check_past("as_of", on)
    end = min(midnight(on + DAY).astimezone(UTC), hour)
    is_past = on < today()
    said = gettext("the {words} up to {day}") if is_past else gettext("the last {words}")
    return Period(end - days * DAY, end, window, said.format(words=words, day=formats.day(on)), on, is_past, now)


def _days_named(request: HttpRequest, now: datetime, hour: datetime) -> Period:
    if "from" not in request.GET or "until" not in request.GET or "window" in request.GET or "as_of" in request.GET:
        raise BadRequest(gettext("from and until: give both, and no window or as_of beside them"))
    first, last = day_named(request, "from", today()), day_named(request, "until", today())
    _check_past("until", last)
    if not EARLIEST <= first <= last:
        raise BadRequest(gettext("from: {first} is not a day up to {last}").format(first=first, last=last))
    if (last - first).days >= DAYS_MAX:
        raise BadRequest(
            gettext("from: {first} is more than {days} days before {last}").format(
                first=first, days=DAYS_MAX, last=last
            )
        )
    start, end = midnight(first).astimezone(UTC), min(midnight(last + DAY).astimezone(UTC), hour)
    if start >= end:
        raise BadRequest(gettext("from: the first hour of {first} is not over yet").format(first=first))
    said = gettext("the day {first}") if first == last else gettext("the days from {first} to {last}")
    words = said.format(first=formats.day(first), last=formats.day(last))
    return Period(start, end, "", words, last, last < today(), now)


def _check_past(field: str, day: date) -> None:
    """A day that is over, or today."""
    if not EARLIEST <= day <= today():
        raise BadRequest(gettext("{field}: {day} is not a day of the past").format(field=field, day=day))
