"""Orders among siblings by what is held now: the worked examples of YARN's fair share and of DRF, and what becomes of
them under contracts; what budget nodes may hold at most; cores and memory beside devices.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from scheduler.engine import BudgetNode, Policy, Portion, Snapshot, decide, fair_shares, fault_in_limits, steady_shares
from scheduler.engine.policies.drf import Dominant
from scheduler.engine.policies.fair import fair_key
from scheduler.engine.values import Resources
from scheduler.simulator import ScenarioError, as_json, order_at, parse, simulate

HOUR_S = 3_600


def lived(file: dict[str, Any], **policy: Any) -> dict[str, Any]:
    """What became of a scenario, as `simulate --json` prints it."""
    policy = {"grace_s": 0, **file.get("policy", {}), **policy}
    return as_json(simulate(parse(json.dumps({**file, "policy": policy}))))


def starts(found: dict[str, Any], at_s: int = 0) -> list[str]:
    """Which workloads started at an instant, in the order of decisions."""
    return [each["workload"] for each in found["decisions"] if each["at"] == at_s and each["action"] == "start"]


def reason(found: dict[str, Any], workload: str, at_s: int = 0) -> tuple[str, str]:
    """What a workload that waits was told at an instant."""
    rows = [each for each in found["decisions"] if each["workload"] == workload and each["at"] == at_s]
    return rows[-1]["reason"]["code"], rows[-1]["reason"]["text"]


def asks(name: str, leaf: str, gpus: float, hours: int = 1, **more: Any) -> dict[str, Any]:
    """A workload with a contract of one hour."""
    row = {"id": name, "leaf": leaf, "submit": 0, "gpus": gpus, "min_runtime": "1h", "duration": hours * HOUR_S}
    return row | more


# --- YARN's fair share ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "portions", "shares"),
    [
        (40, [(1, 0, 100), (1, 0, 50), (1, 0, 11), (1, 0, 3)], [13, 13, 11, 3]),
        (40, [(1, 20), (1, 18), (1, 0), (1, 2)], [20, 18, 0, 2]),
        (45, [(2,), (1,), (1,), (0.5,)], [20, 10, 10, 5]),
        (45, [(2, 0, 10), (1, 0, 11), (1, 0, 30), (0.5, 0, 20)], [10, 11, 16, 8]),
        (45, [(2, 20), (1, 0), (1, 5), (0.5, 15)], [20, 5, 5, 15]),
        (10, [(0, 0), (1, 0, 4), (0, 3)], [0, 4, 3]),
        (10, [(1, 8), (1, 8)], [8, 8]),
        (10, [(0, 0), (0, 0)], [0, 0]),
        (0, [(1,), (1,)], [0, 0]),
        (10, [], []),
    ],
)  # fmt: skip
def test_fair_shares_are_those_of_hadoop(total: int, portions: Sequence[tuple[Any, ...]], shares: list[int]) -> None:
    assert fair_shares(total, [Portion(*each) for each in portions]) == shares


@pytest.mark.parametrize(
    ("portion", "fault"),
    [
        (Portion(float("nan")), "weight 1: nan is not a number of at least 0"),
        (Portion(float("inf")), "weight 1: inf is not a number of at least 0"),
        (Portion(-1.0), "weight 1: -1.0 is not a number of at least 0"),
        (Portion(1.0, 5, 4), "minimum 1: 5 is not 0 to the maximum, 4"),
        (Portion(1.0, -1), "minimum 1: -1 is not 0 to the maximum, None"),
    ],
    ids=["nan", "infinite", "negative", "above its maximum", "negative minimum"],
)
def test_shares_of_what_is_no_weight_are_refused(portion: Portion, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        fair_shares(40, [Portion(1), portion])


def test_whoever_is_below_a_minimum_goes_first_then_by_weight() -> None:
    common = 4  # of the weights 1 and 4
    keys = {
        "A": fair_key(8, 20, 10, common),
        "B": fair_key(50, 200, 100, common),
        "C": fair_key(0, 5, 0, common),
        "D": fair_key(40, 50, 0, common // 4),
        "E": fair_key(0, 0, 0, common),
    }
    assert sorted(keys, key=keys.__getitem__) == ["B", "A", "C", "D", "E"]


def test_a_minimum_counts_as_far_as_there_is_demand_and_no_weight_goes_after_any() -> None:
    assert fair_key(3, 3, 10, 1) == (1, 3)
    assert fair_key(3, 4, 10, 1) == (0, Fraction(3, 4))
    assert fair_key(1_000, 2_000, 0, 1) < fair_key(1, 2, 0, 0) < fair_key(2, 3, 0, 0)
    assert fair_key(1, 2, 4, 0) < fair_key(0, 2, 0, 1)


def test_steady_shares_go_down_the_tree() -> None:
    nodes = [
        BudgetNode("lab", None, 1, 1),
        BudgetNode("A", "lab", 1, 2, factor_milli=3_000),
        BudgetNode("B", "lab", 1, 2),
        BudgetNode("A1", "A", 1, 2, maximum_milli=10_000),
        BudgetNode("A2", "A", 1, 2, minimum_milli=50_000),
    ]
    assert steady_shares(nodes, 80_000) == {"lab": 80_000, "A": 60_000, "B": 20_000, "A1": 10_000, "A2": 50_000}


def test_a_minimum_is_met_first_and_then_what_is_held_counts_by_weight() -> None:
    file = {
        "cluster": {"nodes": {"h1": 8}},
        "tree": {"A": {"shares": 1, "weight": 3}, "B": 1, "C": {"shares": 1, "min_gpus": 2}},
        "workloads": [asks(f"{leaf.lower()}{number}", leaf, 1) for leaf in "ABC" for number in range(8)],
    }
    assert starts(lived(file, tree_order="fair")) == ["c0", "c1", "a0", "b0", "a1", "a2", "a3", "b1"]
    assert starts(lived(file, tree_order="lookback")) == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2"]


def test_what_was_used_before_does_not_count() -> None:
    file = {
        "cluster": {"nodes": {"h1": 8}},
        "tree": {"A": 1, "B": 1},
        "history": [{"leaf": "A", "gpus": 8, "from": "-3h", "to": 0}],
        "workloads": [asks("a", "A", 8), asks("b", "B", 8)],
    }
    for order, first in (("fair", ("a", "b")), ("drf", ("a", "b")), ("lookback", ("b", "a"))):
        scenario = parse(json.dumps({**file, "policy": {"tree_order": order}}))
        assert order_at(scenario, 0)[0] == first, order


def test_whoever_holds_less_takes_over_once_a_contract_has_ended_and_says_so() -> None:
    file = {
        "cluster": {"nodes": {"h1": 8}},
        "tree": {"A": 1, "B": 1},
        "workloads": [asks("a1", "A", 4, 9), asks("a2", "A", 4, 9), asks("b", "B", 4, 9, submit="30m")],
    }
    found = lived(file, tree_order="fair")
    assert reason(found, "b", 1_800) == (
        "waiting_capacity",
        "Waiting: 4 GPUs on h1 are reserved for it from when contracts there have ended.",
    )
    rows = {row["workload"]: row for row in found["runs"] if row["start"] in (0, HOUR_S)}
    assert (rows["a1"]["end_reason"], rows["a1"]["preempted_by"], rows["b"]["start"]) == (
        "preempted_fair_share", "b", HOUR_S,
    )  # fmt: skip
    told = next(each for each in found["decisions"] if each["action"] == "preempt")["reason"]["text"]
    assert told == "b took its 4 GPUs. Its contract was over, and B held less of its fair share than A."
    # Now both hold as much, and nobody takes from anybody.
    assert all(row["end_reason"] == "finished" for row in found["runs"] if row["workload"] == "b")


def test_numbers_of_a_reason_are_those_of_the_order_in_force() -> None:
    file = {
        "cluster": {"nodes": {"h1": 8}},
        "tree": {"A": {"shares": 1, "min_gpus": 6, "max_gpus": 7}, "B": {"shares": 1, "weight": 2}},
        "policy": {"tree_order": "fair", "reservations": 0},
        "workloads": [asks("a1", "A", 5), asks("b1", "B", 3), asks("a2", "A", 2, submit=5),
                      asks("b2", "B", 2, submit=5)],
    }  # fmt: skip
    scenario = parse(json.dumps(file))
    _, snapshot = order_at(scenario, 10)
    plan = decide(snapshot, scenario.policy)
    levels = {each.workload: each.reason.numbers["levels"][0] for each in plan.decisions}
    ours = {"held_milli": 3_000, "held_uncharged_milli": 0, "asked_milli": 2_000, "minimum_milli": 0,
            "maximum_milli": None, "factor_milli": 2_000}  # fmt: skip
    first = {"held_milli": 5_000, "held_uncharged_milli": 0, "asked_milli": 2_000, "minimum_milli": 6_000,
             "maximum_milli": 7_000, "factor_milli": 1_000}  # fmt: skip
    assert {key: levels["b2"][key] for key in ours} == ours
    assert levels["b2"]["first"]["node"] == "A"
    assert {key: levels["b2"]["first"][key] for key in first} == first
    assert plan.figures["A"].standing == first | {"rank": 0}
    assert plan.figures["B"].standing["rank"] == 1
    text = next(each.reason.text for each in plan.decisions if each.workload == "b2")
    assert text == "Waiting: A holds less of its fair share."


def test_with_a_margin_what_it_would_add_counts_before() -> None:
    file = {
        "cluster": {"nodes": {"h1": 8}},
        "tree": {"A": 1, "B": 1},
        "workloads": [asks("a1", "A", 2, 9), asks("a2", "A", 2, 9), asks("a3", "A", 2, 9),
                      asks("b1", "B", 2, 9), asks("b2", "B", 2, 9)],
    }  # fmt: skip
    assert starts(lived(file, tree_order="fair"), HOUR_S) == []
    for margin, takes_over in ((0, True), (2, True), (3, False)):
        found = lived({**file, "workloads": [*file["workloads"][:4], asks("b2", "B", 2, 9, submit="30m")]},
                      tree_order="fair", swap_margin=margin)  # fmt: skip
        assert (starts(found, HOUR_S) == ["b2"]) is takes_over, margin


def test_a_snapshot_is_of_the_order_that_its_policy_names() -> None:
    scenario = parse(json.dumps({"cluster": {"nodes": {"h1": 8}}, "tree": {"A": 1}}))
    snapshot = Snapshot.build(now_s=0, tree=scenario.tree, use={}, nodes=scenario.nodes, tree_order="fair")
    with pytest.raises(ValueError, match="the snapshot's tree order is fair, the policy's drf"):
        decide(snapshot, Policy(tree_order="drf"))


# --- minima and maxima ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "fault"),
    [
        ({"A": {"shares": 1, "min_gpus": 5}, "B": {"shares": 1, "min_gpus": 4}},
         "tree: minima come to 9, and it may hold 8 at most"),
        ({"A": {"shares": 1, "min_gpus": 5, "max_gpus": 4}}, "tree.A: minima come to 5, and it may hold 4 at most"),
        ({"A": {"shares": 1, "max_gpus": 3, "children": {name: {"shares": 1, "min_gpus": 2} for name in "XY"}}},
         "tree.A: minima come to 4, and it may hold 3 at most"),
        ({"A": {"shares": 1, "children": {"X": {"shares": 1, "min_gpus": 9}}}},
         "tree.A.children.X: minima come to 9, and it may hold 8 at most"),
        ({"A": {"shares": 1, "weight": 0}}, "tree.A.weight: must be a number above 0 and of at most 1,000, not 0"),
        ({"A": {"shares": 1, "weight": "NaN"}},
         'tree.A.weight: must be a number above 0 and of at most 1,000, not "NaN"'),
        ({"A": {"shares": 1, "weight": 0.0005}}, 'tree.A.weight: must have at most three decimals, not "0.0005"'),
        ({"A": {"shares": 1, "min_gpus": -1}}, "tree.A.min_gpus: must not be negative, but is -1"),
    ],
    ids=["above the cluster", "above its own maximum", "above a maximum", "deep", "no weight", "no number", "too fine",
         "negative"],
)  # fmt: skip
def test_limits_that_cannot_be_kept_are_refused_where_they_stand(tree: dict[str, Any], fault: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(json.dumps({"cluster": {"nodes": {"h1": 8}}, "tree": tree}))
    assert str(caught.value) == fault


def test_a_weight_that_is_no_number_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ScenarioError, match="NaN is not a number"):
        parse('{"cluster": {"nodes": {"h1": 8}}, "tree": {"A": {"shares": 1, "weight": NaN}}}')


def test_minima_of_a_tree_that_fits_are_no_fault() -> None:
    nodes = [BudgetNode("lab", None, 1, 1), BudgetNode("A", "lab", 1, 1, minimum_milli=8_000, maximum_milli=8_000)]
    assert fault_in_limits(nodes, 8_000) is None
    assert fault_in_limits(nodes, 7_000) == ("A", 8_000, 7_000)


BOUND = {
    "cluster": {"nodes": {"h1": 8, "h2": 8}},
    "tree": {"A": {"shares": 1, "max_gpus": 6, "children": {"X": 1, "Y": {"shares": 1, "max_gpus": 2}}}, "B": 1},
}
ORDERS = pytest.mark.parametrize("order", ["lookback", "half_life", "fair", "drf"])


@ORDERS
def test_a_budget_holds_no_more_than_it_may_at_any_level_and_says_why(order: str) -> None:
    work = [asks("x1", "X", 3), asks("y1", "Y", 2), asks("x2", "X", 2), asks("y2", "Y", 1), asks("b", "B", 4)]
    found = lived({**BOUND, "workloads": work}, tree_order=order)
    assert sorted(starts(found)) == ["b", "x1", "y1"]
    assert reason(found, "x2") == (
        "waiting_maximum",
        "Waiting: its budget's maximum of 6 GPUs. A has 5 GPUs, and this would be 2 GPUs more.",
    )
    assert reason(found, "y2") == (
        "waiting_maximum",
        "Waiting: its budget's maximum of 2 GPUs. Y has 2 GPUs, and this would be 1 GPU more.",
    )
    assert sorted(starts(found, HOUR_S)) == ["x2", "y2"]


@ORDERS
def test_more_than_a_budget_may_ever_hold_is_refused_at_the_door(order: str) -> None:
    work = [asks("y", "Y", 3), asks("x", "X", 7), asks("fits", "X", 6), asks("free", "Y", 3, min_runtime=0)]
    found = lived({**BOUND, "workloads": work}, tree_order=order)
    assert {row["id"]: row["state"] for row in found["workloads"]} == {
        "y": "refused", "x": "refused", "fits": "finished", "free": "refused",
    }  # fmt: skip
    assert reason(found, "y") == ("too_large", "Refused: the maximum of Y is 2, and it would hold 3.")
    assert reason(found, "x") == ("too_large", "Refused: the maximum of A is 6, and it would hold 7.")


def test_a_gang_counts_with_the_whole_nodes_that_it_would_hold() -> None:
    tree = {"A": {"shares": 1, "max_gpus": 12}, "B": {"shares": 1, "max_gpus": 16}}
    found = lived({**BOUND, "tree": tree, "workloads": [asks("a", "A", 12), asks("b", "B", 12)]})
    assert reason(found, "a") == ("too_large", "Refused: the maximum of A is 12, and it would hold 16.")
    assert starts(found) == ["b"]


def test_what_is_charged_never_waits_for_unallocated_work_of_its_budget() -> None:
    tree = {"A": {"shares": 1, "max_gpus": 4}, "B": 1}
    work = [asks("free", "A", 4, 2, min_runtime=0), asks("paid", "A", 4, submit="10m"),
            asks("more", "A", 1, min_runtime=0, submit="10m")]  # fmt: skip
    found = lived({**BOUND, "tree": tree, "workloads": work})
    assert starts(found) == ["free"]
    assert starts(found, 600) == ["paid"]
    assert reason(found, "more", 600) == (
        "waiting_maximum",
        "Waiting: its budget's maximum of 4 GPUs. A has 8 GPUs, and this would be 1 GPU more.",
    )


def test_at_its_maximum_a_budget_takes_over_from_its_own_runs_only() -> None:
    tree = {"A": {"shares": 1, "max_gpus": 4, "children": {"X": 1, "Y": 1}}, "B": 1}
    work = [asks("x", "X", 4, 9), asks("b", "B", 8, 9), asks("y", "Y", 4, 2, submit="30m")]
    found = lived({**BOUND, "tree": tree, "workloads": work})
    rows = {(row["workload"], row["start"]): row for row in found["runs"]}
    assert rows["x", 0]["preempted_by"] == "y"
    assert (rows["y", HOUR_S]["nodes"], rows["b", 0]["end_reason"]) == (rows["x", 0]["nodes"], "finished")


def test_what_was_promised_counts_for_everybody_else() -> None:
    tree = {"A": {"shares": 1, "max_gpus": 8}, "B": 1}
    work = [asks("b", "B", 14, 2), asks("a1", "A", 8, submit="1m"), asks("a2", "A", 1, submit="2m")]
    cluster = {"nodes": {"h1": 8, "h2": 8, "h3": 2}}
    found = lived({"cluster": cluster, "tree": tree, "workloads": work}, reservations=1)
    assert reason(found, "a1", 60)[0] == "waiting_capacity"
    assert reason(found, "a2", 120) == (
        "waiting_maximum",
        "Waiting: its budget's maximum of 8 GPUs. A has 8 GPUs, and this would be 1 GPU more.",
    )
    assert starts(found, HOUR_S) == ["a1"]


# --- dominant resource fairness ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "sequence"), [("B", "BAABA"), ("A", "ABABA")])
def test_the_worked_example_of_the_paper(first: str, sequence: str) -> None:
    """9 cores and 18 GB; tasks of A take 1 core and 4 GB, those of B 3 and 1: 3 of A and 2 of B, 2/3 each."""
    file = {
        "cluster": {"nodes": {"h1": 9}, "memory_gib": 18},
        "tree": {"A": 1, "B": 1},
        "policy": {"tree_order": "drf"},
        "workloads": [
            asks(
                f"{0 if leaf == first else 1}{leaf}{number}", leaf, cores, memory_gib=gib
            )  # a tie goes to the lower id
            for leaf, cores, gib in (("A", 1, 4), ("B", 3, 1))
            for number in range(5)
        ],
    }
    scenario = parse(json.dumps(file))
    found = as_json(simulate(scenario))
    assert "".join(name[1] for name in starts(found)) == sequence
    _, snapshot = order_at(scenario, 10)
    shares = {name: snapshot.tree.figures(10)[name].standing["dominant_share"] for name in "AB"}
    assert shares == {"A": [2, 3], "B": [2, 3]}
    assert sum(run.size_milli for run in snapshot.runs.values()) == 9_000
    assert sum(run.resources.memory_mib for run in snapshot.runs.values()) == 14 * 1_024


def test_dominant_shares_step_by_step() -> None:
    """The same as the paper's table has it: 1/3, 2/9, 4/9, 2/3, 2/3."""
    order = Dominant(Resources(9_000, 0, 18 * 1_024))
    held = [Resources(3_000, 0, 1_024), Resources(1_000, 0, 4 * 1_024), Resources(2_000, 0, 8 * 1_024),
            Resources(6_000, 0, 2 * 1_024), Resources(3_000, 0, 12 * 1_024)]  # fmt: skip
    assert [order.dominant_share(each) for each in held] == [
        ("devices", Fraction(1, 3)), ("memory", Fraction(2, 9)), ("memory", Fraction(4, 9)),
        ("devices", Fraction(2, 3)), ("memory", Fraction(2, 3)),
    ]  # fmt: skip


