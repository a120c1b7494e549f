"""The order of a tree's leaves, against what a real Slurm printed and against the engine."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine import BudgetNode, LeafUse, Node, Policy, Snapshot, Workload, order
from scheduler.simulator import ScenarioError
from scheduler.simulator.ranking import parse_ranking, rank
from tests.scenario_expectations import SHARED

GOLDEN = SHARED / "fairtree" / "golden.json"
SKIPPED = pytest.mark.skip(reason=f"SHARED DATA ABSENT: {GOLDEN}")


def golden_cases() -> list[Any]:
    """Every tree that a slurmctld ranked."""
    if not GOLDEN.exists():
        return [pytest.param(None, marks=SKIPPED, id="no-golden-trees")]
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=case["case"]) for case in cases]


def ranked(tree: dict[str, Any]) -> list[list[str]]:
    """The order of a tree as a file has it."""
    return rank(parse_ranking(json.dumps({"tree": tree})))


@pytest.mark.parametrize("case", golden_cases())
def test_agrees_with_slurm(case: dict[str, Any]) -> None:
    assert [sorted(group) for group in ranked(case["tree"])] == [sorted(group) for group in case["order"]]


def test_tied_inner_nodes_have_their_children_ranked_together() -> None:
    def team(name: str) -> dict[str, Any]:
        return {
            "shares": 1,
            "children": {f"{name}1": {"shares": 1, "used_gpu_s": 10}, f"{name}2": {"shares": 1, "used_gpu_s": 30}},
        }

    assert ranked({"A": team("a"), "B": team("b")}) == [["a1", "b1"], ["a2", "b2"]]


def test_a_child_of_tied_nodes_counts_by_its_part_of_its_own_parent() -> None:
    """Ten shares of ten are the whole of A, as one of one is of B: neither had less than the other."""
    tree = {
        "A": {"shares": 1, "children": {"a": {"shares": 10, "used_gpu_s": 8}}},
        "B": {"shares": 1, "children": {"b": {"shares": 1, "used_gpu_s": 8}}},
    }
    assert ranked(tree) == [["a", "b"]]


@given(st.data())
def test_without_ties_it_is_the_engines_order(data: st.DataObject) -> None:
    """Uses that are different powers of three: no two nodes tie."""
    uses = data.draw(st.permutations([3**power for power in range(1, 7)]))
    shares = [data.draw(st.sampled_from([1, 2, 4])) for _ in range(9)]
    tree: dict[str, Any] = {}
    rows = [BudgetNode("", None, 1, 1)]
    for top in range(3):
        leaves = {
            f"t{top}l{low}": {"shares": shares[3 + 2 * top + low], "used_gpu_s": uses[2 * top + low]}
            for low in range(2)
        }
        tree[f"t{top}"] = {"shares": shares[top], "children": leaves}
        rows.append(BudgetNode(f"t{top}", "", shares[top], sum(shares[:3])))
        total = sum(leaf["shares"] for leaf in leaves.values())
        rows += [BudgetNode(name, f"t{top}", leaf["shares"], total) for name, leaf in leaves.items()]
    use = {name: LeafUse(leaf["used_gpu_s"]) for team in tree.values() for name, leaf in team["children"].items()}
    queue = [Workload(name, name, 1_000, 600, 0) for name in use]
    built = Snapshot.build(now_s=9, tree=rows, use=use, nodes=[Node("h1", 8_000)], queue=queue)
    assert [[name] for name in order(built, Policy())] == ranked(tree)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "must be an object, not []"),
        ('{"tree": {}}', "tree: must name at least one budget node"),
        ('{"tree": {"a": {"shares": -1}}}', "tree.a.shares: must not be negative, but is -1"),
        ('{"tree": {"a": {"shares": 1, "used": 1}}}', "tree.a.used: unknown key"),
        ('{"tree": {"a": {"shares": NaN}}}', "NaN is not a number that may stand here"),
        (
            '{"tree": {"a": {"shares": 1}, "b": {"shares": 1, "children": {"a": {"shares": 1}}}}}',
            "tree.b.children.a: this name is in the tree twice",
        ),
    ],
)
def test_a_fault_names_its_key(content: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_ranking(content)
    assert str(caught.value) == message
