"""Orders inside a leaf that others have published: their worked examples, and what becomes of them under contracts."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from scheduler.engine import Policy, Service, Workload
from scheduler.engine.policies import Distribution, Predictor, ShortestFirst, Tiresias, leaf_order_of
from scheduler.engine.policies.predicting import DEFAULT_S
from scheduler.simulator import as_json, parse, simulate

LIMITS = [3_250_000, 7_200_000]


def waits(attained_milli_s: int, first_started_s: int | None = None, predicted_s: int | None = None) -> Workload:
    """One that has attained so much."""
    return Workload("w", "A", 1_000, 300, 0, service=Service(attained_milli_s, first_started_s, predicted_s))


# --- Tiresias ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "seconds", "queue"),
    [(1, 3_249, 1), (1, 3_250, 2), (8, 406, 1), (8, 407, 2), (4, 1_800, 3), (16, 449, 2), (16, 450, 3)],
)
def test_whoever_reaches_a_limit_is_in_the_next_queue(gpus: int, seconds: int, queue: int) -> None:
    order = Tiresias(LIMITS)
    assert order.queue(gpus * 1_000 * seconds) + 1 == queue
    assert order.waiting(waits(gpus * 1_000 * seconds), 0).level == 3 - queue
    assert order.running(gpus * 1_000, Service(), 50, 50 + seconds).level == 3 - queue


def test_the_next_move_is_when_the_limit_is_really_reached() -> None:
    order = Tiresias(LIMITS)
    assert order.running(8_000, Service(), 1_000, 1_100) == (2, 0, 1_100 + 307)
    assert order.running(8_000, Service(attained_milli_s=800_000), None, 1_100) == (2, 0, None)
    assert order.running(8_000, Service(attained_milli_s=7_200_000), 1_000, 1_100) == (0, 0, None)


def test_in_a_queue_whoever_started_first_goes_first() -> None:
    order = Tiresias(LIMITS)
    assert order.waiting(waits(0, 40), 100).turn < order.waiting(waits(0, 50), 100).turn
    assert order.waiting(waits(0, 50), 100).turn < order.waiting(waits(0), 100).turn


@pytest.mark.parametrize(
    ("attained", "quantum", "index"),
    [(0, 4, Fraction(1, 12)), (0, 8, Fraction(1, 10)), (4, 4, Fraction(1, 8)), (4, 8, Fraction(1, 6)),
     (8, 4, Fraction(1, 4)), (12, 4, 0), (12, 8, 0)],
)  # fmt: skip
def test_the_gittins_index(attained: int, quantum: int, index: Fraction) -> None:
    assert Distribution([12, 4, 8]).gittins_index(attained, quantum) == index


def test_with_a_known_distribution_the_index_decides_in_a_queue() -> None:
    order = Tiresias([100_000], [40_000, 80_000, 95_000, 900_000])
    near_its_end, at_its_start = order.waiting(waits(70_000), 0), order.waiting(waits(0), 0)
    assert near_its_end.level == at_its_start.level == 1
    assert near_its_end.turn < at_its_start.turn


@pytest.mark.parametrize("limits", [[0], [5, 5], [7, 3], [-1, 4]])
def test_limits_rise(limits: list[int]) -> None:
    with pytest.raises(ValueError, match="must rise"):
        Tiresias(limits)


def promoted(knob: str, **service: Any) -> tuple[Tiresias, Workload]:
    """One that waits, under a starvation knob."""
    return Tiresias(LIMITS, promote_knob=Fraction(knob)), Workload("w", "A", 1_000, 300, 0, service=Service(**service))


def test_whoever_waited_long_enough_is_in_the_first_queue_again() -> None:
    order, workload = promoted("1.5", attained_milli_s=4_000_000, executed_s=4_001, waits_since_s=10_000)
    assert order.waiting(workload, 10_000)[0::2] == (1, 16_002)  # 10,000 + 1.5 x 4,001, rounded up
    assert order.waiting(workload, 16_001)[0::2] == (1, 16_002)
    assert order.waiting(workload, 16_002)[0::2] == (2, None)
    assert [order.forgives(workload.service, now_s) for now_s in (16_001, 16_002)] == [False, True]


def test_only_what_was_executed_since_the_last_promotion_counts() -> None:
    order, workload = promoted("1", attained_milli_s=4_000_000, executed_s=9_000, forgiven_s=5_000, waits_since_s=100)
    assert order.waiting(workload, 100).changes_at_s == 4_100


@pytest.mark.parametrize(
    "service",
    [{"attained_milli_s": 3_000_000, "executed_s": 3_000, "waits_since_s": 0}, {"attained_milli_s": 4_000_000}],
    ids=["in the first queue", "has not waited since a run"],
)
def test_nobody_else_is_promoted(service: dict[str, int]) -> None:
    order, workload = promoted("1", **service)
    assert order.waiting(workload, 1_000_000).changes_at_s is None
    assert not order.forgives(workload.service, 1_000_000)


def test_with_a_knob_of_0_nobody_is() -> None:
    order, workload = promoted("0", attained_milli_s=4_000_000, executed_s=4_000, waits_since_s=0)
    assert order.waiting(workload, 1_000_000)[0::2] == (1, None)
    assert leaf_order_of(Policy(leaf_order="tiresias")).forgives(workload.service, 1_000_000) is False
    with pytest.raises(ValueError, match="promote_knob: -1 is negative"):
        Policy(promote_knob=Fraction(-1))


# --- shortest first ---------------------------------------------------------------------------------------------------


def test_the_most_specific_past_predicts() -> None:
    predictor = Predictor()
    assert predictor.predict("train.py", "ada") == DEFAULT_S == 600
    predictor.learn("train.py", "ada", 100)
    predictor.learn("train.py", "ada", 140)
    predictor.learn("eval.py", "ada", 30)
    predictor.learn("train.py", "ben", 1_000)
    assert predictor.predict("train.py", "ada") == 120
    assert predictor.predict("new.py", "ada") == 90
    assert predictor.predict("train.py", "eve") == 413  # of the same name, whoever ran it
    assert predictor.predict("new.py", "eve") == 318


def test_the_shortest_goes_first_and_nobody_takes_over() -> None:
    order = ShortestFirst()
    assert order.waiting(waits(0, predicted_s=50), 0) == (0, 50, None)
    assert order.waiting(waits(0), 0).turn == 600
    assert order.running(1_000, Service(predicted_s=50), 0, 10) == order.running(1_000, Service(predicted_s=9), 0, 10)


# --- under contracts --------------------------------------------------------------------------------------------------


def laboratory(order: str, *workloads: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One node of 8 GPUs, one team (and one that asks for nothing), with an order inside leaves."""
    return {
        "cluster": {"nodes": {"h1": 8}},
        "tree": {"A": 1, "B": 1},
        "policy": {"leaf_order": order, "attained_limits": [3_250, 7_200], "grace_s": 60, **more},
        "workloads": list(workloads),
    }


