"""Forecasts of when what waits starts: made by a worker when somebody looks, kept, and laid beside what came true.

A cluster has one forecast in the making at most. Whoever looks asks for it (`look`); where the last one is older than
FRESH_FOR, another is made. What is shown is the last finished one. Of those that are over, one each KEPT_EVERY is kept,
with the real starts: so pages say how good forecasts have been, and the factors that widen or narrow ranges
(simulator/ranges.py) are learned from the cluster's own past as soon as there is enough of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

import structlog
from celery import current_app
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from budgets.models import Cluster
from scheduler.models import Forecast, ForecastStart, Run, Workload
from scheduler.queries import outlook
from scheduler.services import simulating
from scheduler.simulator.forecast import DRAWS, HORIZON_S, Present, forecast
from scheduler.simulator.ranges import Past, Range, Stretch, learn, range_of, stretch_for
from scheduler.snapshots import Loaded

log = structlog.get_logger(__name__)

FRESH_FOR = timedelta(minutes=4)
"""A forecast this old is made again, when somebody looks."""
RETRY_AFTER = timedelta(minutes=15)
SOON = timedelta(seconds=45)
"""One that came after the last forecast has another made when that one is so old."""
KEPT_EVERY = timedelta(hours=1)
"""Of older forecasts, one each hour is kept, to be laid beside what came true."""
KEPT_FOR = timedelta(days=60)
LOST_AFTER = timedelta(minutes=4)
"""A forecast whose worker gave no sign for so long is taken to be lost."""
BUDGET_S = 150
"""No forecast draws for longer; one that is cut short must have drawn LEAST_DRAWS futures."""
LEAST_DRAWS = 8
TIME_LIMIT_S = 240
MOST_WAITING = 400
"""Workloads a forecast is about: the first in the order. Those behind them are told that it is later."""
LEARNED_FROM = 2_000
"""The latest forecasts with a known end that factors are learned from."""
SHIPPED: Mapping[str, Stretch] = {
    "": Stretch(0.82, 1.0),
    "debug": Stretch(0.86, 1.02),
    "standard": Stretch(0.96, 1.32),
    "large": Stretch(0.86, 1.18),
    "unallocated": Stretch(0.62, 1.0),
}
"""Factors of a cluster without a past of its own: those of `manage.py forecast_check --lab 11 --lab 12 --lab 13`."""
State = Forecast.State
OPEN = Forecast.OPEN_STATES
Outcome = ForecastStart.Outcome


@dataclass(frozen=True, slots=True)
class TrackRecord:
    """How good ranges have been: of `count` whose real start is known, `held` held."""

    count: int
    held: int

    @property
    def percent(self) -> int | None:
        """The part that held, rounded down; None without any."""
        return 100 * self.held // self.count if self.count else None


# --- asking -----------------------------------------------------------------------------------------------------------


def look(
    cluster: Cluster, *, again: bool = False, fresh_for: timedelta = FRESH_FOR, now: datetime | None = None
) -> Forecast | None:
    """The cluster's last forecast; a fresh one is asked for where it is old.

    One that failed is asked for again by itself after a while (RETRY_AFTER).

    Args:
        cluster: which.
        again: try again now, after one that failed.
        fresh_for: how old it may be.
        now: the instant.
    """
    instant = now or timezone.now()
    last = Forecast.objects.filter(cluster=cluster, looks_back=False).order_by("-id").first()
    if last is not None and last.state in OPEN:
        if (last.touched_at or last.asked_at) > instant - LOST_AFTER:
            return last
        _give_up(last, instant)
        last.refresh_from_db()
    if last is not None and not again:
        kept_for = RETRY_AFTER if last.state == State.FAILED else fresh_for
        if (last.ended_at or last.asked_at) > instant - kept_for:
            return last
    return _ask(cluster, instant) or last


def _ask(cluster: Cluster, now: datetime) -> Forecast | None:
    try:
        with transaction.atomic():
            row = Forecast.objects.create(cluster=cluster, asked_at=now, draws_wanted=DRAWS, horizon_s=HORIZON_S)
    except IntegrityError:  # somebody else asked meanwhile
        return Forecast.objects.filter(cluster=cluster, state__in=OPEN).first()
    transaction.on_commit(lambda: _send(row.pk), robust=True)
    return row


def _send(forecast_id: int) -> None:
    _send_on("scheduler.tasks.make_forecast", forecast_id)


def _send_on(task: str, pk: int) -> None:
    """Give a worker something to do. Where no broker takes it, it is given up, and asked for again by who looks."""
    if not settings.CELERY_BROKER_URL:
        return
    work = current_app.signature(task, args=[pk], queue=simulating.QUEUE, immutable=True)
    try:
        work.apply_async(retry=False, expires=LOST_AFTER.total_seconds())
    except Exception as error:  # whatever kombu or the socket raises
        log.warning("forecast_not_sent", task=task, pk=pk, error=str(error))


def _give_up(row: Forecast, now: datetime) -> None:
    Forecast.objects.filter(pk=row.pk, state__in=OPEN).update(
        state=State.FAILED, ended_at=now, error="No worker answered. Is one running for the queue of simulations?"
    )


# --- making -----------------------------------------------------------------------------------------------------------


def make(forecast_id: int) -> bool:
    """Make a forecast that was asked for. Says False where it was not this worker's to make, or did not finish."""
    now = timezone.now()
    if not Forecast.objects.filter(pk=forecast_id, state=State.WAITING).update(state=State.RUNNING, touched_at=now):
        return False
    row = Forecast.objects.select_related("cluster").get(pk=forecast_id)
    began_s = time.monotonic()
    try:
        settle(row.cluster)
        present, loaded = outlook.present(row.cluster)
        about = _first(present, loaded)
        found = forecast(
            present,
            Random(row.pk),
            about=about,
            draws=row.draws_wanted,
            horizon_s=row.horizon_s,
            on_draw=lambda number: _go_on(row, number, began_s),
        )
    except SoftTimeLimitExceeded:
        return _end(row, began_s, error=f"It took longer than {TIME_LIMIT_S // 60} minutes: the cluster is too busy.")
    except Exception:
        log.exception("forecast_broke", forecast=forecast_id)
        return _end(row, began_s, error="It broke off; the fault has been logged.")
    drawn = min((len(each) for each in found.values()), default=row.draws_wanted)
    if drawn < min(LEAST_DRAWS, row.draws_wanted):
        return _end(row, began_s, error=f"Only {drawn} futures could be drawn in {BUDGET_S} s.")
    with transaction.atomic():
        if not _end(row, began_s, at=loaded.now, draws=drawn):
            return False
        _store(row, found, present, loaded)
    _send_on("scheduler.tasks.look_back", row.cluster_id)
    return True


