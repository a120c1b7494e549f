"""Forecasts in hindsight: a cluster with a past has some at once, with their real starts, and learns from them."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from scheduler.models import Forecast, ForecastStart, Run
from scheduler.services import forecasts, hindsight
from scheduler.services.forecasts import SHIPPED
from scheduler.simulator.ranges import ENOUGH
from tests.scheduler.pasts import simulated, store
from tests.scheduler.test_history_scenario import DAY_S, House, at

DAYS = 20


@pytest.fixture
def house(transactional_db: None) -> House:
    """Two nodes, and twenty days of more work than they can do at once."""
    house = House()
    chance = Random(5)
    workloads = []
    for number in range(DAYS * 9):
        leaf = chance.choice(("A1", "A2", "B"))
        workloads.append(
            {
                "id": f"{leaf}-{number:04d}",
                "leaf": leaf,
                "submit": number * DAY_S // 9 + chance.randrange(3_600),
                "gpus": chance.choice((4, 8, 8, 16)),
                "min_runtime": chance.choice(("30m", "1h", "2h")),
                "duration": f"{chance.randrange(60, 420)}m",
            }
        )
    outcome = simulated(
        cluster={"nodes": 2, "gpus_per_node": 8},
        tree={"A": {"shares": 5, "children": {"A1": 6, "A2": 4}}, "B": 4},
        workloads=workloads,
        until=f"{DAYS}d",
    )
    store(house.cluster, outcome, house.node, at(0))
    return house


def test_a_past_is_forecast_in_hindsight_once(house):
    now = at(DAYS * DAY_S)
    made = hindsight.look_back(house.cluster, now)
    rows = list(Forecast.objects.filter(looks_back=True).order_by("at"))
    assert made == len(rows) > 3
    assert hindsight.look_back(house.cluster, now) == 0 or made < hindsight.WANTED
    starts = ForecastStart.objects.filter(forecast__in=rows).select_related("forecast", "workload")
    for each in starts:
        # What is said to be the real start is that of its next run, if that was within the horizon.
        real = (
            Run.objects.filter(workload=each.workload, started_at__gt=each.forecast.at)
            .order_by("started_at")
            .values_list("started_at", flat=True)
            .first()
        )
        after_s = None if real is None else int((real - each.forecast.at).total_seconds())
        assert each.start_s == (None if after_s is None or after_s >= forecasts.HORIZON_S else after_s)
        assert each.workload.submitted_at <= each.forecast.at
    record = forecasts.track_record(house.cluster)
    assert record.count == starts.count() > 0
    assert record.held == starts.filter(outcome="held").count()
    # It is no forecast of now, and ranges are learned from it where there is enough.
    assert (forecasts.learned_on(house.cluster)[""] != SHIPPED[""]) == (starts.count() >= ENOUGH)
    row = forecasts.look(house.cluster)
    assert (row.state, row.looks_back) == ("waiting", False)


def test_a_short_past_is_none(house):
    assert hindsight.look_back(house.cluster, at(11 * DAY_S) - timedelta(hours=1)) == 0
    assert Forecast.objects.count() == 0
