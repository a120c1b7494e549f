"""Who may be preempted, and the choice of victims (section 4)."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine import Claim, Decision, Health, LeafUse, Policy, Run, Snapshot, Workload, decide
from tests.engine.worlds import GPU_H, NOW_S, node, run, snapshot, used, workload

TWO = {"A": 1, "B": 1}


def victims(built: Snapshot, policy: Policy | None = None) -> list[str]:
    """The runs that a pass tells to leave."""
    return [each.run or "" for each in decide(built, policy or Policy()).decisions if each.action == "preempt"]


def decision(built: Snapshot, name: str, policy: Policy | None = None) -> Decision:
    """What a pass decides about one waiting workload."""
    found = [
        each
        for each in decide(built, policy or Policy()).decisions
        if each.workload == name and each.action in ("start", "claim", "wait")
    ]
    assert len(found) == 1
    return found[0]


# --- who may be -------------------------------------------------------------------------------------------------------


def test_unallocated_work_yields_to_any_funded_whatever_its_priority() -> None:
    free = run("b/1", "B", 8, contract_s=0, priority=9)
    built = snapshot(TWO, use=used(A=100), runs=[free], queue=[workload("a", "A", 8)])
    assert victims(built) == ["b/1"]


def test_unallocated_work_preempts_nobody() -> None:
    built = snapshot(TWO, runs=[run("b/1", "B", 8)], queue=[workload("a", "A", 8, 0)])
    assert victims(built) == []


def test_a_run_inside_its_contract_stays_to_the_last_second() -> None:
    for left_s, expected in ((1, []), (0, ["b/1"])):
        held = run("b/1", "B", 8, started_s=NOW_S - 3_600 + left_s)
        assert victims(snapshot(TWO, runs=[held], queue=[workload("a", "A", 8)])) == expected


def test_a_run_that_is_starting_up_is_protected() -> None:
    held = run("b/1", "B", 8, running_s=None)
    assert victims(snapshot(TWO, runs=[held], queue=[workload("a", "A", 8)])) == []


def test_the_contract_counts_from_when_every_rank_ran() -> None:
    held = run("b/1", "B", 8, started_s=NOW_S - 3_700, running_s=NOW_S - 3_500)
    assert victims(snapshot(TWO, runs=[held], queue=[workload("a", "A", 8)])) == []


def test_a_side_served_as_much_keeps_its_devices() -> None:
    """b's run has used 16 GPU-hours. A side with as much may not take over; with a second less it may."""
    held = run("b/1", "B", 8)
    queue = [workload("a", "A", 8)]
    equal = {"A": LeafUse(charged_milli_s=16 * GPU_H)}
    assert victims(snapshot(TWO, use=equal, runs=[held], queue=queue)) == []
    less = {"A": LeafUse(charged_milli_s=16 * GPU_H - 1)}
    assert victims(snapshot(TWO, use=less, runs=[held], queue=queue)) == ["b/1"]


def test_sides_are_compared_at_the_children_of_the_common_ancestor() -> None:
    """A2 has had more than B1, but its program has had less than B."""
    shape = {"A": {"shares": 3, "children": {"A1": 1, "A2": 1}}, "B": {"shares": 1, "children": {"B1": 1}}}
    built = snapshot(shape, use=used(A2=30), runs=[run("b/1", "B1", 8)], queue=[workload("a", "A2", 8)])
    assert victims(built) == ["b/1"]
    plan = decide(built, Policy())
    stop = next(each for each in plan.decisions if each.action == "preempt")
    assert stop.reason.code == "preempted_fair_share"
    assert [side["node"] for side in stop.reason.numbers["sides"]] == ["A", "B"]
    assert [side["used_milli_s"] for side in stop.reason.numbers["sides"]] == [30 * GPU_H, 16 * GPU_H]


def test_inside_one_leaf_only_priority_counts() -> None:
    held = run("a/1", "A", 8)
    for priority, expected in ((0, []), (1, ["a/1"])):
        queue = [workload("a2", "A", 8, priority=priority)]
        assert victims(snapshot(TWO, runs=[held], queue=queue)) == expected


def test_with_a_margin_the_own_contract_is_added_and_equal_is_enough() -> None:
    """8 GPUs x 1 h of contract against the 16 GPU-hours that b's run has used."""
    policy = Policy(swap_margin=Fraction(1))
    queue = [workload("a", "A", 8)]
    for use_h, expected in ((8, ["b/1"]), (9, [])):
        assert victims(snapshot(TWO, use=used(A=use_h), runs=[run("b/1", "B", 8)], queue=queue), policy) == expected


def test_a_side_without_shares_counts_as_served_most() -> None:
    held = run("b/1", "B", 8)
    built = snapshot({"A": 1, "B": 0}, use=used(A=999), runs=[held], queue=[workload("a", "A", 8)])
    assert victims(built) == ["b/1"]


# --- nobody in vain ---------------------------------------------------------------------------------------------------


