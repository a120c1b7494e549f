"""What must hold in every world, shown on random ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from scheduler.engine import locality
from scheduler.simulator import as_json, parse
from scheduler.simulator.records import RunRecord
from tests.simulator.worlds import WatchedWorld, calm_worlds, stormy_worlds

WORLDS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MANY_WORLDS = settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
BY_CONTRACT = {
    "preempted_fair_share",
    "preempted_priority",
    "preempted_reservation",
    "preempted_cell",
    "drained",
    "maintenance",
}


def lived(world: dict[str, Any]) -> WatchedWorld:
    """A world from beginning to end."""
    watched = WatchedWorld(parse(json.dumps(world)))
    watched.run()
    return watched


def check_contracts(world: WatchedWorld) -> None:
    """No funded run is told to stop inside its contract, but by its owner; no unallocated one is protected."""
    for run in world.outcome.runs:
        if run.is_funded and run.end_reason in BY_CONTRACT:
            assert run.contract_end_s is not None, f"{run.id} was preempted before its contract began"
            assert run.told_s is not None
            assert run.told_s >= run.contract_end_s, f"{run.id} was told to stop inside its contract"


def check_devices(world: WatchedWorld) -> None:
    """At every instant, what runs hold of a node is at most what it has; a gang holds all that it needs."""
    largest = max(node.capacity_milli for node in world.scenario.nodes)
    capacity = {node.name: node.capacity_milli for node in world.scenario.nodes}
    changes: dict[str, list[tuple[int, int]]] = {name: [] for name in capacity}
    for run in world.outcome.runs:
        size = run.job.job.size_milli
        if is_spread(run, largest):
            check_spread(world, run, largest)
        elif size <= largest:
            assert list(run.holdings.values()) == [size]
        else:
            assert sum(run.holdings.values()) >= size
            assert all(amount == capacity[name] for name, amount in run.holdings.items()), "whole nodes only"
            spare = sum(run.holdings.values()) - size
            assert all(spare < amount for amount in run.holdings.values()), "a node that it could do without"
        for name, amount in run.holdings.items():
            changes[name].append((run.start_s, amount))
            if run.end_s is not None:
                changes[name].append((run.end_s, -amount))
    for name, steps in changes.items():
        held = 0
        for _, change in sorted(steps):  # at one instant, what ends comes before what starts
            held += change
            assert held <= capacity[name], f"{name} held twice"


def is_spread(run: RunRecord, largest: int) -> bool:
    """Whether it is on more nodes than it needs, or shares those of a gang."""
    return (
        len(run.holdings) > 1
        and run.job.job.locality >= locality.TWICE
        and (sum(run.holdings.values()) < len(run.holdings) * largest)
    )


def waited_s(run: RunRecord) -> int:
    """How long its workload had been waiting when it started."""
    earlier = [each for each in run.job.runs if each.start_s < run.start_s]
    since_s = earlier[-1].end_s if earlier else run.job.submitted_s
    assert since_s is not None
    return run.start_s - since_s


def check_spread(world: WatchedWorld, run: RunRecord, largest: int) -> None:
    """It is in equal parts of whole devices, over no more nodes than its wait and its owner allow."""
    job, capacity = run.job.job, {node.name: node.capacity_milli for node in world.scenario.nodes}
    if all(amount == capacity[name] for name, amount in run.holdings.items()):
        return  # whole nodes of several sizes
    level = locality.level_at(world.policy.locality_waits_s, job.locality, waited_s(run))
    assert job.node is None
    assert sum(run.holdings.values()) == job.size_milli
    assert len(set(run.holdings.values())) == 1, "unequal parts"
    assert min(run.holdings.values()) % 1_000 == 0
    assert level >= locality.TWICE
    assert len(run.holdings) <= locality.most_nodes(level, job.size_milli, largest)


def check_racks(world: WatchedWorld) -> None:
    """Before the first threshold a gang that some rack could hold is in one rack."""
    waits_s = world.policy.locality_waits_s
    rack = {node.name: node.rack for node in world.scenario.nodes}
    racks: dict[str, int] = {}
    for node in world.scenario.nodes:
        racks[node.rack] = racks.get(node.rack, 0) + node.capacity_milli
    for run in world.outcome.runs:
        job = run.job.job
        if not waits_s or locality.level_at(waits_s, job.locality, waited_s(run)) != locality.ONE_RACK:
            continue
        if max(racks.values()) >= job.size_milli and not job.cpu_milli and not job.memory_mib:
            assert len({rack[name] for name in run.holdings}) == 1, f"{run.id} is in several racks"


def check_books(world: WatchedWorld) -> None:
    """held = charged + uncharged at every level, and a node has what its children have."""
    usage = as_json(world.outcome)["usage"]
    end_s = world.outcome.end_s
    held = sum(run.held_milli_s(end_s) for run in world.outcome.runs) / 1_000
    assert usage[""]["charged_gpu_s"] + usage[""]["uncharged_gpu_s"] == held
    for row in world.scenario.tree:
        children = [each.id for each in world.scenario.tree if each.parent == row.id]
        for key in ("charged_gpu_s", "uncharged_gpu_s"):
            if children:
                assert usage[row.id][key] == sum(usage[child][key] for child in children)


def check_work(world: WatchedWorld) -> None:
    """What finished has done its whole work, each restart costing what it says."""
    for record in world.outcome.jobs:
        if record.state != "finished":
            continue
        worked = sum(
            run.work_s((run.told_s if run.told_s is not None else run.end_s or 0) - run.running_s)
            for run in record.runs
            if run.running_s is not None
        )
        repeated = worked - record.job.duration_s
        assert 0 <= repeated <= record.job.restart_cost_s * (len(record.runs) - 1)


def check_nothing_in_vain(world: WatchedWorld) -> None:
    """Where nothing but workloads happens, a preemptor starts within the grace, on what its victims left."""
    victims: dict[tuple[str, int], list[Any]] = {}
    for run in world.outcome.runs:
        if run.preempted_by is not None and run.told_s is not None:
            victims.setdefault((run.preempted_by, run.told_s), []).append(run)
    starts = {(run.job.job.id, run.start_s): run for run in world.outcome.runs}
    for (preemptor, told_s), stopped in victims.items():
        assert told_s + world.policy.grace_s >= max(run.end_s for run in stopped)
        started = [run for (name, at_s), run in starts.items() if name == preemptor and at_s >= told_s]
        assert started, f"{preemptor} preempted and never started"
        first = min(started, key=lambda run: run.start_s)
        assert first.start_s <= told_s + world.policy.grace_s
        for run in stopped:
            assert not first.holdings.keys().isdisjoint(run.holdings), f"{run.id} was preempted for nothing"


def check_promises(world: WatchedWorld) -> None:
    """A promised instant never moves later, and is kept within the grace, while nothing but workloads happens."""
    promised: dict[str, int] = {}
    for now_s, action, decision in world.promises:
        if action == "reserve":
            at_s = decision.reason.numbers["at_s"]
            assert at_s > now_s
            assert at_s <= promised.get(decision.workload, at_s), f"{decision.workload} was promised later"
            promised[decision.workload] = at_s
        elif action == "start" and decision.workload in promised:
            latest_s = promised.pop(decision.workload) + world.policy.grace_s
            assert now_s <= latest_s, f"{decision.workload} started at {now_s}, promised for {latest_s}"
    assert promised == {}, "promised and never started"


def check_every(world: WatchedWorld) -> None:
    """What holds whatever happens."""
    check_contracts(world)
    check_devices(world)
    check_racks(world)
    check_books(world)
    check_work(world)
    assert world.idle_faults == []
    assert world.rebuilt_differs == []


def check_calm(scenario: dict[str, Any]) -> None:
    world = lived(scenario)
    check_every(world)
    check_nothing_in_vain(world)
    if not any(row["startup"] for row in scenario["workloads"]):  # a filler's start-up counts in nobody's promise
        check_promises(world)
    assert not world.snapshot.queued or any(record.state == "queued" for record in world.outcome.jobs), (
        "a queue without a workload"
    )


@WORLDS
@given(calm_worlds())
def test_calm_worlds(scenario: dict[str, Any]) -> None:
    check_calm(scenario)


@WORLDS
@given(stormy_worlds())
def test_stormy_worlds(scenario: dict[str, Any]) -> None:
    check_every(lived(scenario))


@settings(max_examples=40, deadline=None)
@given(stormy_worlds())
def test_same_input_same_output(scenario: dict[str, Any]) -> None:
    text = json.dumps(scenario)
    assert as_json(lived(json.loads(text)).outcome) == as_json(lived(json.loads(text)).outcome)


@pytest.mark.long
@MANY_WORLDS
@given(calm_worlds())
def test_many_calm_worlds(scenario: dict[str, Any]) -> None:
    check_calm(scenario)


@pytest.mark.long
@MANY_WORLDS
@given(stormy_worlds())
def test_many_stormy_worlds(scenario: dict[str, Any]) -> None:
    check_every(lived(scenario))