def test_three_resources_are_weighed_by_entitlement() -> None:
    file = {
        "cluster": {"nodes": {"h1": 8}, "cpus": 64, "memory_gib": 512},
        "tree": {"A": 2, "B": 1},
        "workloads": [
            *(asks(f"a{number}", "A", 1, cpus=16) for number in range(8)),
            *(asks(f"b{number}", "B", 1, memory_gib=64) for number in range(8)),
        ],
    }
    # Parts of A are 1/4 of the cores by 2, those of B 1/8 of the memory by 1: they go on at the same pace.
    found = lived(file, tree_order="drf")
    assert starts(found) == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]
    assert lived(file, tree_order="fair")["runs"][0]["workload"] == "a0"
    assert starts(lived(file, tree_order="fair")) == ["a0", "b0", "a1", "a2", "b1", "a3", "b2", "b3"]


def test_whoever_cannot_be_placed_waits_and_the_next_is_looked_at() -> None:
    file = {
        "cluster": {"nodes": {"h1": 8}, "memory_gib": 64},
        "tree": {"A": 1, "B": 1},
        "workloads": [asks("a1", "A", 1, memory_gib=48), asks("b1", "B", 1, memory_gib=32), asks("b2", "B", 7)],
    }
    found = lived(file, tree_order="drf")
    assert starts(found) == ["a1", "b2"]