def simulated(scenario: dict[str, Any]) -> dict[str, Any]:
    """What `simulate --json` prints."""
    return as_json(simulate(parse(json.dumps(scenario))))


def runs_of(found: dict[str, Any], name: str) -> list[tuple[int, int | None]]:
    """From when to when a workload ran."""
    return [(run["start"], run["end"]) for run in found["runs"] if run["workload"] == name]


def asks(name: str, submit: int, duration: int, contract: int = 300, gpus: int = 8, **more: Any) -> dict[str, Any]:
    """A workload of A."""
    return {
        "id": name,
        "leaf": "A",
        "submit": submit,
        "gpus": gpus,
        "min_runtime": contract,
        "duration": duration,
        **more,
    }


def test_whoever_has_attained_more_yields_when_its_contract_is_over() -> None:
    found = simulated(laboratory("tiresias", asks("old", 0, 3_600), asks("new", 100, 300)))
    assert runs_of(found, "old") == [(0, 407), (707, 3_900)]
    assert runs_of(found, "new") == [(407, 707)]
    told = [each for each in found["decisions"] if each["workload"] == "old" and each["action"] == "preempt"]
    assert [(each["at"], each["reason"]["code"]) for each in told] == [(407, "preempted_priority")]
    assert told[0]["reason"]["text"] == (
        "new took its 8 GPUs. Its contract was over, and new has attained less service in the same project."
    )


