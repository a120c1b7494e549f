"""Finish-time fairness as Themis has it: its worked examples, the auction, and the order inside a leaf."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

import pytest

from scheduler.engine import Arrival, Crowd, Crowds, Policy, Run, Service, Workload, auction, locality, themis
from scheduler.engine.policies import Themis
from scheduler.engine.policies.auction import Bid, Machines, choose, floored, partial_allocation
from scheduler.engine.policies.crowds import NOBODY
from scheduler.engine.values import urgency_of
from scheduler.simulator import as_json, parse, simulate
from tests.engine.worlds import NOW_S, node, snapshot

HOUR_S = 3_600

# --- rho --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "slowdown", "shared_s", "rho"),
    [(1, "1.0", 4_680, 1.30), (2, "1.0", 3_240, 0.90), (4, "1.0", 2_520, 0.70), (4, "1.4", 2_808, 0.78),
     (4, "2.0", 3_240, 0.90)],
)  # fmt: skip
def test_the_worked_example(gpus: int, slowdown: str, shared_s: int, rho: float) -> None:
    serial_s = Fraction("3.6")
    alone_s = themis.alone_s(1_000 * serial_s / min(16, 4), 4)
    assert alone_s == 3_600
    found = themis.shared_s(1_800, 800 * serial_s / gpus, Fraction(slowdown))
    assert (found, float(found / alone_s)) == (shared_s, rho)


@pytest.mark.parametrize(("slowdown_milli", "rho"), [(1_000, 0.70), (1_400, 0.78), (2_000, 0.90)])
def test_the_worked_example_as_the_order_has_it(slowdown_milli: int, rho: float) -> None:
    """Four GPUs since 1,800 s: 720 of 900 s are left, four have been there all the while."""
    service = Service(predicted_s=900, executed_s=180, arrival=Arrival(0, 0, 0))
    upper, lower = Themis(1).rho(service, 1_800, 1_800, Crowd(4, 4 * 1_800), slowdown_milli)
    assert upper / lower == pytest.approx(rho)


@pytest.mark.parametrize(
    ("ran_s", "slowdown_milli", "left_s"),
    [(0, 1_500, 1_080), (600, 1_500, 480), (600, 1_000, 120), (1_080, 1_500, 0), (2_000, 1_500, 0)],
)
def test_a_run_that_is_spread_works_off_less_in_a_second(ran_s: int, slowdown_milli: int, left_s: int) -> None:
    service = Service(predicted_s=900, executed_s=180, arrival=Arrival(0, 0, 0))
    upper, lower = Themis(1).rho(service, 1_000, 1_000 + ran_s, NOBODY, slowdown_milli)
    assert Fraction(upper, lower) == Fraction(1_000 + ran_s + left_s, 900)


@pytest.mark.parametrize(
    ("gpus", "servers", "slowdown_milli"),
    [(8, 1, 1_000), (8, 2, 1_000), (8, 8, 1_529), (16, 2, 1_000), (16, 4, 1_066), (16, 8, 1_529), (16, 16, 1_529),
     (32, 4, 1_000), (32, 8, 1_433)],
)  # fmt: skip
def test_how_much_longer_it_takes_is_the_price_of_spreading(gpus: int, servers: int, slowdown_milli: int) -> None:
    assert locality.slowdown_milli(gpus * 1_000, servers, 8_000) == slowdown_milli


@pytest.mark.parametrize(("servers", "level"), [(2, 1), (8, 2)])
def test_one_that_is_spread_is_further_behind(servers: int, level: int) -> None:
    """It came 1.9 h ago and takes 2 h on 2 nodes: rho is 3.9 / 2 there, and (1.9 + 2 x 1.529) / 2 = 2.48 on 8."""
    service = Service(predicted_s=2 * HOUR_S, arrival=Arrival(NOW_S - 19 * HOUR_S // 10, 0, NOW_S - 19 * HOUR_S // 10))
    holdings = {f"h{number}": 16_000 // servers for number in range(servers)}
    held = Run("a/1", "a", "A", holdings, True, 300, NOW_S, NOW_S, service=service)
    seen = snapshot({"A": 1}, nodes=[node(name) for name in holdings], runs=[held], leaf_order=Themis(1))
    assert seen.runs["a/1"].urgency == urgency_of(held.priority, level)


def test_fewer_than_one_are_never_there() -> None:
    assert themis.alone_s(100, Fraction(1, 2)) == 100


# --- the auction ------------------------------------------------------------------------------------------------------


def on_two_machines(name: str, nothing: str, one: str, local: str, split: str, four: str) -> Bid:
    """What one bids for what there is on two machines of two devices."""
    worth = {(1, 0): one, (0, 1): one, (2, 0): local, (0, 2): local, (1, 1): split, (2, 2): four}
    return Bid(name, Fraction(nothing), {bundle: Fraction(value) for bundle, value in worth.items()})


def test_each_keeps_what_its_hidden_payment_leaves() -> None:
    bids = [on_two_machines("A", ".10", ".25", ".5", ".3", ".6"), on_two_machines("B", ".20", ".3", ".4", ".4", ".8")]
    won = partial_allocation(bids, Machines((2, 2)))
    assert won == [("A", (2, 0), Fraction(1, 2)), ("B", (0, 2), Fraction(5, 6))]
    assert [floored(each.bundle, each.part) for each in won] == [(1, 0), (0, 1)]


def test_whoever_stands_in_nobodys_way_pays_nothing() -> None:
    bids = [on_two_machines(name, ".1", ".2", ".4", ".3", ".4") for name in "AB"]
    assert [each.part for each in partial_allocation(bids, Machines((2, 2)))] == [1, 1]


def test_more_than_nothing_for_as_many_as_possible_comes_before_the_product() -> None:
    all_of_it = Bid("large", Fraction(0), {(4,): Fraction(100)})
    little = [Bid(name, Fraction(0), {(1,): Fraction(1, 10), (4,): Fraction(1)}) for name in "ab"]
    found = choose([all_of_it, *little], Machines((4,)))
    assert found.bundles == {"a": (1,), "b": (1,)}
    assert found.value == (2, Fraction(1, 100))
    # Without a, the one device of b would be the large one's four: .1 / 100.
    won = partial_allocation([all_of_it, *little], Machines((4,)))
    assert won == [("a", (1,), Fraction(1, 1_000)), ("b", (1,), Fraction(1, 1_000))]


def test_who_keeps_another_from_anything_keeps_nothing_itself() -> None:
    bids = [Bid(name, Fraction(0), {(1,): Fraction(1)}) for name in "ab"]
    assert partial_allocation(bids, Machines((1,))) == [("a", (1,), 0)]


def random_auction(seed: int) -> tuple[list[Bid], Machines]:
    """A few bids for a few devices."""
    chance = random.Random(seed)
    machines = chance.randint(1, 3)
    bids = []
    for index in range(chance.randint(2, 6)):
        bundles = [tuple(chance.randint(0, 2) for _ in range(machines)) for _ in range(chance.randint(1, 3))]
        worth = {bundle: Fraction(chance.randint(1, 30), 10) for bundle in bundles if any(bundle)}
        bids.append(Bid(str(index), Fraction(chance.choice([0, 1, 2]), 10), worth))
    return bids, Machines(tuple(chance.randint(0, 3) for _ in range(machines)))


def every_choice(bids: list[Bid], offer: Machines) -> list[tuple[int, Fraction]]:
    """What all combinations are worth, one after the other."""
    if not bids:
        return [(0, Fraction(1))]
    first, *rest = bids
    ways = [(first.nothing, offer)]
    ways += [(value, left) for bundle, value in first.worth.items() if (left := offer.without(bundle)) is not None]
    return [
        (number + (worth > 0), product * (worth if worth > 0 else 1))
        for worth, left in ways
        for number, product in every_choice(rest, left)
    ]


def test_small_auctions_are_decided_exactly_and_larger_ones_well(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(60):
        bids, offer = random_auction(seed)
        exact = choose(bids, offer)
        assert exact.is_exact
        assert exact.value == max(every_choice(bids, offer)) <= exact.bound
        assert all(0 <= won.part <= 1 for won in partial_allocation(bids, offer))
        monkeypatch.setattr(auction, "MOST_CHOICES", 0)
        searched = choose(bids, offer)
        monkeypatch.undo()
        assert not searched.is_exact
        assert searched.value[0] == exact.value[0]
        assert Fraction(9, 10) * exact.value[1] <= searched.value[1] <= exact.value[1]


def test_a_search_puts_one_in_the_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken by what they add for each device, the small one would keep the large one out."""
    small = Bid("small", Fraction(1), {(1,): Fraction(2)})
    large = Bid("large", Fraction(1), {(8,): Fraction(16)})
    monkeypatch.setattr(auction, "MOST_CHOICES", 0)
    found = choose([small, large], Machines((8,)))
    assert not found.is_exact
    assert found.bundles == {"large": (8,)}


