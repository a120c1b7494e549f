"""Forecasts: what is drawn from the past, that a future is lived as the engine lives it, and that ranges hold 80 %."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from scheduler.simulator import parse
from scheduler.simulator.forecast import Ahead, forecast, future_of
from scheduler.simulator.known import Knowledge, Watched, in_slots
from scheduler.simulator.likely import DAY_S, Arrival, Arrivals, Durations, Like
from scheduler.simulator.ranges import ENOUGH, Past, Range, Stretch, learn, quantile, range_of, score
from scheduler.simulator.scenario import PastUse
from scheduler.simulator.world import order_at

HOUR_S = 3_600


def like(owner: str = "ada", leaf: str = "A1", kind: str = "standard", size: int = 8, hours: int = 2) -> Like:
    return Like(owner, leaf, kind, size * 1_000, hours * HOUR_S)


# --- drawing ----------------------------------------------------------------------------------------------------------


def drawn(durations: Durations, of: Like, done_s: int = 0) -> set[int]:
    return {durations.draw(of, done_s, Random(seed)) for seed in range(200)}


def test_durations_come_from_the_owner_then_the_leaf_then_the_class():
    ada = [(like("ada"), 100 + number) for number in range(8)]
    ben = [(like("ben"), 200 + number) for number in range(8)]
    other = [(like("cem", leaf="B1", size=64, hours=1), 300 + number) for number in range(8)]
    known = Durations([*ada, *ben, *other])
    assert drawn(known, like("ada")) == set(range(100, 108))
    assert drawn(known, like("dan")) == {*range(100, 108), *range(200, 208)}
    assert drawn(known, like("dan", leaf="C1", size=1, hours=1)) == set(range(300, 308))


def test_what_has_run_so_long_already_runs_longer_still():
    known = Durations([(like(), seconds) for seconds in range(100, 200, 5)])
    assert drawn(known, like(), done_s=150) == set(range(155, 200, 5))
    assert min(drawn(known, like(), done_s=500)) > 500


def test_few_of_its_own_are_not_enough_to_speak_for_it():
    known = Durations([(like("ada"), 100), *((like("ben"), 200 + number) for number in range(8))])
    assert drawn(known, like("ada")) == {100, *range(200, 208)}


def test_arrivals_are_a_past_day_of_each_leaf_and_workdays_of_workdays():
    # Now is a Wednesday; day -1 is Tuesday (from Tuesday's hour to now), -4 and -3 are Saturday and Sunday.
    past = [Arrival(-day * DAY_S + 60 * day, like(size=day), 0, True, 10) for day in range(1, 15)]
    arrivals = Arrivals(past, 14 * DAY_S, weekday=2)
    seen = {
        tuple(each.like.size_milli // 1_000 for _, each in arrivals.draw(DAY_S, Random(seed))) for seed in range(99)
    }
    assert seen == {(day,) for day in (1, 2, 5, 6, 7, 8, 9, 12, 13, 14)}
    instants = {(at_s, each.like.size_milli // 1_000) for at_s, each in arrivals.draw(DAY_S, Random(1))}
    assert all(at_s == 60 * day for at_s, day in instants)


# --- living a future --------------------------------------------------------------------------------------------------


def workload(name: str, at: int, gpus: int = 8, contract: str = "1h", duration: str = "3h", **more: object) -> dict:
    return {"id": name, "leaf": "A", "submit": at, "gpus": gpus, "min_runtime": contract, "duration": duration, **more}


def scenario(*workloads: dict, **more: object):
    """Two nodes of eight, two leaves with equal shares."""
    return parse(
        json.dumps(
            {
                "cluster": {"nodes": 2, "gpus_per_node": 8},
                "tree": {"A": 1, "B": 1},
                "workloads": list(workloads),
                "policy": {"grace_s": 60},
                **more,
            }
        )
    )


def at_instant(made, at_s: int) -> tuple[Knowledge, Watched]:
    world = Watched(made, [at_s])
    world.run()
    return Knowledge(world.outcome), world


@pytest.mark.parametrize("leaf", ["A", "B"])
def test_without_luck_a_future_is_what_really_happened(leaf):
    """Ten of the same duration have ended: so what runs and waits takes as long, and every future is the real one."""
    past = [workload(f"past-{number}", 4 * HOUR_S * number) for number in range(10)]
    start_s = 60 * DAY_S  # long after the last: nothing comes in that could be drawn
    now = [
        workload("one", start_s),
        workload("two", start_s + 60, leaf="B"),
        workload("three", start_s + 600, leaf=leaf),
        workload("four", start_s + 700, gpus=16, leaf="B"),
    ]
    knowledge, world = at_instant(scenario(*past, *now), start_s + 1_800)
    present = knowledge.present(start_s + 1_800, world.plans[start_s + 1_800])
    present = type(present)(
        **{
            **{name: getattr(present, name) for name in present.__slots__},
            "durations": Durations([(each.like, 3 * HOUR_S) for each in present.work] * 10),
            "arrivals": Arrivals([], DAY_S, None),
        }
    )
    real = knowledge.waiting_starts(start_s + 1_800)
    found = forecast(present, Random(1), draws=3, horizon_s=DAY_S)
    assert found == {name: [at_s - start_s - 1_800] * 3 for name, at_s in real.items()}
    assert set(found) == {"three", "four"}


@pytest.mark.parametrize("order", ["shortest", "tiresias"])
def test_a_future_begins_with_all_that_the_engine_goes_by(order):
    """Predictions, what was forgiven, since when somebody waits, cores and memory: of who waits and of who runs."""
    two = [
        workload("one", 0, contract="5m", duration="9h", cpus=4, memory_gib=32, estimate="9h"),
        workload("two", 1_200, contract="5m", duration="8h", cpus=8, estimate="8h"),
        workload("three", 1_300, contract="5m", duration="7h", estimate="7h", locality=0),
    ]
    made = scenario(
        *two,
        cluster={"nodes": {"h1": 8}, "cpus": 16, "memory_gib": 64},
        policy={"leaf_order": order, "promote_knob": 1, "grace_s": 0, "locality_waits_s": ["10m", "20m", "30m"]},
    )
    for at_s in (1_250, 2 * HOUR_S, 6 * HOUR_S):
        queue, real = order_at(made, at_s)
        knowledge, world = at_instant(made, at_s)
        present = knowledge.present(at_s, world.plans[at_s])
        ahead = Ahead(present, future_of(present, Random(1), DAY_S), set())
        assert ahead.scheduler.order() == queue
        again = ahead.snapshot
        assert {name: facts(each, 0) for name, each in again.queued.items()} == {
            name: facts(each, at_s) for name, each in real.queued.items()
        }
        assert {run.workload: facts(run, 0) for run in again.runs.values()} == {
            run.workload: facts(run, at_s) for run in real.runs.values()
        }
    if order == "tiresias":
        assert any(record.forgivings for record in world.outcome.jobs), "somebody is promoted"


def facts(each: Any, at_s: int) -> list[Any]:
    """What the engine goes by of a workload or a run, on a clock that reads 0 at an instant."""
    service = each.service
    instants = [service.first_started_s, service.waits_since_s, getattr(each, "since_s", None)]
    return [
        replace(service, first_started_s=None, waits_since_s=None),
        [None if value is None else value - at_s for value in instants],
        *(
            getattr(each, name, None)
            for name in ("cpu_milli", "memory_mib", "locality", "spread", "priority", "urgency")
        ),
    ]


def test_what_comes_asks_for_what_its_like_asked_for():
    asked = {"cpu_milli": 4_000, "memory_mib": 1_024, "gpu_classes": ("A100",), "is_high": True, "locality": 3}
    past = Arrival(-HOUR_S, like(leaf="A"), 0, True, 600, predicted_s=700, **asked)
    made = scenario(workload("one", 0, gpus=16))
    knowledge, world = at_instant(made, 60)
    present = replace(knowledge.present(60, world.plans[60]), arrivals=Arrivals([past], DAY_S, None))
    (coming,) = [each for each in future_of(present, Random(1), DAY_S).jobs if each.submit_s is not None]
    assert {name: getattr(coming, name) for name in asked} == asked
    assert (coming.estimate_s, coming.duration_s) == (700, 600)


def test_a_promise_and_a_plan_are_taken_over():
    made = scenario(
        workload("old", 0, contract="10m", duration="9h"),
        workload("big", 60, leaf="B", gpus=16, contract="2h"),
        workload("young", 30, contract="4h", duration="9h"),
    )
    knowledge, world = at_instant(made, 5 * 60)
    assert [each.workload for each in world.plans[300].reservations] == ["big"]
    due_s = world.plans[300].reservations[0].at_s
    starts = forecast(knowledge.present(300, world.plans[300]), Random(2), draws=4)["big"]
    assert max(starts) <= due_s - 300 + 60


def test_who_does_not_start_in_time_starts_later():
    made = scenario(workload("long", 0, gpus=16, contract="8h", duration="200h"), workload("next", 60, gpus=16))
    knowledge, world = at_instant(made, 600)
    assert forecast(knowledge.present(600, world.plans[600]), Random(1), draws=2, horizon_s=HOUR_S) == {
        "next": [None, None]
    }


def test_a_forecast_stops_when_it_is_told_to():
    made = scenario(workload("one", 0, gpus=16), workload("two", 60, gpus=16))
    knowledge, world = at_instant(made, 600)
    told: list[int] = []
    found = forecast(
        knowledge.present(600, world.plans[600]), Random(1), draws=9, on_draw=lambda number: bool(told.append(number))
    )
    assert (told, len(found["two"])) == ([1], 1)


def test_past_use_in_slots_is_the_same_use():
    uses = [PastUse("A", 8_000, -5_000, -100), PastUse("A", 4_000, -1_000, 0), PastUse("B", 1_000, -90, -30, False)]

    def total(rows: list[PastUse], leaf: str) -> int:
        return sum(each.size_milli * (each.until_s - each.from_s) for each in rows if each.leaf == leaf)

    slots = in_slots(uses)
    for name in "AB":
        assert total(slots, name) == pytest.approx(total(uses, name), rel=0.01)
    assert all(-5_400 <= each.from_s < each.until_s <= 0 for each in slots)


def test_nothing_of_the_time_to_come_is_known():
    made = scenario(workload("one", 0, gpus=16), workload("two", 60, gpus=16), workload("three", 700))
    knowledge, world = at_instant(made, 600)
    present = knowledge.present(600, world.plans[600])
    assert [each.id for each in present.work] == ["one", "two"]
    assert present.durations.draw(like(), 600, Random(1)) > 600


# --- ranges -----------------------------------------------------------------------------------------------------------


def test_quantiles_and_later():
    assert quantile([30, 10, 20, None], 0.5) == 20
    assert quantile([30, 10, 20, None], 0.9) is None
    assert range_of([None] * 10, DAY_S, Stretch()) == Range(None, None, None)


@pytest.mark.parametrize(
    ("start_s", "low", "high", "held"),
    [(5, 10, 20, False), (10, 10, 20, True), (20, 10, 20, True), (21, 10, 20, False), (None, 10, 20, False),
     (None, 10, None, True), (9, 10, None, False), (None, None, None, True), (500, None, None, False)],
)  # fmt: skip
def test_a_range_holds_what_lies_in_it(start_s, low, high, held):
    assert Range(low, low, high).holds(start_s, 1_000) is held


@pytest.mark.parametrize("wrong_by", [0.3, 1.0, 3.0])
def test_what_is_learned_makes_ranges_hold_four_of_five(wrong_by):
    """Whether futures spread too little or too much: on others than it was learned from, 80 % hold."""
    chance = Random(7)

    def past(number: int) -> Past:
        middle = chance.uniform(7, 10)
        futures = [round(2.718 ** (middle + chance.gauss(0, 0.5))) for _ in range(20)]
        return Past("standard", number, futures, round(2.718 ** (middle + chance.gauss(0, 0.5 * wrong_by))))

    first, second = ([past(number) for number in range(1_500)] for _ in range(2))
    learned = learn(first, DAY_S)
    assert 0.77 <= score(second, DAY_S, learned)[""].part <= 0.83
    if wrong_by != 1.0:
        assert not 0.75 <= score(second, DAY_S, {})[""].part <= 0.85


def test_too_few_teach_nothing():
    assert learn([Past("debug", 0, [1, 2, 3], 2)] * (ENOUGH - 1), DAY_S) == {}
