"""What is worked out for all leaves at once is what each of them would find by itself, node by node."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings

from scheduler.engine import BudgetNode, LeafUse, Node, Plan, Policy, Reservation, Run, Snapshot, Workload
from scheduler.engine.placing import is_bound_to_rack
from scheduler.engine.reach import Reach
from scheduler.engine.reservations import certain_at_s, certain_for
from scheduler.engine.trial import Trial
from scheduler.simulator import World, parse
from scheduler.simulator.lab import research_lab
from tests.simulator.worlds import stormy_worlds

ASKED = (("first", 4_000), ("second", 1_000))


class LookingWorld(World):
    """A world that asks twice, before every pass is carried out."""

    asked = 0

    def _decide(self) -> Plan:
        if not self.policy.swap_margin:
            self._ask_twice()
        return super()._decide()

    def _ask_twice(self) -> None:
        snapshot = self.snapshot
        trial = Trial(snapshot, self.policy, for_all=True)
        snapshot.reaches.clear()  # so that nobody is known, and all are looked at at once
        for workload in snapshot.queued.values():
            if not workload.min_runtime_s or workload.node is not None or workload.id in snapshot.reservations:
                continue
            reach = trial.reaches.of(workload)
            horizon = trial.reaches.at_a_glance(workload)
            if horizon is None or workload.id in snapshot.claims:
                continue
            if snapshot.tree.tenants or is_bound_to_rack(snapshot, workload):  # of these it is not asked (reservations)
                continue
            type(self).asked += 1
            certain = certain_for(trial, workload)
            assert horizon.certain_at_s(workload) == (None if certain is None else certain.at_s), workload
            alone = Reach(reach.leaf, reach.urgency)
            alone.shift(snapshot, reach.beaten, reach.sides)
            amounts = horizon.amounts(workload.leaf, workload.urgency)
            is_whole = workload.size_milli > snapshot.nodes.largest_milli
            now_milli = amounts.whole_now_milli if is_whole else amounts.now_milli
            ever_milli = amounts.whole_ever_milli if is_whole else amounts.ever_milli
            needs_milli = [8_000, 16_000]
            if not is_whole:  # a gang that is larger than any node is asked about in whole nodes
                needs_milli = [each for each in (1_000, 2_000, 4_000) if each <= snapshot.nodes.largest_milli]
            for need_milli in needs_milli:
                assert alone.has_now(snapshot, need_milli) == (now_milli >= need_milli), (workload, need_milli)
                assert alone.has_ever(snapshot, need_milli) == (ever_milli >= need_milli), (workload, need_milli)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stormy_worlds())
def test_it_says_what_each_leaf_finds_by_itself(world: dict[str, Any]) -> None:
    """Instants and amounts, with promises, windows, unfit nodes, fractions, gangs and priorities."""
    LookingWorld(parse(json.dumps(world)), None).run()


def test_the_worlds_had_something_to_ask() -> None:
    """In a laboratory, whatever worlds the test above has drawn; what it asserts holds there, too."""
    before = LookingWorld.asked
    LookingWorld(parse(json.dumps(research_lab(Random(1), seed=1, days=1, gpus=64)))).run()
    assert LookingWorld.asked - before > 200


class CountingWorld(World):
    """A world that looks whether ranks stay for as long as they are said to."""

    seen = 0

    def _decide(self) -> Plan:
        tree, now_s = self.snapshot.tree, self.now_s
        for node in tree.nodes.values():
            if not node.children or tree.order.by_holdings:  # what is held now is no line in time
                continue
            until_s = node.level.until_s(now_s)
            ranks = dict(node.level.ranks)
            amounts_now = {child.id: child.account.served(now_s) for child in node.children}
            lines = {child.id: child.account.straight for child in node.children}
            served = {name: (amount, lines[name][1], lines[name][3]) for name, amount in amounts_now.items()}
            for after_s in {0, 1, 7, 60, 599, until_s - now_s, until_s - now_s + 1}:
                if not 0 <= after_s <= min(served[child.id][2] for child in node.children) - now_s:
                    continue
                amounts = {
                    child.id: (served[child.id][0] + served[child.id][1] * after_s) * child.weight
                    for child in node.children
                    if child.weight
                }
                order = sorted(set(amounts.values()))
                then = {name: order.index(amount) for name, amount in amounts.items()}
                stays = then == {name: ranks[name] for name in then}
                assert stays == (now_s + after_s <= until_s) or (stays and after_s > 0), (node.id, after_s)
                type(self).seen += 1
        return super()._decide()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stormy_worlds())
def test_ranks_stay_until_two_siblings_cross(world: dict[str, Any]) -> None:
    """Never shorter than they are said to."""
    CountingWorld(parse(json.dumps(world)), None).run()


def test_there_were_ranks_to_look_at() -> None:
    """In a laboratory, whatever worlds the test above has drawn; what it asserts holds there, too."""
    before = CountingWorld.seen
    CountingWorld(parse(json.dumps(research_lab(Random(1), seed=1, days=1, gpus=64)))).run()
    assert CountingWorld.seen - before > 200


def test_promises_that_are_put_aside_still_count_for_what_is_certain() -> None:
    """Who is asked about first while promises are out of the way is told no other instant later."""
    waiting = [Workload(id=name, leaf="A", size_milli=size, min_runtime_s=300, submitted_s=0) for name, size in ASKED]
    snapshot = Snapshot.build(
        now_s=100,
        tree=[BudgetNode("lab", None, 1, 1), BudgetNode("A", "lab", 1, 2), BudgetNode("B", "lab", 1, 2)],
        use={"B": LeafUse(10**9, 0)},
        nodes=[Node("n1", 4_000, windows=((0, 50),))],  # a window makes every leaf look at the node by itself
        runs=[
            Run(
                id="b/1",
                workload="b",
                leaf="B",
                holdings={"n1": 4_000},
                funded=True,
                min_runtime_s=400,
                started_s=90,
                running_s=90,
            )
        ],
        queue=waiting,
        reservations=[Reservation("first", 490, {"n1": 4_000}, ("b/1",), 95)],
    )
    trial = Trial(snapshot, Policy(), for_all=True)
    second = snapshot.queued["second"]
    trial.reaches.look_again()
    with trial.reaches.promises_aside():
        trial.end_reservation("first")
        assert not trial.reaches.has_now(second, 1_000)
        trial.reserve(Reservation("first", 490, {"n1": 4_000}, ("b/1",), 95))
    assert trial.reaches.at_a_glance(second) is not None
    assert certain_for(trial, second) is None
    assert certain_at_s(trial, second) is None
    trial.roll_back()
