"""A snapshot that is left as the plan makes it is as one that is told all of the plan."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from scheduler.engine import Action, Claim, Explains, Plan, Policy, Snapshot, decide
from scheduler.simulator import World, as_json, parse, schedulers
from scheduler.simulator.lab import research_lab
from tests.engine.worlds import NOW_S, node, run, snapshot, workload
from tests.simulator.worlds import stormy_worlds

POLICY = Policy()


class TellingWorld(World):
    """A world whose snapshot is told all that was decided, as nothing of it is kept."""

    def _decide(self) -> Plan:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(schedulers, "decide", lambda *asked: decide(*asked[:3]))
            return super()._decide()


class KeepingWorld(World):
    """A world that counts the plans that were kept."""

    kept = 0

    def _apply(self, plan: Plan) -> bool:
        self.kept += plan.is_kept and any(each.action is Action.START for each in plan.decisions)
        return super()._apply(plan)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stormy_worlds())
def test_the_same_comes_about(world: dict[str, Any]) -> None:
    """With promises, cells, maxima, orders of leaves, closings, changed shares and broken nodes."""
    content = json.dumps(world)
    kept, told = World(parse(content)), TellingWorld(parse(content))
    kept.run()
    told.run()
    assert _but_for_passes(kept) == _but_for_passes(told)


def _but_for_passes(world: World) -> dict[str, Any]:
    """All that came about; what was seen in vain may be remembered longer by one that keeps."""
    said = as_json(world.outcome)
    del said["metrics"]["passes"]
    return said


def test_most_plans_of_a_laboratory_are_kept() -> None:
    """So that the test above is not empty."""
    kept = KeepingWorld(parse(json.dumps(research_lab(Random(1), seed=1, days=1, gpus=64))))
    kept.run()
    assert kept.kept > 100


def crowded() -> Snapshot:
    """One may start on what is free, another by taking over from who has its contract behind it."""
    return snapshot(
        {"A": 1, "B": 1},
        nodes=[node("h1"), node("h2")],
        runs=[run("old/1", "B", 8, started_s=NOW_S - 7_200, contract_s=600)],
        queue=[workload("a", "A", 4), workload("b", "A", 8, submitted_s=1), workload("free", "B", 2, contract_s=0)],
    )


def test_what_is_kept_needs_no_more_than_to_be_confirmed() -> None:
    kept, told = crowded(), crowded()
    plan = decide(kept, POLICY, Explains.NEWS, lambda workload: f"{workload}/1")
    assert plan.is_kept
    assert {each.action for each in plan.decisions} >= {Action.START, Action.PREEMPT, Action.CLAIM}
    for each in plan.decisions:
        if each.action is Action.START:
            waited = kept.dequeue(each.workload)
            kept.confirm(f"{waited.id}/1", waited.service)
            told.dequeue(each.workload)
            size, contract_s = waited.size_milli // 1_000, waited.min_runtime_s
            begun: dict[str, Any] = {"holdings": each.holdings, "started_s": NOW_S, "running_s": None}
            told.start(run(f"{waited.id}/1", waited.leaf, size, contract_s=contract_s, **begun))
        elif each.action is Action.PREEMPT:
            assert each.run is not None
            for one in (kept, told):
                one.leave(each.run, NOW_S + POLICY.grace_s)
        elif each.action is Action.CLAIM:
            told.claim(Claim(each.workload, each.holdings, tuple(each.reason.numbers["waits_for"]), NOW_S))
    for later_s in (0, 60, 3_600):
        for one in (kept, told):
            one.advance(NOW_S + later_s)
        assert decide(kept, POLICY) == decide(told, POLICY)


def test_a_plan_that_holds_somebody_is_not_kept() -> None:
    one, other = crowded(), crowded()
    for each in (one, other):
        each.tree.close("A")
    plan = decide(one, POLICY, Explains.NEWS, lambda workload: f"{workload}/1")
    assert Action.HOLD in {each.action for each in plan.decisions}
    assert not plan.is_kept
    assert decide(one, POLICY) == decide(other, POLICY)


@pytest.mark.parametrize("explains", list(Explains))
def test_who_names_no_runs_finds_the_snapshot_as_it_was(explains: Explains) -> None:
    one, other = crowded(), crowded()
    plan = decide(one, POLICY, explains)
    assert plan.decisions
    assert not plan.is_kept
    assert decide(one, POLICY) == decide(other, POLICY)
