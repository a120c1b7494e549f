"""A pass that is passed over, as nothing has moved since one that had nothing to do, would have had nothing either."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from scheduler.engine import (
    Action,
    CellCounts,
    Claim,
    Explains,
    Health,
    Plan,
    Policy,
    Reservation,
    Snapshot,
    comparisons,
    cycle,
    decide,
    set_cells,
)
from scheduler.engine.still import is_idle, is_still, note_still
from scheduler.simulator import World, as_json, parse, simulate
from scheduler.simulator.lab import research_lab
from tests.engine.worlds import NOW_S, node, run, snapshot, workload
from tests.simulator.worlds import stormy_worlds

POLICY = Policy()


class ForgettingWorld(World):
    """A world that makes every pass anew."""

    def _happen(self) -> None:
        super()._happen()
        self.snapshot.still = None


class DoubtingWorld(World):
    """A world that looks again where a pass was passed over."""

    passed_over = 0
    _noted_s = -1

    def _decide(self) -> Plan:
        snapshot = self.snapshot
        if is_still(snapshot, self.policy, Explains.NEWS):
            if self._noted_s not in (-1, self.now_s):
                type(self).passed_over += 1
                snapshot.still = None
                assert decide(snapshot, self.policy, Explains.NEWS).decisions == (), f"at {self.now_s}"
            self._noted_s = self.now_s
        return super()._decide()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stormy_worlds())
def test_nothing_is_missed(world: dict[str, Any]) -> None:
    """With promises, cells, maxima, orders of leaves, closings, changed shares and broken nodes."""
    content = json.dumps(world)
    lived, anew = DoubtingWorld(parse(content)), ForgettingWorld(parse(content))
    lived.run()
    anew.run()
    assert as_json(lived.outcome) == as_json(anew.outcome)


def test_many_passes_of_a_laboratory_are_passed_over() -> None:
    """More than a tenth of them, none of which would have decided anything."""
    before = DoubtingWorld.passed_over
    world = DoubtingWorld(parse(json.dumps(research_lab(Random(1), seed=1, days=1, gpus=16))))
    world.run()
    assert DoubtingWorld.passed_over - before > world.outcome.passes / 10


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stormy_worlds())
def test_the_same_comes_about_whether_it_is_explained_or_not(world: dict[str, Any]) -> None:
    told, curt = (as_json(simulate(parse(json.dumps(world)), is_explained=said)) for said in (True, False))
    assert curt["decisions"] == []
    assert curt["metrics"].pop("passes") <= told["metrics"].pop("passes")  # some only have something to say
    without_reasons = [{**each, "reason": None} for each in told["workloads"]]
    assert {**told, "workloads": without_reasons, "decisions": []} == curt


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stormy_worlds())
def test_whoever_is_idle_had_nothing_to_do(world: dict[str, Any]) -> None:
    anew = ForgettingWorld(parse(json.dumps(world)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cycle, "is_idle", lambda _snapshot, _policy, _explains: False)
        anew.run()
    assert as_json(_doubted(world).outcome) == as_json(anew.outcome)


def test_many_passes_of_a_laboratory_are_idle() -> None:
    """More than a tenth of them, none of which would have decided anything."""
    world = _doubted(research_lab(Random(1), seed=1, days=1, gpus=64))
    assert world.checked_idle > world.outcome.passes / 10


class IdleWorld(World):
    """A world that makes the passes all the same of which it is said that they are idle."""

    checked_idle = 0
    _is_looking = False

    def is_idle(self, snapshot: Snapshot, policy: Policy, explains: Explains) -> bool:
        """As the engine has it, after another look."""
        if self._is_looking or not is_idle(snapshot, policy, explains):
            return False
        self._is_looking = True
        snapshot.still = None
        assert decide(snapshot, policy, Explains.NEWS).decisions == (), f"at {self.now_s}"
        self._is_looking = False
        self.checked_idle += 1
        return True


def _doubted(world: dict[str, Any]) -> IdleWorld:
    lived = IdleWorld(parse(json.dumps(world)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cycle, "is_idle", lived.is_idle)
        lived.run()
    return lived


def idle() -> Snapshot:
    """A node that a run is leaving for one who waits for just that, and one who waits for what nobody needs."""
    made = snapshot(
        {"A": 1, "B": 1},
        runs=[run("b/1", "B", 8, started_s=NOW_S - 3_600, contract_s=600, leave_by_s=NOW_S + 60)],
        queue=[workload("a", "A", 8), workload("free", "B", 1, contract_s=0)],
        claims=[Claim("a", {"h1": 8_000}, ("b/1",), NOW_S)],
    )
    for decision in decide(made, POLICY, Explains.NEWS).decisions:
        made.tell(decision.workload, decision.reason.code)
    decide(made, POLICY, Explains.NEWS)
    return made


def test_who_waits_for_victims_alone_is_idle() -> None:
    assert is_idle(idle(), POLICY, Explains.NEWS)


IDLE_CHANGES: dict[str, Callable[[Snapshot], object]] = {
    "a victim has left": lambda made: made.end("b/1"),
    "somebody comes": lambda made: made.enqueue(workload("x", "B", 1)),
    "somebody unallocated comes": lambda made: made.enqueue(workload("x", "B", 2, contract_s=0)),
    "somebody may return": lambda made: made.held.update(x=workload("x", "B", 1)),
    "the plan's node is unfit": lambda made: made.set_health("h1", Health.DRAINING),
    "a node is to be in maintenance": lambda made: made.set_windows("h1", ((NOW_S + 60, NOW_S + 90),)),
    "its leaf is closed": lambda made: made.tree.close("A"),
}


@pytest.mark.parametrize("change", IDLE_CHANGES.values(), ids=IDLE_CHANGES)
def test_what_ends_idleness_is_noticed(change: Callable[[Snapshot], object]) -> None:
    made = idle()
    change(made)
    assert not is_idle(made, POLICY, Explains.NEWS)


def waiting() -> Snapshot:
    """A full node, one who waits, and what was promised to her in an hour."""
    made = snapshot(
        {"A": 1, "B": 1},
        runs=[run("b/1", "B", 8, started_s=NOW_S - 60, contract_s=3_660)],
        queue=[workload("a", "A", 8)],
        reservations=[Reservation("a", NOW_S + 3_600, {"h1": 8_000}, ("b/1",), NOW_S)],
    )
    note_still(made, POLICY, Explains.NEWS, comparisons(made))
    return made


def test_time_alone_moves_nothing() -> None:
    made = waiting()
    made.advance(NOW_S + 3_599)
    assert is_still(made, POLICY, Explains.NEWS)


CHANGES: dict[str, Callable[[Snapshot], object]] = {
    "the promise is due": lambda made: made.advance(NOW_S + 3_600),
    "somebody comes": lambda made: made.enqueue(workload("x", "B", 1, contract_s=0)),
    "somebody leaves": lambda made: made.dequeue("a"),
    "somebody is told why": lambda made: made.tell("a", "waiting_order"),
    "a run ends": lambda made: made.end("b/1"),
    "a node is unfit": lambda made: made.set_health("h1", Health.DRAINING),
    "a leaf is closed": lambda made: made.tree.close("A"),
    "a leaf is entitled to nothing": lambda made: made.tree.set_shares({"A": (0, 1), "B": (1, 1)}),
    "a cell is granted": lambda made: set_cells(made, {"B": CellCounts(node=1)}),
    "siblings compare in another way": lambda made: made.commit(made.leaf("A"), 10**12),
}


def test_a_leaf_that_is_entitled_to_nothing_is_closed() -> None:
    """Which holds what waits there unallocated, too."""
    made = snapshot({"A": 1, "B": 0}, queue=[workload("b", "B", 9, contract_s=0)])
    for decision in decide(made, POLICY, Explains.NEWS).decisions:
        made.tell(decision.workload, decision.reason.code)
    note_still(made, POLICY, Explains.NEWS, comparisons(made))
    assert decide(made, POLICY, Explains.NEWS).decisions == ()
    made.tree.close("B")
    (held,) = decide(made, POLICY, Explains.NEWS).decisions
    assert (held.workload, held.action) == ("b", Action.HOLD)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_counts_is_noticed(change: Callable[[Snapshot], object]) -> None:
    made = waiting()
    change(made)
    assert not is_still(made, POLICY, Explains.NEWS)


def test_another_policy_asks_anew() -> None:
    assert not is_still(waiting(), Policy(reservations=2), Explains.NEWS)


def test_nobody_is_still_at_first() -> None:
    assert not is_still(snapshot({"A": 1}, nodes=[node()]), POLICY, Explains.NEWS)


def test_what_is_kept_of_one_who_waits_goes_with_them() -> None:
    """Or a long simulation would remember all who ever were promised something."""
    world = World(parse(json.dumps(research_lab(Random(1), seed=1, days=1, gpus=16))))
    kept = 0
    while (next_s := world._next_instant()) is not None and next_s < 20 * 3_600:
        world._move_to(next_s)
        world._live_through()
        kept += len(world.snapshot.outlooks)
        assert world.snapshot.outlooks.keys() <= world.snapshot.queued.keys()
    assert kept > 0