def test_no_contract_is_cut_short_by_an_order() -> None:
    found = simulated(laboratory("tiresias", asks("old", 0, 3_600, contract=1_800), asks("new", 100, 300)))
    assert runs_of(found, "old") == [(0, 1_800), (2_100, 3_900)]


def test_priority_still_comes_first() -> None:
    found = simulated(laboratory("tiresias", asks("old", 0, 3_600, priority=1), asks("new", 100, 300)))
    assert runs_of(found, "old") == [(0, 3_600)]


def test_no_order_inside_a_leaf_decides_between_teams() -> None:
    first = {**asks("a", 0, 3_600, contract=300), "gpus": 4}
    other = {**asks("b", 0, 600, contract=300), "leaf": "B", "gpus": 4}
    found = simulated(laboratory("tiresias", first, other))
    assert runs_of(found, "a") == [(0, 3_600)]


CROWDED = [asks("old", 0, 3_600), asks("n1", 100, 1_200), asks("n2", 100, 1_200), asks("n3", 1_000, 1_200)]


def test_whoever_is_promoted_starts_anew() -> None:
    """Each runs for 407 s in the first queue. Without promotion, the old one would wait until nobody new is left."""
    assert runs_of(simulated(laboratory("tiresias", *CROWDED)), "old")[1] == (2_121, 2_614)
    found = simulated(laboratory("tiresias", *CROWDED, promote_knob=2))
    # It waits from 407 on, and is in the first queue again at 407 + 2 x 407; it started before n3. What it has executed
    # since counts anew: it yields after 407 s once more, and is promoted once more, by these alone.
    assert runs_of(found, "old")[:3] == [(0, 407), (1_221, 1_628), (2_442, 2_849)]


def test_a_promotion_is_seen_at_its_instant_between_passes() -> None:
    rows = [asks("old", 0, 3_600), asks("n1", 100, 4_000), asks("n2", 300, 300)]
    found = simulated(laboratory("tiresias", *rows, promote_knob=1, pass_every_s=3_600, attained_limits=[3_250]))
    # n1 leaves the first queue at 814. In that second the old one is back in it, ahead of n2, which has never started.
    assert runs_of(found, "old")[:2] == [(0, 407), (814, 1_221)]


def test_the_shortest_of_a_leaf_starts_first() -> None:
    rows = [asks("first", 0, 600), asks("long", 10, 900, estimate=900), asks("short", 20, 60, estimate=60)]
    found = simulated(laboratory("shortest", *rows))
    assert [runs_of(found, name) for name in ("first", "short", "long")] == [[(0, 600)], [(600, 660)], [(660, 1_560)]]


def test_without_estimates_it_learns_from_what_has_ended() -> None:
    rows = [
        asks("eval1", 0, 60, user="ada", group="eval"),
        asks("train1", 0, 600, user="ada", group="train"),
        asks("between", 100, 1_000, user="ben"),
        asks("train2", 900, 600, user="ada", group="train"),
        asks("eval2", 1_000, 60, user="ada", group="eval"),
    ]
    found = simulated(laboratory("shortest", *rows))
    assert [runs_of(found, name)[0][0] for name in ("between", "eval2", "train2")] == [660, 1_660, 1_720]


def test_a_policy_names_an_order_that_there_is() -> None:
    assert leaf_order_of(Policy()) is None
    with pytest.raises(
        ValueError, match="leaf_order: must be one of priority, tiresias, gittins, shortest, themis, not 'lifo'"
    ):
        Policy(leaf_order="lifo")
    with pytest.raises(ValueError, match="attained_limits: must be 1 to 16 numbers that rise from above 0"):
        Policy(attained_limits=(5, 5))
