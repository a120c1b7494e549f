"""Levels of locality that relax with wait (policies.md section 6: L1 to L3), and what spreading costs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from scheduler.engine import Action, Decision, Node, Plan, Policy, Reservation, Workload, decide, locality
from scheduler.engine.policies.locality import Gang, Looks, Part
from tests.engine.worlds import NOW_S, node, run, snapshot, workload

WAITS_S = (1_800, 3_600, 7_200)
POLICY = Policy(locality_waits_s=WAITS_S)
HOUR_S = 3_600


def racks(**names: str) -> list[Node]:
    """Nodes of 8 GPUs by rack: r1="h1 h2"."""
    return [node(name, rack=rack) for rack, members in names.items() for name in members.split()]


def gang(gpus: int = 16, *, waited_s: int = 0, locality: int = 3, **more: Any) -> Workload:
    """One that has been waiting for so long."""
    return workload("a", "A", gpus, locality=locality, submitted_s=NOW_S - waited_s, **more)


def plan_of(asks: Workload, policy: Policy = POLICY, **parts: Any) -> tuple[Plan, Decision]:
    """A pass with that alone in the queue, and what it says of it."""
    plan = decide(snapshot({"A": 1, "B": 1}, queue=[asks], locality_waits_s=policy.locality_waits_s, **parts), policy)
    (found,) = [each for each in plan.decisions if each.workload == "a" and each.action is not Action.RESERVE]
    return plan, found


def holding(**gpus: int) -> list[Any]:
    """Runs inside their contracts: so many GPUs of each node are held."""
    return [
        run(f"{name}/1", "B", number, on=name, started_s=NOW_S - 60, contract_s=4 * HOUR_S)
        for name, number in gpus.items()
    ]


# --- L1 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waited_s", "level", "nodes"), [(0, 0, 2), (1_799, 0, 2), (1_800, 1, 2), (3_600, 2, 4), (7_200, 3, 16)]
)
def test_a_level_is_reached_at_its_threshold(waited_s: int, level: int, nodes: int) -> None:
    assert locality.level_at(WAITS_S, 3, waited_s) == level
    assert locality.most_nodes(level, 16_000, 8_000) == nodes
    assert Gang(WAITS_S, 3, 16_000, 8_000, fits_rack=True, is_pinned=False).level_after(waited_s) == level


@pytest.mark.parametrize(("most", "level"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_nobody_looks_further_than_its_owner_allows(most: int, level: int) -> None:
    assert locality.level_at(WAITS_S, most, 10**9) == level


def test_without_thresholds_everybody_looks_in_any_rack() -> None:
    assert [locality.level_at((), most, waited_s) for most in range(4) for waited_s in (0, 10**9)] == [1] * 8


@pytest.mark.parametrize(
    ("most", "gpus", "waited_s", "asks"),
    [
        (3, 16, 0, (0, NOW_S + 1_800)),
        (3, 16, 1_800, (1, NOW_S + 1_800)),
        (3, 16, 7_200, (3, None)),
        (0, 16, 7_200, (0, None)),
        (1, 16, 100, (0, NOW_S + 1_700)),
        (1, 8, 0, (1, None)),
        (2, 8, 0, (1, NOW_S + 3_600)),
        (3, 3, 3_600, (1, NOW_S + 3_600)),  # not in two equal parts, only in three
        (3, 1, 0, (1, None)),
    ],
)
def test_what_changes_nothing_for_it_is_no_level(
    most: int, gpus: int, waited_s: int, asks: tuple[int, int | None]
) -> None:
    found = Gang(WAITS_S, most, gpus * 1_000, 8_000, fits_rack=True, is_pinned=False).asks(NOW_S - waited_s, NOW_S)
    assert found == asks


def test_parts_are_equal_and_on_few_nodes_first() -> None:
    assert locality.parts(2, 16_000, 8_000) == [Part(2, 8_000), Part(4, 4_000)]
    assert locality.parts(3, 12_000, 8_000) == [
        Part(2, 6_000),
        Part(3, 4_000),
        Part(4, 3_000),
        Part(6, 2_000),
        Part(12, 1_000),
    ]
    assert locality.parts(1, 16_000, 8_000) == locality.parts(3, 500, 8_000) == locality.parts(2, 3_000, 8_000) == []


# --- placement --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("waited_s", "starts"), [(0, False), (1_799, False), (1_800, True)])
def test_a_gang_that_one_rack_could_hold_waits_for_one_at_first(waited_s: int, starts: bool) -> None:
    nodes = racks(r1="h1 h2", r2="h3 h4")
    _, found = plan_of(gang(waited_s=waited_s), nodes=nodes, runs=holding(h1=8, h4=8))
    assert (found.action is Action.START) == starts


def test_one_that_no_rack_could_hold_looks_in_any() -> None:
    _, found = plan_of(gang(24), nodes=racks(r1="h1 h2", r2="h3 h4"))
    assert found.action is Action.START
    assert len(found.holdings) == 3


def test_a_rack_without_the_memory_that_is_asked_for_holds_nobody() -> None:
    nodes = [node(name, rack=rack, memory_mib=1_024) for rack, name in (("r1", "h1"), ("r2", "h2"))]
    nodes += [node(name, rack="r3", memory_mib=512) for name in ("h3", "h4")]
    _, found = plan_of(gang(memory_mib=1_024), nodes=nodes)
    assert sorted(found.holdings) == ["h1", "h2"]


def test_it_takes_the_rack_where_preempting_costs_least() -> None:
    nodes = racks(r1="h1 h2", r2="h3 h4")
    over = [run(f"{name}/1", "B", gpus, on=name) for name, gpus in {"h1": 8, "h2": 2, "h3": 2, "h4": 4}.items()]
    _, found = plan_of(gang(), nodes=nodes, runs=over)
    assert found.action is Action.CLAIM
    assert sorted(found.holdings) == ["h3", "h4"]


@pytest.mark.parametrize(
    ("waited_s", "most", "starts"), [(3_599, 3, False), (3_600, 3, True), (3_600, 2, True), (7_200, 1, False)]
)
def test_sixteen_gpus_are_spread_as_four_times_four(waited_s: int, most: int, starts: bool) -> None:
    nodes = racks(r1="h1 h2 h3", r2="h4 h5")
    busy = holding(h1=4, h2=3, h3=4, h4=3, h5=8)
    _, found = plan_of(gang(waited_s=waited_s, locality=most), nodes=nodes, runs=busy)
    assert (found.action is Action.START) == starts
    if starts:
        assert found.holdings == dict.fromkeys(("h1", "h2", "h3", "h4"), 4_000)


def test_five_and_eleven_are_no_equal_parts() -> None:
    _, found = plan_of(gang(waited_s=3_600), nodes=[node("h1", 16), node("h2", 16)], runs=holding(h1=11, h2=5))
    assert found.action is Action.WAIT


def test_the_third_threshold_lets_it_go_down_to_single_gpus() -> None:
    nodes = [node(f"h{index:02d}") for index in range(16)]
    busy = holding(**{each.name: 7 for each in nodes})
    assert plan_of(gang(waited_s=7_199), nodes=nodes, runs=busy)[1].action is Action.WAIT
    _, found = plan_of(gang(waited_s=7_200), nodes=nodes, runs=busy)
    assert found.holdings == {each.name: 1_000 for each in nodes}


def test_fewest_nodes_come_first_and_then_one_rack_and_the_fullest_nodes() -> None:
    nodes = racks(r1="h1 h2 h3", r2="h4 h5")
    _, found = plan_of(gang(8, waited_s=7_200), nodes=nodes, runs=holding(h1=4, h2=3, h3=4, h4=4, h5=7))
    assert found.holdings == {"h1": 4_000, "h3": 4_000}
    _, found = plan_of(gang(8, waited_s=7_200), nodes=[*nodes, node("h6")], runs=holding(h1=4, h2=3, h3=4, h4=4, h5=7))
    assert found.holdings == {"h6": 8_000}


def test_what_one_node_holds_is_spread_only_where_its_owner_allows() -> None:
    busy = holding(h1=4, h2=4)
    nodes = [node("h1"), node("h2")]
    assert plan_of(gang(8, waited_s=10**5, locality=1), nodes=nodes, runs=busy)[1].action is Action.WAIT
    assert plan_of(gang(8, waited_s=10**5, locality=2), nodes=nodes, runs=busy)[1].action is Action.START


def test_free_gpus_are_spread_over_before_anybody_is_preempted() -> None:
    nodes = [node("h1"), node("h2")]
    over = [run("b/1", "B", 4, on="h1"), run("b/2", "B", 4, on="h2")]
    plan, found = plan_of(gang(8, waited_s=10**5), nodes=nodes, runs=over)
    assert found.action is Action.START
    assert not [each for each in plan.decisions if each.action is Action.PREEMPT]


def test_a_spread_run_is_left_on_all_its_nodes_when_it_is_preempted() -> None:
    spread = run("b/1", "B", 8, holdings={"h1": 4_000, "h2": 4_000})
    single = run("b/2", "B", 4, on="h2", started_s=NOW_S - 9_000)
    asks = workload("a", "A", 8)
    plan = decide(
        snapshot({"A": 1, "B": 1}, nodes=[node("h1"), node("h2")], runs=[spread, single], queue=[asks]), Policy()
    )
    stopped = [each.run for each in plan.decisions if each.action is Action.PREEMPT]
    (claim,) = [each for each in plan.decisions if each.action is Action.CLAIM]
    assert stopped == ["b/1"]  # h1 is whole then; on h2 one of four would not be enough
    assert claim.holdings == {"h1": 8_000}


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"node": "h1"}, id="pinned"),
        pytest.param({"gpus": 3}, id="no two equal parts"),
    ],
)
def test_who_cannot_be_spread_waits(parts: dict[str, Any]) -> None:
    gpus = parts.pop("gpus", 8)
    _, found = plan_of(gang(gpus, waited_s=3_600, **parts), nodes=[node("h1"), node("h2")], runs=holding(h1=6, h2=6))
    assert found.action is Action.WAIT


def test_windows_memory_and_promises_bind_each_part() -> None:
    asks = gang(8, waited_s=10**5)
    for bound in (node("h2", windows=((NOW_S + 60, NOW_S + 7_200),)), node("h2", memory_mib=1_000)):
        busy = holding(h1=4, h2=4)
        wants = gang(8, waited_s=10**5, memory_mib=2_000) if bound.memory_mib else asks
        assert plan_of(wants, nodes=[node("h1"), bound], runs=busy)[1].action is Action.WAIT
    holder = workload("p", "A", 8, priority=9, node="h2")
    promise = Reservation("p", NOW_S + 120, {"h2": 8_000}, ("h2/1",), NOW_S - 60)
    world = snapshot(
        {"A": 1, "B": 1},
        nodes=[node("h1"), node("h2")],
        runs=holding(h1=4, h2=4),
        queue=[asks, holder],
        reservations=[promise],
        locality_waits_s=WAITS_S,
    )
    assert not [each for each in decide(world, POLICY).decisions if each.action is Action.START]


# --- promises and time ------------------------------------------------------------------------------------------------


def ends_in(name: str, hours: float, on: str) -> Any:
    """A run of a whole node whose contract ends then."""
    ends_s = int(hours * HOUR_S)
    return run(f"{name}/1", "B", 8, on=on, started_s=NOW_S - HOUR_S, contract_s=HOUR_S + ends_s)


@pytest.mark.parametrize(
    ("hours", "at_s", "nodes"),
    [
        ((0.1, 0.4, 0.2, 4), 1_440, ["h1", "h2"]),  # one rack, before it looks in any
        ((0.1, 4, 0.2, 4), 1_800, ["h1", "h3"]),  # two racks, from when on it does
        ((1, 4, 2, 4), 7_200, ["h1", "h3"]),
    ],
)
def test_what_is_promised_across_racks_is_promised_from_when_on_it_looks_there(
    hours: tuple[float, ...], at_s: int, nodes: list[str]
) -> None:
    hosts = racks(r1="h1 h2", r2="h3 h4")
    busy = [ends_in(name, each, name) for each, name in zip(hours, ("h1", "h2", "h3", "h4"), strict=True)]
    plan, _ = plan_of(gang(), nodes=hosts, runs=busy)
    (promised,) = [each for each in plan.decisions if each.action is Action.RESERVE]
    assert sorted(promised.holdings) == nodes
    assert promised.reason.numbers["at_s"] == NOW_S + at_s


def test_a_gang_that_stays_in_one_rack_is_promised_one() -> None:
    hosts = racks(r1="h1 h2", r2="h3 h4")
    busy = [ends_in(name, each, name) for each, name in zip((0.1, 4, 0.2, 3), ("h1", "h2", "h3", "h4"), strict=True)]
    plan, _ = plan_of(gang(locality=0), nodes=hosts, runs=busy)
    (promised,) = [each for each in plan.decisions if each.action is Action.RESERVE]
    assert sorted(promised.holdings) == ["h3", "h4"]


def test_the_next_threshold_is_an_instant_at_which_a_plan_may_change() -> None:
    plan, _ = plan_of(gang(waited_s=1_000), nodes=racks(r1="h1 h2", r2="h3 h4"), runs=holding(h1=8, h4=8))
    assert plan.next_change_s == NOW_S + 800


def test_a_kept_snapshot_relaxes_as_time_goes_on() -> None:
    world = snapshot(
        {"A": 1, "B": 1},
        nodes=racks(r1="h1 h2", r2="h3 h4"),
        runs=holding(h1=8, h4=8),
        queue=[gang()],
        locality_waits_s=WAITS_S,
    )
    for at_s, level in ((0, 0), (1_799, 0), (1_800, 1), (3_600, 2), (9_000, 3)):
        world.advance(NOW_S + at_s)
        assert world.queued["a"].spread == level
    assert world.queued["a"].relaxes_s is None


def test_a_requeued_workload_waits_anew() -> None:
    world = snapshot(
        {"A": 1}, nodes=racks(r1="h1 h2"), queue=[gang(waited_s=10**5, since_s=NOW_S - 60)], locality_waits_s=WAITS_S
    )
    assert world.queued["a"].spread == locality.ONE_RACK
    assert world.queued["a"].relaxes_s == NOW_S + 1_740


def test_a_snapshot_of_other_thresholds_is_refused() -> None:
    with pytest.raises(ValueError, match="waits of locality"):
        decide(snapshot({"A": 1}), POLICY)


@pytest.mark.parametrize("waits_s", [(1,), (1, 2), (3, 2, 1), (1, 2, 3, 4), (-1, 2, 3)])
def test_thresholds_are_three_that_do_not_fall(waits_s: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="locality_waits_s: must be 3 waits"):
        Policy(locality_waits_s=waits_s)


# --- reasons ----------------------------------------------------------------------------------------------------------


def test_reasons_say_at_which_level_it_looks_and_what_comes_then() -> None:
    _, found = plan_of(gang(waited_s=600), nodes=racks(r1="h1 h2", r2="h3 h4"), runs=holding(h1=8, h4=8))
    assert found.reason.text.endswith(" It asks for 2 nodes of one rack, later of any rack.")
    assert found.reason.numbers["locality"] == {
        "level": 0,
        "nodes": 2,
        "relaxes_at_s": NOW_S + 1_200,
        "later_level": 1,
        "later_nodes": 2,
    }
    _, found = plan_of(gang(waited_s=3_600), nodes=racks(r1="h1 h2 h3 h4"), runs=holding(h1=4, h2=4, h3=4, h4=4))
    assert found.reason.text.endswith("charged to its project. It is spread over 4 nodes, where 2 would do.")
    assert found.reason.numbers["locality"] == {"level": 2, "nodes": 4, "fewest": 2}
    _, found = plan_of(gang(), nodes=racks(r1="h1 h2"))
    assert found.reason.text.endswith(" Its 2 nodes are of one rack.")


def test_without_thresholds_reasons_say_nothing_of_it() -> None:
    _, found = plan_of(gang(), Policy(), nodes=racks(r1="h1", r2="h2"))
    assert found.reason.text == "Started with 16 GPUs on h1, h2, charged to its project."
    assert "locality" not in found.reason.numbers


@pytest.mark.parametrize(
    ("level", "later", "gpus", "said"),
    [
        (0, None, 16, "It asks for 2 nodes of one rack, and for no others."),
        (0, 2, 16, "It asks for 2 nodes of one rack, later for up to 4."),
        (1, 2, 8, "It asks for one node, later for up to 2."),
        (1, 3, 16, "It asks for 2 nodes, later for up to 16."),
        (2, 3, 16, "It may be spread over up to 4 nodes, later over up to 16."),
        (3, None, 16, "It may be spread over up to 16 nodes."),
    ],
)
def test_every_level_has_its_sentence(level: int, later: int | None, gpus: int, said: str) -> None:
    assert Looks(level, later, gpus * 1_000, 8_000).sentence() == said


# --- L2 ---------------------------------------------------------------------------------------------------------------


def test_the_price_of_eight_servers_in_place_of_two_is_as_published() -> None:
    assert locality.price(2, 8) == pytest.approx(1.529, abs=5e-4)
    assert locality.price_milli(2, 8) == 1_529
    assert locality.wait_worth_s(2, 8, 6 * HOUR_S) == int(6 * HOUR_S * (0.4366 / 0.2856 - 1))
    assert Fraction(locality.wait_worth_s(2, 8, 10**6), 10**6) == pytest.approx(0.529, abs=1e-3)


def test_one_server_counts_as_two_unless_a_profile_says_otherwise_and_many_as_eight() -> None:
    assert locality.utilization(1) == locality.utilization(2) == 0.4366
    assert locality.utilization(1, alone=0.9) == 0.9
    assert locality.utilization(8) == locality.utilization(1_000) == 0.2856
    assert locality.price(1, 2) == 1
    assert locality.price(1, 2, alone=0.9) == pytest.approx(0.9 / 0.4366)


def test_an_outlook_counts_only_parts_that_are_equal() -> None:
    assert locality.outlook(2, 16_000, 8_000, 21_600)[:3] == (2, 2, 4)
    assert locality.outlook(3, 16_000, 8_000, None)[1:] == (2, 16, pytest.approx(1.5287, abs=1e-4), None)
    assert locality.outlook(2, 3_000, 8_000, 60) == (2, 1, 1, 1.0, 0)


# --- L3 ---------------------------------------------------------------------------------------------------------------


def test_quota_left_but_no_placement_at_its_level_is_a_matter_of_placement() -> None:
    _, found = plan_of(gang(), nodes=racks(r1="h1 h2", r2="h3 h4"), runs=holding(h1=8, h4=8))
    assert found.reason.code == "waiting_placement"
