"""What the last forecast says of one workload, and how good forecasts have been. A fixed number of queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from budgets.models import Cluster
from scheduler.models import Forecast, ForecastStart, Workload
from scheduler.services.emergency import STOPPED
from scheduler.services.forecasts import SOON, TrackRecord, look, track_record

WHOLE_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Foretold:
    """When a workload starts, likely.

    Attributes:
        state: of the forecast in the making, or of the last one: waiting, running, finished or failed; empty where
            none was ever asked for.
        percent: how far the one in the making is.
        error: why the last one failed.
        at: the instant whose state the range was made from; None where no range is known.
        low_at, middle_at, high_at: the 10th, 50th and 90th percentile; None is "later" than `until`.
        until: how far it looked.
        draws: futures that it was made from.
        record: how good such ranges have been on this cluster.
    """

    state: str = ""
    percent: int = 0
    error: str = ""
    at: datetime | None = None
    low_at: datetime | None = None
    middle_at: datetime | None = None
    high_at: datetime | None = None
    until: datetime | None = None
    draws: int = 0
    record: TrackRecord = field(default_factory=lambda: TrackRecord(0, 0))

    @property
    def is_known(self) -> bool:
        """Whether there is a range."""
        return self.at is not None

    @property
    def is_coming(self) -> bool:
        """Whether one is in the making."""
        return self.state in Forecast.OPEN_STATES

    @property
    def has_failed(self) -> bool:
        """Whether the last one failed."""
        return self.state == Forecast.State.FAILED


@dataclass(frozen=True, slots=True)
class Latest:
    """What the forecasts of all workloads of a cluster go by: the last one, if any, and how good they have been."""

    forecast: Forecast | None
    record: TrackRecord


def latest_of(cluster: Cluster, now: datetime) -> Latest:
    """As it is now; a fresh forecast is asked for where the last one is old, as somebody looks."""
    return Latest(look(cluster, now=now), track_record(cluster))


def of_workload(workload: Workload, since: datetime, now: datetime, known: Latest | None = None) -> Foretold:
    """The forecast for one that waits.

    Args:
        workload: which; of one that does not wait, or that waits on a stopped cluster, nothing is foretold.
        since: since when it waits: an older forecast was about another wait of it.
        now: what lies before is over.
        known: what is known of its cluster's forecasts; else it is looked for.
    """
    if workload.state != Workload.State.QUEUED or workload.reason_code == STOPPED:
        return Foretold()
    known = known or latest_of(workload.cluster, now)
    latest, record = known.forecast, known.record
    if latest is None:
        return Foretold()
    percent = WHOLE_PERCENT * latest.draws // latest.draws_wanted if latest.draws_wanted else 0
    start = (
        ForecastStart.objects.filter(
            workload=workload,
            forecast__state=Forecast.State.FINISHED,
            forecast__looks_back=False,
            forecast__at__gte=since,
        )
        .select_related("forecast")
        .defer("futures")
        .order_by("-forecast__id")
        .first()
    )
    if start is None and latest.at is not None and latest.at < since:
        latest = look(workload.cluster, fresh_for=SOON, now=now) or latest
    if start is None or start.forecast.at is None or start.forecast.at + _horizon(start) <= now:
        return Foretold(latest.state, percent, latest.error, record=record)
    at = start.forecast.at

    def instant(seconds: int | None) -> datetime | None:
        return None if seconds is None else max(now, at + timedelta(seconds=seconds))

    return Foretold(
        state=latest.state,
        percent=percent,
        error=latest.error,
        at=at,
        low_at=instant(start.low_s),
        middle_at=instant(start.middle_s),
        high_at=instant(start.high_s),
        until=at + _horizon(start),
        draws=start.forecast.draws,
        record=record,
    )


def _horizon(start: ForecastStart) -> timedelta:
    return timedelta(seconds=start.forecast.horizon_s)