# --- the order inside a leaf ------------------------------------------------------------------------------------------

ROUND_S = 1_200


def waits(at_s: int, predicted_s: int | None, executed_s: int = 0, crowd_s: int = 0) -> Workload:
    """One that came then, and waits."""
    service = Service(predicted_s=predicted_s, executed_s=executed_s, arrival=Arrival(at_s, crowd_s, at_s))
    return Workload("w", "A", 1_000, 300, at_s, service=service)


def test_rho_is_that_of_the_last_round_among_those_of_the_leaf() -> None:
    order = Themis(ROUND_S)
    crowd = Crowd(3, 2_400)  # three were there on average for 800 s, or two for all of them
    service = waits(0, 600).service
    for now_s in (1_200, 1_201, 2_399):
        assert Fraction(*order.rho(service, None, now_s, crowd)) == Fraction(1_200 + 600, 600 * 2)
        assert order.waiting(waits(0, 600), now_s, crowd).level == 1
    assert Fraction(*order.rho(service, 1_000, 1_300, crowd)) == Fraction(1_200 + 400, 600 * 2)
    assert order.running(1_000, service, 1_000, 1_300, crowd).level == 1


def test_whoever_came_since_has_waited_for_nothing_yet() -> None:
    assert Fraction(*Themis(ROUND_S).rho(waits(1_250, 600).service, None, 1_300, Crowd(3, 2_400))) == Fraction(1, 4)