def _first(present: Present, loaded: Loaded) -> list[str]:
    """Those that it is about: the first in the order."""

    def rank(code: str) -> tuple[bool, int, str]:
        place = loaded.workloads[code].place
        return place is None, place or 0, code

    return sorted(present.waiting(), key=rank)[:MOST_WAITING]


def _go_on(row: Forecast, number: int, began_s: float) -> bool:
    """Show how far it is; whether there is time for another future."""
    Forecast.objects.filter(pk=row.pk, state=State.RUNNING).update(draws=number, touched_at=timezone.now())
    spent_s = time.monotonic() - began_s
    return spent_s + spent_s / number < BUDGET_S


def _end(row: Forecast, began_s: float, *, error: str = "", **values: object) -> bool:
    took_ms = round(1_000 * (time.monotonic() - began_s))
    state = State.FAILED if error else State.FINISHED
    ours = Forecast.objects.filter(pk=row.pk, state=State.RUNNING)
    return bool(ours.update(state=state, ended_at=timezone.now(), took_ms=took_ms, error=error, **values)) and not error


def _store(row: Forecast, found: Mapping[str, list[int | None]], present: Present, loaded: Loaded) -> None:
    """The ranges, and an end to those of the forecast before, unless its hour keeps it."""
    kinds = {each.id: each.like.kind for each in present.work}
    learned = learned_on(row.cluster)
    starts = []
    for code, futures in found.items():
        told = range_of(futures, row.horizon_s, stretch_for(kinds[code], learned))
        starts.append(
            ForecastStart(
                forecast=row,
                workload_id=loaded.workloads[code].pk,
                kind=kinds[code],
                futures=futures,
                low_s=told.low_s,
                middle_s=told.middle_s,
                high_s=told.high_s,
            )
        )
    ForecastStart.objects.bulk_create(starts, batch_size=500)
    _forget(row)


