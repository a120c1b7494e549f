"""Classes of GPUs: a hard one bounds where a workload may be, reserve and pack say what is tried first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.engine import Action, Code, Plan, Policy, Reservation, Snapshot, classes_of, decide, refusal_in
from scheduler.engine.classes import allocation_rate
from scheduler.simulator import ScenarioError, parse, simulate
from tests.engine.worlds import NOW_S, node, run, snapshot, workload

RANKED = Policy(class_order=("V100", "T4"), high_end_classes=("V100",))


def fast(name: str = "v1", gpus: int = 8, **more: Any) -> Any:
    return node(name, gpus, gpu_class="V100", **more)


def slow(name: str = "t1", gpus: int = 8, **more: Any) -> Any:
    return node(name, gpus, gpu_class="T4", **more)


def ranked(policy: Policy = RANKED, **parts: Any) -> Snapshot:
    found = snapshot(parts.pop("shape", {"A": 1, "B": 1}), **parts)
    found.classes = classes_of(policy, found.nodes)
    return found


def where(plan: Plan) -> dict[str, list[str]]:
    return {each.workload: sorted(each.holdings) for each in plan.decisions if each.action is Action.START}


def said(plan: Plan, name: str) -> Any:
    return next(each for each in plan.decisions if each.workload == name and each.action is Action.WAIT).reason


# --- reserve and pack -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [["low", "high"], ["high", "low"]])
def test_low_on_the_weaker_node_and_high_on_the_stronger_whoever_comes_first(order: list[str]) -> None:
    """P5 of the published tests."""
    rows = [
        workload(name, "A", 8, is_high=name == "high", submitted_s=NOW_S - 60 + place)
        for place, name in enumerate(order)
    ]
    found = where(decide(ranked(nodes=[fast(), slow()], queue=rows), RANKED))
    assert found == {"low": ["t1"], "high": ["v1"]}
    found = where(decide(ranked(nodes=[fast("a"), slow("b")], queue=rows), RANKED))  # names decide nothing
    assert found == {"low": ["b"], "high": ["a"]}


def test_high_takes_what_is_weaker_rather_than_wait() -> None:
    rows = [workload("x", "A", 8, is_high=True), workload("y", "A", 8, is_high=True)]
    assert where(decide(ranked(nodes=[fast(), slow()], queue=rows), RANKED)) == {"x": ["v1"], "y": ["t1"]}


@pytest.mark.parametrize(("reserve", "starts"), [(0, 8), (4, 4), (7, 1), (8, 0), (99, 0)])
def test_low_work_leaves_the_reserve(reserve: int, starts: int) -> None:
    policy = Policy(class_order=("V100", "T4"), high_end_classes=("V100",), high_end_reserve=reserve)
    rows = [workload(f"l{index}", "A", 1) for index in range(9)]
    plan = decide(ranked(policy, nodes=[fast(), slow(gpus=1)], queue=rows), policy)
    assert sorted(len(names) for names in where(plan).values()) == [1] * (starts + 1)
    if reserve == 4:
        reason = said(plan, "l8")
        assert reason.code is Code.WAITING_PLACEMENT
        assert "Free of high-end classes: 4 GPUs; 4 GPUs of these stay free for work that needs them." in reason.text
        assert reason.numbers["high_end_free_milli"] == reason.numbers["high_end_reserve_milli"] == 4_000


def test_high_work_may_have_the_reserve() -> None:
    policy = Policy(class_order=("V100", "T4"), high_end_classes=("V100",), high_end_reserve=8)
    rows = [workload("low", "A", 2), workload("high", "A", 2, is_high=True)]
    assert where(decide(ranked(policy, nodes=[fast()], queue=rows), policy)) == {"high": ["v1"]}


def test_a_fraction_beside_another_takes_nothing_of_the_reserve() -> None:
    policy = Policy(class_order=("V100",), high_end_classes=("V100",), high_end_reserve=7)
    half = run("r/1", "A", 0, holdings={"v1": 500}, started_s=NOW_S - 60)
    part = workload("part", "A", 1)
    rows = [workload("whole", "A", 1), type(part)("part", "A", 400, 3_600, NOW_S - 60)]
    assert where(decide(ranked(policy, nodes=[fast()], runs=[half], queue=rows), policy)) == {"part": ["v1"]}


def test_a_gang_of_whole_nodes_stays_in_one_class_where_that_is_enough() -> None:
    nodes = [fast("v1"), fast("v2"), slow("t1"), slow("t2"), slow("t3")]
    low, high = workload("low", "A", 16), workload("high", "A", 16, is_high=True)
    assert where(decide(ranked(nodes=nodes, queue=[low, high]), RANKED)) == {"low": ["t1", "t2"], "high": ["v1", "v2"]}
    assert where(decide(ranked(nodes=nodes, queue=[workload("wide", "A", 32)]), RANKED)) == {
        "wide": ["t1", "t2", "t3", "v1"]
    }
    kept = Policy(class_order=("V100", "T4"), high_end_classes=("V100",), high_end_reserve=9)
    assert where(decide(ranked(kept, nodes=nodes, queue=[workload("wide", "A", 32)]), kept)) == {}


def test_of_equal_nodes_the_one_of_which_least_is_allocated() -> None:
    nodes = [slow("t1", cpu_milli=64_000), slow("t2", cpu_milli=64_000)]
    runs = [run("a/1", "A", 2, on="t1", cpu_milli=32_000), run("b/1", "A", 2, on="t2", cpu_milli=8_000)]
    assert where(decide(ranked(nodes=nodes, runs=runs, queue=[workload("x", "A", 1)]), RANKED)) == {"x": ["t2"]}
    assert where(decide(snapshot({"A": 1}, nodes=nodes, runs=runs, queue=[workload("x", "A", 1)]), Policy())) == {
        "x": ["t1"]
    }
    state = ranked(nodes=nodes, runs=runs).nodes.by_name["t1"]
    assert float(allocation_rate(state)) == (2 / 8 + 32 / 64) / 2


def test_classes_that_nobody_has_cost_nothing() -> None:
    assert ranked(nodes=[node()]).classes is None
    assert ranked(Policy(), nodes=[fast(), slow()]).classes is None


# --- a hard class -----------------------------------------------------------------------------------------------------


def test_a_class_is_never_left_for_another() -> None:
    rows = [workload("x", "A", 8, gpu_classes=("T4",), is_high=True), workload("y", "A", 8, gpu_classes=("T4",))]
    plan = decide(ranked(nodes=[fast(), slow()], queue=rows), RANKED)
    assert where(plan) == {"x": ["t1"]}
    reason = said(plan, "y")
    assert (reason.code, reason.numbers["class_free_milli"], reason.numbers["class_milli"]) == (
        Code.WAITING_PLACEMENT,
        0,
        8_000,
    )
    assert reason.text.endswith("not where 8 GPUs of class T4 would be together. Free of such a class: none.")


def test_several_classes_will_do() -> None:
    rows = [workload(name, "A", 8, gpu_classes=("T4", "V100")) for name in "xyz"]
    nodes = [node("p1", gpu_class="P100"), slow(), fast()]
    assert where(decide(snapshot({"A": 1}, nodes=nodes, queue=rows), Policy())) == {"x": ["t1"], "y": ["v1"]}


def test_only_runs_on_a_node_of_the_class_are_preempted() -> None:
    runs = [run("a/1", "A", 8, on="t1", contract_s=0), run("b/1", "A", 8, on="v1")]
    queue = [workload("x", "B", 8, gpu_classes=("V100",))]
    plan = decide(snapshot({"A": 1, "B": 1}, nodes=[fast(), slow()], runs=runs, queue=queue), Policy())
    assert [each.run for each in plan.decisions if each.action is Action.PREEMPT] == ["b/1"]
    gang = [workload("x", "B", 16, gpu_classes=("V100",))]
    runs = [run("a/1", "A", 8, on="t1", contract_s=0), run("b/1", "A", 16, holdings={"v1": 8_000, "v2": 8_000})]
    plan = decide(snapshot({"A": 1, "B": 1}, nodes=[fast(), fast("v2"), slow()], runs=runs, queue=gang), Policy())
    assert [each.run for each in plan.decisions if each.action is Action.PREEMPT] == ["b/1"]


def test_only_nodes_of_the_class_are_promised() -> None:
    runs = [
        run("a/1", "A", 8, on="t1", started_s=NOW_S - 3_500, running_s=NOW_S - 3_500),
        run("b/1", "A", 8, on="v1", started_s=NOW_S - 60, running_s=NOW_S - 60),
    ]
    queue = [workload("x", "B", 8, gpu_classes=("V100",))]
    plan = decide(snapshot({"A": 1, "B": 1}, nodes=[fast(), slow()], runs=runs, queue=queue), Policy())
    (promise,) = [each for each in plan.decisions if each.action is Action.RESERVE]
    assert (dict(promise.holdings), promise.reason.earliest_start_s) == ({"v1": 8_000}, NOW_S - 60 + 3_600)


def test_too_few_of_the_class_are_fit() -> None:
    broken = fast("v2", windows=((NOW_S - 60, NOW_S + 60),))
    queue = [workload("x", "A", 4, gpu_classes=("V100",))]
    reason = said(decide(snapshot({"A": 1}, nodes=[fast(gpus=2), broken, slow()], queue=queue), Policy()), "x")
    assert reason.code is Code.WAITING_NODES
    assert reason.text == "Waiting: too few nodes are fit for 4 GPUs of class V100. Fit of such a class: 2 GPUs."


@pytest.mark.parametrize(
    ("asks", "code", "text"),
    [
        (("T4",), None, ""),
        (("H200", "T4"), "unknown_class", "Refused: no node is of class H200; known: P100, T4, V100."),
        (("P100",), "too_large", "Refused: no node of class P100 has all that it asks for."),
        (("P100", "T4"), None, ""),
    ],
)
def test_the_door(asks: tuple[str, ...], code: str | None, text: str) -> None:
    found = snapshot({"A": 1}, nodes=[fast(), slow(), node("p1", 2, gpu_class="P100"), node("u1")])
    reason = refusal_in(found, Policy(), leaf="A", size_milli=4_000, min_runtime_s=3_600, node=None, gpu_classes=asks)
    assert (None if reason is None else str(reason.code)) == code
    assert reason is None or reason.text == text


def test_the_door_where_no_node_says_its_class() -> None:
    reason = refusal_in(
        snapshot({"A": 1}), Policy(), leaf="A", size_milli=1_000, min_runtime_s=0, node=None, gpu_classes=("T4",)
    )
    assert reason is not None
    assert reason.text == "Refused: no node is of class T4; no node says its class."


# --- budgets and contracts stand above --------------------------------------------------------------------------------


def test_the_reserve_does_not_keep_a_share_from_its_side() -> None:
    """What another side holds beyond its contract may be taken over, whatever is kept free."""
    policy = Policy(class_order=("V100",), high_end_classes=("V100",), high_end_reserve=4)
    queue = [workload("x", "B", 4)]
    plan = decide(ranked(policy, nodes=[fast()], runs=[run("a/1", "A", 8, on="v1")], queue=queue), policy)
    assert [each.run for each in plan.decisions if each.action is Action.PREEMPT] == ["a/1"]


def test_nobody_is_stopped_where_the_reserve_is_free() -> None:
    """Free devices that are kept are not to be had by a plan without victims either."""
    policy = Policy(class_order=("V100",), high_end_classes=("V100",), high_end_reserve=6)
    runs = [run("a/1", "A", 2, on="v1", contract_s=0)]
    plan = decide(ranked(policy, nodes=[fast()], runs=runs, queue=[workload("x", "B", 4)]), policy)
    assert [each.action for each in plan.decisions] == [Action.WAIT]


def test_a_promise_that_is_due_is_kept() -> None:
    policy = Policy(class_order=("V100",), high_end_classes=("V100",), high_end_reserve=8)
    promise = Reservation("x", NOW_S, {"v1": 4_000}, made_s=NOW_S - 60)
    plan = decide(ranked(policy, nodes=[fast()], queue=[workload("x", "A", 4)], reservations=[promise]), policy)
    assert where(plan) == {"x": ["v1"]}


# --- the policy and the scenario --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"class_order": ("T4", "T4")}, "class_order: must be up to 32 classes, each once"),
        ({"class_order": ("",)}, "class_order: must be up to 32 classes, each once"),
        ({"high_end_classes": ("V100",)}, "high_end_classes: 'V100' is not in class_order"),
        ({"class_order": ("T4",), "high_end_reserve": 1}, "high_end_reserve: needs high_end_classes to keep it of"),
        ({"high_efficiency_percent": 101}, "high_efficiency_percent: 101 is more than 100"),
    ],
)
def test_what_no_cluster_could_run_with(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Policy(**knobs)


def test_a_scenario_of_two_classes() -> None:
    file: dict[str, Any] = {
        "cluster": {"nodes": {"a": 8, "b": 8}, "classes": {"V100": ["a"], "T4": ["b"]}},
        "tree": {"A": 1},
        "policy": {"class_order": ["V100", "T4"], "high_end_classes": ["V100"]},
        "workloads": [
            {"id": "low", "leaf": "A", "gpus": 8, "submit": 0, "duration": "1h"},
            {"id": "high", "leaf": "A", "gpus": 8, "submit": 60, "duration": "1h", "high": True},
            {"id": "none", "leaf": "A", "gpus": 8, "submit": 90, "duration": "1h", "gpu_class": "H200"},
            {"id": "hard", "leaf": "A", "gpus": 8, "submit": 120, "duration": "1h", "gpu_class": ["V100"]},
        ],
    }
    outcome = simulate(parse(json.dumps(file)))
    found = {each.job.id: [(each.start_s, sorted(each.holdings)) for each in each.runs] for each in outcome.jobs}
    assert found == {"low": [(0, ["b"])], "high": [(60, ["a"])], "none": [], "hard": [(3_660, ["a"])]}
    assert {each.job.id: each.state for each in outcome.jobs}["none"] == "refused"
    with pytest.raises(ScenarioError, match=r'cluster.classes.T4\[1\]: node "a" is in class "V100" already'):
        parse(
            json.dumps({**file, "cluster": {"nodes": {"a": 8, "b": 8}, "classes": {"V100": ["a"], "T4": ["b", "a"]}}})
        )
