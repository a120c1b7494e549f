"""A snapshot refuses what contradicts itself, and a pass leaves it as it was."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine import BudgetNode, Claim, Policy, Reservation, Snapshot, decide
from tests.engine.worlds import NOW_S, node, run, snapshot, tree, used, workload

TWO = {"A": 1, "B": 1}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"runs": [run("a/1", "Z", 1)]}, "'Z' is not a leaf of the budget tree"),
        ({"runs": [run("a/1", "A", 1, "h9")]}, "run 'a/1' is on node 'h9', which is not known"),
        ({"runs": [run("a/1", "A", 5), run("b/1", "A", 4)]}, "node 'h1' holds more than it has, with run 'b/1'"),
        ({"runs": [run("a/1", "A", 1), run("a/1", "A", 1)]}, "run 'a/1' is given twice"),
        ({"queue": [workload("a", "", 1)]}, "'' is not a leaf of the budget tree"),
        ({"queue": [workload("a", "A", 1), workload("a", "B", 1)]}, "workload 'a' is in the queue twice"),
        ({"claims": [Claim("a", {"h1": 1_000}, (), 0)]}, "claim of 'a', which is not in the queue"),
        ({"reservations": [Reservation("a", 0, {"h1": 1_000})]}, "reservation for 'a', which is not in the queue"),
        ({"nodes": [node(), node()]}, "node 'h1' is given twice"),
        ({"nodes": [node(gpus=0)]}, "node 'h1' has no capacity"),
    ],
)
def test_contradictions_are_named(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        snapshot(TWO, **parts)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "a budget tree has one root, not 0"),
        ([BudgetNode("a", None, 1, 1), BudgetNode("b", None, 1, 1)], "a budget tree has one root, not 2"),
        ([*tree(TWO), BudgetNode("x", "y", 1, 1), BudgetNode("y", "x", 1, 1)], "is not below the root"),
        ([*tree(TWO), BudgetNode("A", "", 1, 1)], "budget node 'A' is given twice"),
        ([*tree({"A": -1})], "budget node 'A' has negative shares"),
    ],
)
def test_a_tree_that_is_none_is_refused(rows: list[BudgetNode], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Snapshot.build(now_s=0, tree=rows, use={}, nodes=[node()])


def test_another_lookback_than_the_policys_is_refused() -> None:
    with pytest.raises(ValueError, match="the snapshot's lookback is 604800 s, the policy's 60 s"):
        decide(snapshot(TWO), Policy(lookback_s=60))


def test_a_pass_leaves_the_snapshot_as_it_was() -> None:
    """A pass that starts, preempts, promises and holds decides the same when asked again."""
    runs = [run("b/1", "B", 4), run("b/2", "B", 4, contract_s=0), run("b/3", "B", 8, "h2", started_s=NOW_S - 60)]
    queue = [
        workload("a1", "A", 2),
        workload("a2", "A", 4),
        workload("a3", "A", 16),
        workload("z", "Z", 1),
        workload("u", "Z", 1, 0),
        workload("s", "A", 1, node="h3"),
    ]
    nodes = [node("h1"), node("h2"), node("h3")]
    built = snapshot({**TWO, "Z": 0}, use=used(A=1), nodes=nodes, runs=runs, queue=queue)
    first = decide(built, Policy())
    assert {each.action for each in first.decisions} >= {"start", "hold", "wait"}
    assert decide(built, Policy()) == first


def test_a_run_that_straddles_the_edge_of_the_lookback_is_clipped_to_the_second() -> None:
    week_s = Policy().lookback_s
    held = run("a/1", "A", 1, started_s=NOW_S - week_s - 500)
    figures = decide(snapshot(TWO, runs=[held]), Policy()).figures
    assert figures["A"].used_milli_s == 1_000 * week_s
    assert figures[""].used_milli_s == 1_000 * week_s


# --- fractions of a device --------------------------------------------------------------------------------------------


def fraction(name: str, leaf: str, milli: int, device: int | None, **more: Any) -> Any:
    """A run that has a part of one device."""
    return run(name, leaf, 0, holdings={"h1": milli}, device=device, **more)


def actions(built: Snapshot) -> dict[str, str]:
    """What a pass decides about each workload, in short."""
    return {each.workload: each.action.value for each in decide(built, Policy()).decisions}


def test_two_half_free_devices_are_not_one_whole_free_device() -> None:
    halves = [fraction("b/1", "B", 500, 0, running_s=None), fraction("b/2", "B", 500, 1, running_s=None)]
    built = snapshot(TWO, nodes=[node(gpus=2)], runs=halves, queue=[workload("a", "A", 1)])
    assert actions(built) == {"a": "wait"}
    packed = [fraction("b/1", "B", 500, 0, running_s=None), fraction("b/2", "B", 500, 0, running_s=None)]
    built = snapshot(TWO, nodes=[node(gpus=2)], runs=packed, queue=[workload("a", "A", 1)])
    assert actions(built) == {"a": "start"}


def test_for_a_whole_device_all_who_share_it_have_to_leave() -> None:
    """Device 0 is shared with a protected run; of device 1, both may be stopped."""
    runs = [
        fraction("b/1", "B", 500, 0, running_s=None),
        fraction("b/2", "B", 500, 0, contract_s=0),
        fraction("c/1", "B", 500, 1, contract_s=0),
        fraction("c/2", "B", 250, 1, contract_s=0),
    ]
    built = snapshot(TWO, nodes=[node(gpus=2)], runs=runs, queue=[workload("a", "A", 1)])
    stopped = {each.run for each in decide(built, Policy()).decisions if each.action == "preempt"}
    assert stopped == {"c/1", "c/2"}
