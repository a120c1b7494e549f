"""The order of the queue (section 3) against a plain implementation, and its rules one by one."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine import BudgetNode, LeafUse, Policy, Snapshot, Workload, decide, order
from tests.engine.worlds import node, run, snapshot, tree, used, workload

SHAPES = st.recursive(
    st.integers(0, 4),
    lambda below: st.fixed_dictionaries(
        {"shares": st.integers(0, 4), "children": st.dictionaries(st.sampled_from("abc"), below, min_size=1)}
    ),
    max_leaves=8,
)


def named_apart(shape: dict[str, Any], path: str = "") -> dict[str, Any]:
    """The same shape with names that tell where they hang."""
    return {
        path + name: {"shares": each["shares"], "children": named_apart(each["children"], path + name)}
        if isinstance(each, dict)
        else each
        for name, each in shape.items()
    }


class Naive:
    """Section 3 word for word, with fractions, and everything worked out anew for each place."""

    def __init__(self, rows: list[BudgetNode], use: dict[str, LeafUse]) -> None:
        self.row = {each.id: each for each in rows}
        self.leaves = [each.id for each in rows if each.id not in {other.parent for other in rows}]
        self.use = use

    def path(self, name: str) -> list[str]:
        parent = self.row[name].parent
        return [] if parent is None else [*self.path(parent), name]

    def total(self, name: str, kind: str) -> int:
        return sum(getattr(self.use.get(leaf, LeafUse()), kind) for leaf in self.leaves if name in self.path(leaf))

    def entitlement(self, leaf: str) -> Fraction:
        return prod(Fraction(self.row[each].shares, self.row[each].whole or 1) for each in self.path(leaf))

    def first_of(self, leaf: str, waiting: list[Workload]) -> Workload:
        mine = [each for each in waiting if each.leaf == leaf]
        return min(mine, key=lambda each: (-each.priority, each.submitted_s, each.id))

    def step(self, at: str, waiting: list[Workload], kind: str) -> Workload:
        children = [each.id for each in self.row.values() if each.parent == at]
        if not children:
            return self.first_of(at, waiting)
        options = []
        for child in children:
            below = [each for each in waiting if child in self.path(each.leaf)]
            if below:
                best = self.step(child, below, kind)
                served = Fraction(self.total(child, kind), self.row[child].shares)
                options.append((served, best.submitted_s, best.id, best))
        return min(options)[3]

    def walk(self, waiting: list[Workload], kind: str) -> list[str]:
        found = []
        while waiting:
            best = self.step("", waiting, kind)
            found.append(best.id)
            waiting = [each for each in waiting if each is not best]
        return found

    def share_less(self, waiting: list[Workload]) -> list[str]:
        found = []
        while waiting:
            heads = [self.first_of(leaf, waiting) for leaf in {each.leaf for each in waiting}]
            kind = "uncharged_milli_s"
            best = min(heads, key=lambda each: (self.total(each.leaf, kind), each.submitted_s, each.id))
            found.append(best.id)
            waiting = [each for each in waiting if each is not best]
        return found

    def order(self, queue: list[Workload]) -> list[str]:
        entitled = [each for each in queue if self.entitlement(each.leaf) > 0]
        free = [each for each in queue if not each.min_runtime_s]
        return (
            self.walk([each for each in entitled if each.min_runtime_s], "charged_milli_s")
            + self.walk([each for each in free if each in entitled], "uncharged_milli_s")
            + self.share_less([each for each in free if each not in entitled])
        )


@given(st.data(), st.dictionaries(st.sampled_from("ABCD"), SHAPES, min_size=1))
def test_equals_a_plain_implementation(data: st.DataObject, shape: dict[str, Any]) -> None:
    rows = tree(named_apart(shape))
    leaves = sorted({each.id for each in rows} - {each.parent for each in rows})
    amounts = st.integers(0, 3)
    use = {leaf: LeafUse(data.draw(amounts), data.draw(amounts)) for leaf in leaves}
    queue = [
        Workload(
            id=f"w{index}",
            leaf=data.draw(st.sampled_from(leaves)),
            size_milli=1_000,
            min_runtime_s=data.draw(st.sampled_from([0, 3_600])),
            submitted_s=data.draw(st.integers(0, 2)),
            priority=data.draw(st.integers(0, 1)),
        )
        for index in range(data.draw(st.integers(0, 9)))
    ]
    built = Snapshot.build(now_s=100, tree=rows, use=use, nodes=[node()], queue=queue)
    assert list(order(built, Policy())) == Naive(rows, use).order(queue)


def test_a_small_difference_high_up_outranks_any_below() -> None:
    queue = [workload("a", "A1", 8), workload("b", "B1", 8)]
    shape = {
        "A": {"shares": 1, "children": {"A1": 1, "A2": 1}},
        "B": {"shares": 1, "children": {"B1": 1, "B2": 1}},
    }
    built = snapshot(shape, use=used(A1=100, A2=0, B1=0, B2=101), queue=queue)
    assert order(built, Policy()) == ("a", "b")


def test_priority_counts_inside_its_leaf_only() -> None:
    queue = [
        workload("low", "A", 8, submitted_s=1),
        workload("high", "A", 8, submitted_s=2, priority=1),
        workload("other", "B", 8, submitted_s=3, priority=99),
    ]
    assert order(snapshot({"A": 1, "B": 1}, queue=queue), Policy()) == ("high", "low", "other")


def test_what_runs_inside_its_contract_counts_whole_at_once() -> None:
    """8 GPUs x 1 h are committed on the first second of a contract, and stay 8 GPU-hours while it lasts."""
    started = run("b/1", "B", 8, started_s=1_000_000, contract_s=3_600)
    queue = [workload("a", "A", 1), workload("b", "B", 1, submitted_s=0)]
    built = snapshot({"A": 1, "B": 1}, use=used(A=7), runs=[started], queue=queue)
    plan = decide(built, Policy())
    assert plan.order == ("a", "b")
    assert plan.figures["B"].used_milli_s + plan.figures["B"].committed_milli_s == 8 * 3_600_000
    built = snapshot({"A": 1, "B": 1}, use=used(A=9), runs=[started], queue=queue)
    assert decide(built, Policy()).order == ("b", "a")


def test_leaves_without_entitlement_come_last_by_uncharged_use() -> None:
    use = {"C": LeafUse(0, 5), "D": LeafUse(0, 3), "A": LeafUse(0, 999)}
    queue = [workload("c", "C", 1, 0, submitted_s=1), workload("d", "D", 1, 0, submitted_s=2)]
    queue.append(workload("a", "A", 1, 0, submitted_s=9))
    assert order(snapshot({"A": 1, "C": 0, "D": 0}, use=use, queue=queue), Policy()) == ("a", "d", "c")


def test_unallocated_starts_count_inside_the_pass() -> None:
    """Two leaves that start with nothing used take turns, although no time passes."""
    queue = [workload(f"a{index}", "A", 2, 0, submitted_s=index) for index in range(4)]
    queue += [workload(f"b{index}", "B", 2, 0, submitted_s=10 + index) for index in range(4)]
    plan = decide(snapshot({"A": 1, "B": 1}, queue=queue), Policy())
    started = [each.workload for each in plan.decisions if each.action == "start"]
    assert started == ["a0", "b0", "a1", "b1"]