def _forget(latest: Forecast) -> None:
    """Drop older ones but for the first of each hour, and all that are very old."""
    older = Forecast.objects.filter(cluster=latest.cluster, looks_back=False, pk__lt=latest.pk).exclude(state__in=OPEN)
    kept: set[int] = set()
    drop: list[int] = []
    for pk, state, at in older.order_by("pk").values_list("pk", "state", "at"):
        hour = 0 if at is None else int(at.timestamp() // KEPT_EVERY.total_seconds())
        if state != State.FINISHED or hour in kept or at is None or at < latest.asked_at - KEPT_FOR:
            drop.append(pk)
        else:
            kept.add(hour)
    Forecast.objects.filter(pk__in=drop).delete()


# --- what came true ---------------------------------------------------------------------------------------------------


def settle(cluster: Cluster, now: datetime | None = None) -> int:
    """Look up what really became of those that were forecast. Of how many it is known now."""
    instant = now or timezone.now()
    rows = list(
        ForecastStart.objects.filter(outcome="", forecast__cluster=cluster, forecast__state=State.FINISHED)
        .select_related("forecast", "workload")
        .defer("futures")
    )
    if not rows:
        return 0
    first_at = min(row.forecast.at for row in rows if row.forecast.at is not None)
    began: dict[int, list[datetime]] = {}
    runs = Run.objects.filter(workload__in={row.workload_id for row in rows}, started_at__gt=first_at)
    for workload_id, started_at in runs.order_by("started_at").values_list("workload_id", "started_at"):
        began.setdefault(workload_id, []).append(started_at)
    known = [row for row in rows if _judge(row, began.get(row.workload_id, []), instant)]
    ForecastStart.objects.bulk_update(known, ["outcome", "start_s"], batch_size=500)
    return len(known)


def _judge(row: ForecastStart, began: Sequence[datetime], now: datetime) -> bool:
    """Note whether the real start lay in the range, if that is certain by now."""
    forecast_row = row.forecast
    assert forecast_row.at is not None
    start = next((at for at in began if at > forecast_row.at), None)
    if start is not None:
        row.start_s = int((start - forecast_row.at).total_seconds())
        told = Range(row.low_s, row.middle_s, row.high_s)
        row.outcome = Outcome.HELD if told.holds(row.start_s, forecast_row.horizon_s) else Outcome.MISSED
        return True
    if row.workload.state not in (Workload.State.QUEUED, Workload.State.HELD) and row.workload.ended_at is not None:
        row.outcome = Outcome.LEFT
        return True
    passed_s = int((now - forecast_row.at).total_seconds())
    if passed_s >= forecast_row.horizon_s:  # it starts "later"
        row.outcome = Outcome.HELD if row.high_s is None else Outcome.MISSED
        return True
    return False


def track_record(cluster: Cluster) -> TrackRecord:
    """How good the cluster's forecasts of the last weeks have been. One query."""
    counts = _settled(cluster).aggregate(count=Count("pk"), held=Count("pk", filter=Q(outcome=Outcome.HELD)))
    return TrackRecord(counts["count"], counts["held"])


def learned_on(cluster: Cluster) -> Mapping[str, Stretch]:
    """Factors learned from the cluster's own forecasts whose end is known; with too few of them, those shipped."""
    rows = _settled(cluster).select_related("forecast").order_by("-pk")[:LEARNED_FROM]
    past = [Past(row.kind, 0, row.futures, row.start_s) for row in rows]
    return {**SHIPPED, **learn(past, HORIZON_S)}


def _settled(cluster: Cluster) -> QuerySet[ForecastStart]:
    """Those with a known end, of forecasts that are as old as they looked ahead: of younger ones only quick starts are
    known, which would flatter or shame them.
    """
    over = timezone.now() - timedelta(seconds=HORIZON_S)
    return ForecastStart.objects.filter(
        forecast__cluster=cluster, forecast__at__lte=over, outcome__in=(Outcome.HELD, Outcome.MISSED)
    )
