"""The network as a fluid: rates, iterations, shifts that are kept, leaves and spines."""

from __future__ import annotations

import random
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.policies.cassini import Phase, Profile
from scheduler.simulator.fluid import Ended, Fabric, Fluid, max_min

LINK = 50_000


def profile(period_ms: int, from_ms: int, until_ms: int, gbps: int) -> Profile:
    """That computes, and then sends at one rate."""
    return Profile(period_ms, (Phase(from_ms, until_ms, gbps * 1_000),))


def run(profiles: list[Profile], shifts_ms: list[int], for_ms: int = 65_520) -> tuple[list[float], float]:
    """All on one link: the mean iteration of each, and the part of the time in which the link was overloaded."""
    fluid = Fluid({"L1": LINK})
    for number, each in enumerate(profiles):
        fluid.start(str(number), each, ["L1"], for_ms // each.period_ms)
    for number, shift_ms in enumerate(shifts_ms):
        fluid.shift(str(number), shift_ms, keeps=True)
    means: dict[str, float] = {}
    overload = 0.0
    while len(means) < len(profiles):
        ended = fluid.run()
        assert ended is not None
        means[ended.name] = sum(ended.took_ms) / len(ended.took_ms)
        overload = fluid.overload_ms["L1"] / fluid.now_ms if len(means) == 1 else overload
    return [means[str(number)] for number in range(len(profiles))], overload


TICK_MS = 0.1
"""The worked examples were counted in ticks of this; what ends inside one ends with it."""


@pytest.mark.parametrize(
    ("profiles", "shifts_ms", "iterations_ms", "overload"),
    [
        pytest.param([profile(100, 50, 100, 45)] * 2, [], [140.0, 140.0], 0.6416, id="C3 unshifted"),
        pytest.param([profile(100, 50, 100, 45)] * 2, [0, 50], [100.1, 100.1], 0.0020, id="C3 shifted"),
        pytest.param([profile(40, 30, 40, 50), profile(60, 50, 60, 50)], [], [43.33, 65.06], 0.1533, id="C1 unshifted"),
        pytest.param(
            [profile(40, 30, 40, 50), profile(60, 50, 60, 50)], [0, 10], [40.03, 60.05], 0.0016, id="C1 shifted"
        ),
    ],
)
def test_the_worked_examples(
    profiles: list[Profile], shifts_ms: list[int], iterations_ms: list[float], overload: float
) -> None:
    means, overloaded = run(profiles, shifts_ms)
    assert means == pytest.approx(iterations_ms, abs=TICK_MS + 0.01)
    assert overloaded == pytest.approx(overload, abs=2.1 * TICK_MS / min(iterations_ms))


def test_the_worked_examples_without_ticks() -> None:
    assert run([profile(100, 50, 100, 45)] * 2, [])[0] == pytest.approx([140, 140], abs=1e-6)
    means, overloaded = run([profile(40, 30, 40, 50), profile(60, 50, 60, 50)], [])
    assert means == pytest.approx([130 / 3, 65], abs=1e-6)
    assert overloaded == pytest.approx(2 / 13, abs=1e-6)  # 20 ms of each 130


# --- rates ------------------------------------------------------------------------------------------------------------


def test_who_wants_less_has_it_and_the_others_share_the_rest() -> None:
    links_of = {"a": ["L1"], "b": ["L1"], "c": ["L1"], "alone": []}
    found = max_min({"a": 10, "b": 40, "c": 40, "alone": 99}, links_of, {"L1": 50})
    assert found == {"a": 10, "b": 20, "c": 20, "alone": 99}


def test_the_narrowest_link_decides_and_leaves_room_elsewhere() -> None:
    links_of = {"long": ["L1", "L2"], "a": ["L1"], "b": ["L2"], "c": ["L2"]}
    found = max_min(dict.fromkeys(links_of, 100), links_of, {"L1": 50, "L2": 60})
    assert found == {"long": 20, "b": 20, "c": 20, "a": 30}


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_rates_are_max_min_fair(data: st.DataObject) -> None:
    """Nobody is above their demand and no link above what it carries; whoever is below is kept so by a full link on
    which nobody has more."""
    capacities = {f"L{index}": data.draw(st.integers(1, 60)) for index in range(4)}
    demands = {f"j{index}": data.draw(st.integers(1, 60)) for index in range(5)}
    links_of = {name: data.draw(st.lists(st.sampled_from(sorted(capacities)), unique=True)) for name in demands}
    rates = max_min(demands, links_of, capacities)
    used = {link: sum(rates[name] for name in rates if link in links_of[name]) for link in capacities}
    assert all(used[link] <= capacities[link] + 1e-9 for link in capacities)
    for name, demand in demands.items():
        assert 0 < rates[name] <= demand
        if rates[name] < demand - 1e-9:
            assert any(
                used[link] >= capacities[link] - 1e-9
                and rates[name] >= max(rates[other] for other in rates if link in links_of[other]) - 1e-9
                for link in links_of[name]
            )


# --- places -----------------------------------------------------------------------------------------------------------


def test_a_shift_delays_the_next_iteration_once() -> None:
    fluid = Fluid({})
    fluid.start("a", profile(100, 50, 100, 45), [], 3)
    fluid.run(10)
    fluid.shift("a", 30, keeps=False)
    assert fluid.run() == Ended("a", pytest.approx([100, 130, 100]))


def test_whoever_keeps_a_place_waits_where_it_would_be_early() -> None:
    fluid = Fluid({}, lambda: 0.98)
    fluid.start("a", profile(100, 50, 100, 45), [], 3)
    fluid.shift("a", 0, keeps=True)
    assert fluid.run() == Ended("a", pytest.approx([99, 100, 100]))
    fluid.start("b", profile(100, 50, 100, 45), [], 3)
    assert fluid.run() == Ended("b", pytest.approx([99, 99, 99]))


def test_whoever_has_drifted_by_more_than_a_twentieth_waits_for_its_next_place() -> None:
    delays = iter([1.08, 1.04, 1.0, 1.0])  # of 50 ms: 4 ms late, then 6, and so 94 for the next place
    fluid = Fluid({}, lambda: next(delays))
    fluid.start("a", profile(100, 50, 100, 45), [], 4)
    fluid.shift("a", 0, keeps=True)
    assert fluid.run() == Ended("a", pytest.approx([104, 102, 194, 100]))


def test_whoever_can_t_keep_a_place_does_not_wait_in_each_iteration() -> None:
    fluid = Fluid({}, lambda: 1.2)  # 110 ms instead of 100
    fluid.start("a", profile(100, 50, 100, 45), [], 500)
    fluid.shift("a", 0, keeps=True)
    ended = fluid.run()
    assert ended is not None
    waits = [took_ms for took_ms in ended.took_ms if took_ms > 110 + 1e-6]
    assert 5 <= len(waits) <= 5 + 500 // 50


def test_whoever_is_released_goes_on_as_it_likes() -> None:
    fluid = Fluid({}, lambda: 0.98)
    fluid.start("a", profile(100, 50, 100, 45), [], 3)
    fluid.shift("a", 0, keeps=True)
    fluid.run(10)
    fluid.release("a")
    assert fluid.run() == Ended("a", pytest.approx([99, 99, 99]))


def test_luck_is_the_callers() -> None:
    def total_ms(seed: int) -> float:
        fluid = Fluid({"L1": LINK}, partial(random.Random(seed).lognormvariate, 0, 0.01))
        fluid.start("a", profile(100, 50, 100, 45), ["L1"], 50)
        ended = fluid.run()
        assert ended is not None
        return sum(ended.took_ms)

    assert total_ms(1) == total_ms(1) != total_ms(2)


# --- leaves, spines, and what is refused ------------------------------------------------------------------------------


def test_gangs_use_the_uplinks_of_their_leaves_unless_one_holds_them() -> None:
    fabric = Fabric(leaves=3, servers=4, nic_mbps=50_000, oversubscription=2)
    assert fabric.capacities() == {"L1": 100_000, "L2": 100_000, "L3": 100_000}
    assert fabric.links_of([4, 5, 7]) == ()
    assert fabric.links_of([3, 4, 5]) == ("L1", "L2")


@pytest.mark.parametrize(
    ("leaves", "oversubscription", "message"),
    [
        (0, 2.0, "leaves: must be above 0, but is 0"),
        (1, 0.0, "oversubscription: must be above 0, but is 0.0"),
        (1, float("nan"), "oversubscription: must be above 0, but is nan"),
        (1, 1e9, "oversubscription: 1e+09 leaves less than 1 Mbit/s to a leaf"),
    ],
)
def test_what_is_no_network_is_refused(leaves: int, oversubscription: float, message: str) -> None:
    with pytest.raises(ValueError) as error:
        Fabric(leaves, 2, 50_000, oversubscription)
    assert str(error.value) == message


def test_what_the_network_can_t_do_is_refused() -> None:
    one = profile(100, 50, 100, 45)
    with pytest.raises(ValueError, match="L1: must carry something, but carries 0 Mbit/s"):
        Fluid({"L1": 0})
    fluid = Fluid({"L1": LINK})
    fluid.start("a", one, ["L1"], 1)
    for name, links, iterations, message in (
        ("a", ["L1"], 1, "a: is on the network already"),
        ("b", ["L9"], 1, "b: there is no link L9"),
        ("b", ["L1"], 0, "b: must do an iteration or more, but does 0"),
    ):
        with pytest.raises(ValueError, match=message):
            fluid.start(name, one, links, iterations)
    with pytest.raises(KeyError):
        fluid.shift("b", 0, keeps=True)