# --- cores and memory -------------------------------------------------------------------------------------------------

MIXED = {
    "cluster": {"nodes": {"h1": 8, "h2": 8}, "cpus": {"h1": 32}, "memory_gib": {"h1": 64}},
    "tree": {"A": 1, "B": 1},
}


def test_a_node_that_declares_nothing_bounds_nothing() -> None:
    work = [asks("a", "A", 1, memory_gib=1_000), asks("b", "A", 1, cpus=33), asks("c", "A", 1, cpus=32, memory_gib=64)]
    found = lived({**MIXED, "workloads": work})
    assert {row["workload"]: list(row["nodes"]) for row in found["runs"]} == {"a": ["h2"], "b": ["h2"], "c": ["h2"]}
    alone = {"cluster": {"nodes": {"h1": 8}, "memory_gib": 64}, "tree": MIXED["tree"]}
    found = lived({**alone, "workloads": work})
    assert reason(found, "a") == ("too_large", "Refused: no node has the cores and the memory that it asks for.")
    assert starts(found) == ["b", "c"]


def test_memory_that_is_held_keeps_others_waiting_and_is_named() -> None:
    alone = {"cluster": {"nodes": {"h1": 8}, "cpus": 32, "memory_gib": 64}, "tree": MIXED["tree"]}
    work = [
        asks("a", "A", 1, memory_gib=48),
        asks("b", "B", 2, cpus=16, memory_gib=17),
        asks("c", "B", 1, memory_gib=16),
    ]
    found = lived({**alone, "workloads": work})
    assert sorted(starts(found)) == ["a", "c"]
    assert reason(found, "b") == (
        "waiting_placement",
        "Waiting: enough GPUs are free, but not where 2 GPUs with 16 cores and 17 GiB would be together.",
    )
    assert starts(found, HOUR_S) == ["b"]