def test_nobody_is_stopped_if_the_gang_still_could_not_start() -> None:
    runs = [run("b/1", "B", 4, "h1", contract_s=0), run("b/2", "B", 4, "h2", contract_s=0)]
    runs += [run("b/3", "B", 4, "h1", running_s=None), run("b/4", "B", 4, "h2", running_s=None)]
    built = snapshot(TWO, nodes=[node("h1"), node("h2")], runs=runs, queue=[workload("a", "A", 8)])
    assert victims(built) == []


def test_free_devices_come_before_anyone_is_stopped_even_in_a_worse_rack() -> None:
    nodes = [node("h1", rack="r1"), node("h2", rack="r1"), node("h3", rack="r2")]
    runs = [run("b/1", "B", 8, "h1", contract_s=0)]
    built = snapshot(TWO, nodes=nodes, runs=runs, queue=[workload("a", "A", 16)])
    assert decision(built, "a").holdings == {"h2": 8_000, "h3": 8_000}
    assert victims(built) == []


def test_devices_that_are_being_left_come_before_anyone_new() -> None:
    runs = [
        run("b/1", "B", 8, "h1", contract_s=0),
        run("b/2", "B", 8, "h2", contract_s=0, leave_by_s=NOW_S + 40),
    ]
    built = snapshot(TWO, nodes=[node("h1"), node("h2")], runs=runs, queue=[workload("a", "A", 8)])
    found = decision(built, "a")
    assert (found.action, found.holdings) == ("claim", {"h2": 8_000})
    assert found.reason.code == "waiting_victims"
    assert found.reason.earliest_start_s == NOW_S + 40
    assert victims(built) == []


def test_claimed_devices_are_nobody_elses() -> None:
    leaving = run("b/1", "B", 8, contract_s=0, leave_by_s=NOW_S + 40)
    queue = [workload("a", "A", 8), workload("c", "A", 8)]
    claim = Claim("a", {"h1": 8_000}, ("b/1",), NOW_S - 20)
    built = snapshot(TWO, runs=[leaving], queue=queue, claims=[claim])
    assert decision(built, "a").reason.code == "waiting_victims"
    assert decision(built, "c").action == "wait"
    assert victims(built) == []


def test_a_claim_starts_when_its_victims_have_left() -> None:
    claim = Claim("a", {"h1": 8_000}, ("b/1",), NOW_S - 20)
    built = snapshot(TWO, queue=[workload("a", "A", 8), workload("c", "A", 8)], claims=[claim])
    assert decision(built, "a").action == "start"
    assert decision(built, "c").action == "wait"


def test_freed_devices_of_a_claim_are_held_while_others_still_leave() -> None:
    """One victim has left, one leaves: what is free is not to be had for anyone else."""
    leaving = run("b/2", "B", 4, contract_s=0, leave_by_s=NOW_S + 40)
    claim = Claim("a", {"h1": 8_000}, ("b/1", "b/2"), NOW_S - 20)
    queue = [workload("a", "A", 8), workload("c", "A", 4), workload("u", "B", 4, 0)]
    built = snapshot(TWO, runs=[leaving], queue=queue, claims=[claim])
    assert [decision(built, name).action for name in ("a", "c", "u")] == ["wait", "wait", "wait"]


def test_a_claim_ends_when_it_loses_a_node() -> None:
    claim = Claim("a", {"h1": 8_000}, ("b/1",), NOW_S - 20)
    sick = node("h1", health=Health.UNREACHABLE)
    built = snapshot(TWO, nodes=[sick, node("h2")], queue=[workload("a", "A", 8)], claims=[claim])
    assert [(each.action, each.holdings) for each in decide(built, Policy()).decisions] == [
        ("end_claim", {}),
        ("start", {"h2": 8_000}),
    ]


def test_later_passes_see_the_plan_and_choose_no_second_set() -> None:
    policy = Policy()
    runs = [run("b/1", "B", 8, "h1", contract_s=0), run("b/2", "B", 8, "h2", contract_s=0)]
    queue = [workload("a", "A", 8)]
    nodes = [node("h1"), node("h2")]
    assert victims(snapshot(TWO, nodes=nodes, runs=runs, queue=queue)) == ["b/1"]
    told = [run("b/1", "B", 8, "h1", contract_s=0, leave_by_s=NOW_S + policy.grace_s), runs[1]]
    claim = Claim("a", {"h1": 8_000}, ("b/1",), NOW_S)
    assert victims(snapshot(TWO, nodes=nodes, runs=told, queue=queue, claims=[claim])) == []


# --- which victims ----------------------------------------------------------------------------------------------------


def test_on_equal_cost_the_most_served_side_goes_then_the_latest_start_then_the_id() -> None:
    shape = {"A": 1, "B": 1, "C": 1}
    runs = [run("b/1", "B", 4), run("c/1", "C", 4)]
    queue = [workload("a", "A", 4)]
    assert victims(snapshot(shape, use=used(B=1), runs=runs, queue=queue)) == ["b/1"]
    assert victims(snapshot(shape, use=used(C=1), runs=runs, queue=queue)) == ["c/1"]
    late = [run("b/1", "B", 4, started_s=NOW_S - 9_000), run("b/2", "B", 4, started_s=NOW_S - 8_000)]
    assert victims(snapshot(shape, runs=late, queue=queue)) == ["b/2"]
    assert victims(snapshot(shape, runs=[run("b/1", "B", 4), run("b/2", "B", 4)], queue=queue)) == ["b/1"]


