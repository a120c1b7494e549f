"""A forecast in words, and as marks on a strip of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext, ngettext

from portal import formats
from scheduler.queries.forecast import Foretold
from scheduler.services.forecasts import TrackRecord

LEAST_STRIP = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Said:
    """What a page says of a forecast.

    `low`, `middle` and `high` are per cent of a strip of time from now to `ends_at`.
    """

    foretold: Foretold
    sentence: str
    basis: str
    record: str
    ends_at: datetime | None = None
    low: float = 0.0
    middle: float = 0.0
    high: float = 100.0


def said_of(foretold: Foretold, now: datetime) -> Said:
    """In words."""
    if not foretold.is_known:
        return Said(foretold, "", "", record_said(foretold.record))
    ends_at = _end(foretold, now)
    marks = (_part(at, now, ends_at) for at in (foretold.low_at, foretold.middle_at, foretold.high_at))
    record = record_said(foretold.record)
    return Said(foretold, _sentence(foretold, now), _basis(foretold), record, ends_at, *marks)


def _end(foretold: Foretold, now: datetime) -> datetime:
    """The strip ends where the forecast did, or, for a range that is near, somewhat after it."""
    assert foretold.until is not None
    if foretold.high_at is None:
        return foretold.until
    return min(foretold.until, now + max(LEAST_STRIP, 2 * (foretold.high_at - now)))


def _part(at: datetime | None, now: datetime, ends_at: datetime) -> float:
    """Where an instant lies on the strip, in per cent."""
    if at is None or ends_at <= now:
        return 100.0
    return round(min(100.0, max(0.0, 100 * ((at - now) / (ends_at - now)))), 1)


def _sentence(foretold: Foretold, now: datetime) -> str:
    def near(at: datetime) -> str:
        return formats.near_instant(at, now)

    assert foretold.until is not None
    if foretold.low_at is None:
        return gettext("Probably after {until}: in nine of ten futures it has not started by then.").format(
            until=near(foretold.until)
        )
    if foretold.high_at is None:
        middle = (
            gettext("in half of the futures by {middle}").format(middle=near(foretold.middle_at))
            if foretold.middle_at is not None
            else gettext("in more than half of the futures not by then")
        )
        return gettext("Probably not before {low}, perhaps after {until}; {middle}.").format(
            low=near(foretold.low_at), until=near(foretold.until), middle=middle
        )
    if foretold.middle_at is None:
        return gettext("Probably between {low} and {high}.").format(
            low=near(foretold.low_at), high=near(foretold.high_at)
        )
    return gettext("Probably between {low} and {high}; in half of the futures by {middle}.").format(
        low=near(foretold.low_at), high=near(foretold.high_at), middle=near(foretold.middle_at)
    )


def _basis(foretold: Foretold) -> str:
    assert foretold.at is not None
    return ngettext(
        "From {draws} future that the simulator ran from the state of {at}, with what such work took before.",
        "From {draws} futures that the simulator ran from the state of {at}, with what such work took before.",
        foretold.draws,
    ).format(draws=formats.count(foretold.draws), at=formats.instant(foretold.at))


def record_said(record: TrackRecord) -> str:
    """How good ranges have been."""
    if record.percent is None:
        return gettext("No range of this cluster is old enough yet to say how good they are; 80 % should hold.")
    return ngettext(
        "Of the last {count} forecast whose end is known, {percent} % held; 80 % should.",
        "Of the last {count} forecasts whose end is known, {percent} % held; 80 % should.",
        record.count,
    ).format(count=formats.count(record.count), percent=record.percent)