def test_whoever_holds_the_memory_is_taken_over_from_and_nobody_else() -> None:
    alone = {"cluster": {"nodes": {"h1": 8}, "memory_gib": 64}, "tree": MIXED["tree"]}
    work = [
        asks("light", "A", 2, 9),
        asks("heavy", "A", 2, 9, memory_gib=60),
        asks("b", "B", 2, 1, memory_gib=32, submit="2h"),
    ]
    found = lived({**alone, "workloads": work})
    rows = {row["workload"]: row for row in found["runs"] if row["start"] in (0, 2 * HOUR_S)}
    assert (rows["heavy"]["preempted_by"], rows["b"]["start"]) == ("b", 2 * HOUR_S)
    assert rows["light"]["end_reason"] == "finished"


def test_memory_is_certain_when_the_contracts_that_hold_it_have_ended() -> None:
    alone = {"cluster": {"nodes": {"h1": 8}, "memory_gib": 64}, "tree": MIXED["tree"]}
    work = [
        asks("heavy", "A", 2, 9, memory_gib=60, min_runtime="2h"),
        asks("light", "A", 4, 9),
        asks("b", "B", 4, 1, memory_gib=32, submit="1m"),
        asks("late", "B", 2, 3, memory_gib=4, submit="2m", min_runtime="3h"),
    ]
    found = lived({**alone, "workloads": work}, reservations=1)
    told = next(each for each in found["decisions"] if each["workload"] == "b")
    assert (told["reason"]["code"], told["reason"]["earliest_start"]) == ("waiting_capacity", 2 * HOUR_S)
    assert next(row["start"] for row in found["runs"] if row["workload"] == "b") == 2 * HOUR_S


def test_a_gang_has_cores_on_each_node() -> None:
    cluster = {"nodes": {"h1": 4, "h2": 4, "h3": 4}, "cpus": 32}
    work = [asks("wide", "A", 8, cpus=32), asks("wider", "A", 8, cpus=33)]
    found = lived({"cluster": cluster, "tree": MIXED["tree"], "workloads": work})
    assert starts(found) == ["wide"]
    assert reason(found, "wider") == ("too_large", "Refused: no node has the cores and the memory that it asks for.")