def test_of_unallocated_victims_the_leaf_with_most_uncharged_use_goes() -> None:
    use = {"C": LeafUse(0, GPU_H)}
    runs = [run("b/1", "B", 4, contract_s=0), run("c/1", "C", 4, contract_s=0)]
    built = snapshot({"A": 1, "B": 1, "C": 1}, use=use, runs=runs, queue=[workload("a", "A", 4)])
    assert victims(built) == ["c/1"]


@st.composite
def full_nodes(draw: st.DrawFn) -> list[Run]:
    """Runs that fill one node of 8 GPUs, of several kinds."""
    runs: list[Run] = []
    left = 8
    while left:
        gpus = draw(st.integers(1, left))
        kind = draw(st.sampled_from(["free", "over", "own", "inside"]))
        leaf = "A" if kind == "own" else draw(st.sampled_from(["B", "C"]))
        inside = {"started_s": NOW_S - 60} if kind == "inside" else {}
        name = f"{leaf.lower()}{len(runs)}/1"
        runs.append(run(name, leaf, gpus, contract_s=0 if kind == "free" else 3_600, **inside))
        left -= gpus
    return runs


@given(full_nodes(), st.integers(1, 8), st.integers(0, 40))
def test_the_set_on_one_node_is_the_cheapest_of_all_subsets(runs: list[Run], gpus: int, use_h: int) -> None:
    built = snapshot({"A": 1, "B": 1, "C": 1}, use=used(A=use_h), runs=runs, queue=[workload("a", "A", gpus)])
    figures = decide(snapshot({"A": 1, "B": 1, "C": 1}, use=used(A=use_h), runs=runs), Policy()).figures

    def served(leaf: str) -> int:
        return figures[leaf].used_milli_s + figures[leaf].committed_milli_s

    def may_take(each: Run) -> bool:
        if not each.funded:
            return True
        is_over = each.running_s is not None and each.running_s + each.min_runtime_s <= NOW_S
        return is_over and each.leaf != "A" and served("A") < served(each.leaf)

    def finer(each: Run) -> tuple[Any, ...]:
        if not each.funded:
            return 0, -figures[each.leaf].uncharged_milli_s, -each.started_s, each.id
        return 1, -served(each.leaf), -each.started_s, each.id

    takeable = [each for each in runs if may_take(each)]
    costs = [
        (
            sum(each.size_milli for each in chosen if each.funded),
            sum(each.size_milli for each in chosen),
            len(chosen),
            sorted(finer(each) for each in chosen),
        )
        for chosen in chain.from_iterable(combinations(takeable, count) for count in range(len(takeable) + 1))
        if sum(each.size_milli for each in chosen) >= gpus * 1_000
    ]
    expected = sorted(key[-1] for key in min(costs)[3]) if costs else []
    assert sorted(victims(built)) == expected


@st.composite
def gangs(draw: st.DrawFn) -> tuple[list[Any], list[Run], int]:
    """Several nodes of 2 GPUs, filled with gangs and single runs, and a size that needs whole nodes."""
    count = draw(st.integers(2, 6))
    nodes = [node(f"h{index}", 2, rack=draw(st.sampled_from(["r1", "r2"]))) for index in range(count)]
    runs: list[Run] = []
    at = 0
    while at < count:
        span = draw(st.integers(1, count - at))
        kind = draw(st.sampled_from([0, 0, 3_600, 3_600, -1]))
        inside = {"running_s": None} if kind == -1 else {}
        if span == 1 and draw(st.booleans()):
            for half in ("a", "b"):
                runs.append(run(f"s{at}{half}/1", "B", 1, f"h{at}", contract_s=max(kind, 0) or 0))
        else:
            holdings = {f"h{index}": 2_000 for index in range(at, at + span)}
            runs.append(run(f"g{at}/1", "B", 0, holdings=holdings, contract_s=3_600 if kind else 0, **inside))
        at += span
    return nodes, runs, 2 * draw(st.integers(2, max(2, count)))


@given(gangs())
def test_no_victim_on_several_nodes_could_have_been_spared(world: tuple[list[Any], list[Run], int]) -> None:
    nodes, runs, gpus = world
    if gpus > 2 * len(nodes):
        return
    built = snapshot(TWO, nodes=nodes, runs=runs, queue=[Workload("a", "A", gpus * 1_000, 3_600, 0)])
    stopped = set(victims(built))

    def room(without: set[str]) -> int:
        busy = {name for each in runs if each.id not in without for name in each.holdings}
        return 2 * (len(nodes) - len(busy))

    if stopped:
        assert room(stopped) >= gpus
        for spared in stopped:
            assert room(stopped - {spared}) < gpus, f"{spared} could have been spared"
    else:
        may_go = {each.id for each in runs if not each.funded or each.running_s is not None}
        assert room(set()) >= gpus or room(may_go) < gpus