@pytest.mark.parametrize(
    ("waited_s", "level"), [(0, 0), (600, 0), (601, 1), (1_800, 1), (1_801, 2), (4_200, 2), (4_201, 3)]
)
def test_a_level_for_each_doubling(waited_s: int, level: int) -> None:
    """Alone in the leaf, for 600 s of work started late: (waited + 600) / 1,200."""
    order = Themis(1)
    lives_s = max(1, waited_s)
    assert order.waiting(waits(0, 600), waited_s, Crowd(2, 2 * lives_s)).level == level


def test_of_one_level_the_larger_goes_first() -> None:
    order, crowd = Themis(1), Crowd(1, 1_000)
    short, long = (order.waiting(waits(0, predicted_s), 1_000, crowd) for predicted_s in (600, 900))
    assert (short.level, long.level) == (2, 2)
    assert short.turn < long.turn


def test_a_crowd_is_counted_as_workloads_come_and_go() -> None:
    crowds = Crowds(100, 0, {"A": Crowd(7, 5_000)})
    assert crowds.at_round["A"] == Crowd(7, 5_000)
    crowds.come("A", +1, 0)
    crowds.come("A", +1, 10)
    crowds.come("B", +1, 60)
    crowds.come("A", -1, 60)
    assert crowds.next_round_s(60) == crowds.next_round_s(99) == 100
    crowds.begin_round(100)
    assert crowds.at_round == {"A": Crowd(1, 5_000 + 100 + 50), "B": Crowd(1, 40)}
    assert crowds.total_s("A", 150) == 5_200


def simulated(*rows: dict[str, Any], **policy: Any) -> list[tuple[str, int, int | None]]:
    """Who ran when, with finish-time fairness inside leaf A of one node of 8."""
    scenario = {
        "cluster": {"nodes": {"h1": 8}},
        "tree": {"A": 1, "B": 1},
        "policy": {"leaf_order": "themis", **policy},
        "workloads": [{"leaf": "A", "gpus": 8, "min_runtime": 300, **row} for row in rows],
    }
    found = as_json(simulate(parse(json.dumps(scenario))))
    return [(run["workload"], run["start"], run["end"]) for run in found["runs"]]


LONG = {"id": "long", "submit": 0, "duration": 36_000, "estimate": 36_000}
SHORT = {"id": "short", "submit": 100, "duration": 1_200, "estimate": 1_200}


def test_nobody_yields_before_another_is_worse_off_than_with_a_share_apart() -> None:
    """rho of the short one is (elapsed + 1,200) / (1,200 x 2): at 2,400 it is over 1 for the first time."""
    assert simulated(LONG, SHORT) == [("long", 0, 2_400), ("short", 2_400, 3_600), ("long", 3_600, 37_200)]


def test_contracts_stand_above_it() -> None:
    assert simulated(LONG | {"min_runtime": 7_200}, SHORT)[0] == ("long", 0, 7_200)


def test_rounds_are_as_long_as_the_policy_says() -> None:
    assert simulated(LONG, SHORT, round_s=60)[0] == ("long", 0, 1_320)
    with pytest.raises(ValueError, match="round_s: must be at least 1 s"):
        Policy(round_s=0)
