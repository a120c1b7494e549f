"""Forecasts in hindsight: at past instants, with what was known then, for a cluster with a past but no forecasts.

So its ranges are learned from its own past, and pages say how good they would have been, before any forecast is old
enough. Each is stored with the real starts, as if it had been made then.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from random import Random

from django.db import IntegrityError, transaction
from django.utils import timezone

from budgets.errors import InputError
from budgets.models import Cluster
from scheduler.models import Forecast, ForecastStart, Workload
from scheduler.queries import stretch
from scheduler.services import forecasts
from scheduler.simulator.forecast import HORIZON_S, forecast
from scheduler.simulator.known import Knowledge
from scheduler.simulator.ranges import Range, range_of, stretch_for

PAST = timedelta(days=28)
WARM_UP = timedelta(days=10)
"""Of the past so much is only drawn from."""
WANTED = 20
"""Past instants that are forecast, where there are not as many forecasts with a known end."""
DRAWS = 12
MOST_WAITING = 60
"""Workloads of each: the first submitted; more would say the same of one instant."""
BUDGET_S = 60
"""After so long, no other instant is begun in one go."""


def look_back(cluster: Cluster, now: datetime | None = None) -> int:
    """Make forecasts in hindsight where too few are known to be good or bad. How many were made."""
    instant = (now or timezone.now()).replace(minute=0, second=0, microsecond=0)
    known = Forecast.objects.filter(cluster=cluster, state=Forecast.State.FINISHED)
    missing = WANTED - known.filter(at__lte=instant - timedelta(seconds=HORIZON_S)).count()
    first = Workload.objects.filter(cluster=cluster).order_by("submitted_at").values_list("submitted_at", flat=True)[:1]
    if missing <= 0 or not first or first[0] > instant - WARM_UP - 2 * timedelta(seconds=HORIZON_S):
        return 0
    start = max(first[0].replace(minute=0, second=0, microsecond=0), instant - PAST)
    try:
        found = stretch.read(cluster, start, instant)
    except InputError:  # nothing that could be looked back on
        return 0
    owners = Workload.objects.filter(cluster=cluster, owner__isnull=False).values_list("code", "owner_id")
    knowledge = Knowledge(found.real, {code: str(owner) for code, owner in owners}, unix_s=int(found.start.timestamp()))
    done = set(known.filter(looks_back=True).values_list("at", flat=True))
    made, began_s = 0, time.monotonic()
    for at in _instants(start + WARM_UP, instant - timedelta(seconds=HORIZON_S)):
        if at in done:
            continue
        if made >= missing or (made and time.monotonic() - began_s > BUDGET_S):
            break
        try:
            _make(cluster, knowledge, at, int((at - found.start).total_seconds()))
        except IntegrityError:  # another worker looks back, too
            break
        made += 1
    return made


def _instants(first: datetime, last: datetime) -> list[datetime]:
    """WANTED instants, evenly spread, on whole hours of Unix time, so that each look back finds the same ones again."""
    day_s = 86_400
    step_s = max(3_600, int((last - first).total_seconds()) // WANTED // 3_600 * 3_600)
    begin_s = -(-int(first.timestamp()) // day_s) * day_s
    return [datetime.fromtimestamp(second, UTC) for second in range(begin_s, int(last.timestamp()), step_s)]


def _make(cluster: Cluster, knowledge: Knowledge, at: datetime, at_s: int) -> None:
    present = knowledge.present(at_s)
    real = knowledge.waiting_starts(at_s)
    kinds = {each.id: each.like.kind for each in present.work}
    about = [name for name in present.waiting() if name in real][:MOST_WAITING]
    drawn = forecast(present, Random(at_s), about=about, draws=DRAWS, horizon_s=HORIZON_S)
    learned = forecasts.learned_on(cluster)
    codes = dict(Workload.objects.filter(code__in=drawn).values_list("code", "pk"))
    with transaction.atomic():
        row = Forecast.objects.create(
            cluster=cluster,
            state=Forecast.State.FINISHED,
            looks_back=True,
            at=at,
            horizon_s=HORIZON_S,
            draws=DRAWS,
            draws_wanted=DRAWS,
            ended_at=timezone.now(),
        )
        starts = []
        for name, futures in drawn.items():
            told = range_of(futures, HORIZON_S, stretch_for(kinds[name], learned))
            start_s = real[name]
            after_s = None if start_s is None or start_s - at_s >= HORIZON_S else start_s - at_s
            starts.append(
                ForecastStart(
                    forecast=row,
                    workload_id=codes[name],
                    kind=kinds[name],
                    futures=futures,
                    low_s=told.low_s,
                    middle_s=told.middle_s,
                    high_s=told.high_s,
                    start_s=after_s,
                    outcome=_outcome(told, after_s),
                )
            )
        ForecastStart.objects.bulk_create(starts, batch_size=500)


def _outcome(told: Range, start_s: int | None) -> str:
    held = told.holds(start_s, HORIZON_S)
    return ForecastStart.Outcome.HELD if held else ForecastStart.Outcome.MISSED
