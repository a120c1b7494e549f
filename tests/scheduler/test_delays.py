"""What workloads waited for, second by second, and why runs failed, summed over the tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from scheduler.failures import FailureClass, Origin
from scheduler.models import Decision, LogChunk, Rank, Run, Workload
from scheduler.queries import delays, failed
from scheduler.queries.delays import Cause, Delay
from scheduler.queries.spans import steps
from scheduler.queries.workload import explanation
from scheduler.services import retries, runs
from tests.scheduler.conftest import World, at

HOUR = 3_600


def decide(workload: Workload, *told: tuple[int, str, str]) -> None:
    """Store decisions: (second, action, code)."""
    for second, action, code in told:
        Decision.objects.create(workload=workload, at=at(second), action=action, code=code, text="x")


def seconds(found: Sequence[Delay]) -> dict[str, int]:
    """By cause, where there were any."""
    return {each.cause.value: each.waited_s for each in found if each.waited_s}


@pytest.mark.long
def test_a_gang_waits_for_room_in_one_place_while_enough_is_free(make_world: Callable[..., World]) -> None:
    world = make_world(nodes={"h1": 8, "h2": 8})
    for _ in range(2):
        world.submit("A", gpus=5, min_runtime_s=HOUR, sim={"startup_s": 0, "duration_s": 300})
    world.step(0)
    gang = world.submit("B", gpus=6, now=10, sim={"startup_s": 0, "duration_s": 100})
    for second in (20, 200, 310, 320):
        world.step(second)
    gang.refresh_from_db()
    assert Run.objects.filter(workload=gang).count() == 1
    found = delays.of_workload(gang, at(400))
    started_s = int((gang.first_started_at - gang.submitted_at).total_seconds())
    assert seconds(found) == {"fragmentation": started_s - 10, "unseen": 10}
    assert {each.waited_milli_s for each in found} == {6_000 * (started_s - 10), 60_000}


def test_each_second_counts_for_the_reason_in_force_and_none_while_it_runs(make_world: Callable[..., World]) -> None:
    world = make_world()
    workload = world.submit("A", gpus=2)
    decide(
        workload,
        (30, "wait", "waiting_order"),
        (100, "wait", "waiting_placement"),
        (150, "hold", "no_entitlement"),
        (170, "release", "waiting_order"),
        (170, "wait", "waiting_capacity"),
        (200, "reserve", "waiting_capacity"),
        (220, "claim", "waiting_victims"),
    )
    run = {"cluster": world.cluster, "leaf": world.leaves["A"], "path": [], "size_milli": 2_000, "funded": True}
    Run.objects.create(
        workload=workload, number=1, state="ended", started_at=at(250), ended_at=at(400), min_runtime_s=1, **run
    )
    decide(workload, (410, "wait", "waiting_maximum"))
    assert seconds(delays.of_workload(workload, at(500))) == {
        "fair_share": 70 + 90, "fragmentation": 50, "held": 20, "contracts": 80, "unseen": 30 + 10,
    }  # fmt: skip
    Workload.objects.filter(pk=workload.pk).update(state="cancelled", ended_at=at(450))
    workload.refresh_from_db()
    assert seconds(delays.of_workload(workload, at(9_999)))["fair_share"] == 70 + 40


def test_the_waits_of_a_node_are_summed_by_cause_and_by_hour(make_world: Callable[..., World]) -> None:
    world = make_world()
    early, late, waits = (world.submit("A", gpus=gpus, now=0) for gpus in (1, 2, 4))
    elsewhere = world.submit("B", gpus=1)
    for workload, started in ((early, 100), (late, HOUR + 100), (elsewhere, 100)):
        decide(workload, (0, "wait", "waiting_order"), (60, "wait", "waiting_placement"))
        Workload.objects.filter(pk=workload.pk).update(
            first_started_at=at(started), state="finished", ended_at=at(9_000)
        )
    decide(waits, (0, "wait", "waiting_capacity"))
    cut = steps(at(0), at(2 * HOUR), "hour")
    found = delays.of_node(world.leaves["A"], world.cluster, cut, at(2 * HOUR), at(2 * HOUR))
    assert seconds(found.started) == {"fair_share": 120, "fragmentation": 40 + HOUR + 40}
    assert seconds(found.still) == {"contracts": 2 * HOUR}
    assert found.still_milli_s == 2 * HOUR * 4_000
    assert [dict(each) for each in found.by_step] == [
        {Cause.FAIR_SHARE: 60_000, Cause.FRAGMENTATION: 40_000},
        {Cause.FAIR_SHARE: 120_000, Cause.FRAGMENTATION: (HOUR + 40) * 2_000},
    ]
    whole = delays.of_node(world.root, world.cluster, cut, at(2 * HOUR), at(2 * HOUR))
    assert seconds(whole.started)["fair_share"] == 180


def test_runs_that_failed_are_summed_by_class_and_by_whose_it_was(make_world: Callable[..., World]) -> None:
    world = make_world()
    lines = ["KeyError: 'a'", "KeyError: 'b'", "Connection reset by peer", ""]
    made = [world.submit("A", gpus=2, sim={"startup_s": 0, "duration_s": 9_000}) for _ in lines]
    world.step(0)
    for number, (workload, line) in enumerate(zip(made, lines, strict=True)):
        run = Run.objects.get(workload=workload)
        if line:
            LogChunk.objects.create(rank=Rank.objects.get(run=run), offset=0, length=len(line), text=line)
        code = runs.FAILED if number < 3 else runs.FINISHED
        assert runs.end(run=run, at=at(100 * (number + 1)), code=code, exit_code=int(number < 3))
    assert [each.failure for each in explanation(made[0], at(999)).runs] == [None]
    assert retries.judge(at(1_000)) == 3
    assert [(each.failure, each.failure_line, each.failure_origin) for each in explanation(made[0], at(999)).runs] == [
        (FailureClass.CODE, "KeyError: 'a'", Origin.OWN)
    ]
    assert explanation(made[3], at(999)).runs[0].failure_origin is None
    found = failed.of_node(world.root, world.cluster, [at(0), at(250)], at(HOUR))
    assert (found.ended, found.failed, found.held_milli_s) == (4, 3, 2_000 * 600)
    assert [(each.kind.value, each.runs, each.held_milli_s) for each in found.lines] == [
        ("code", 2, 600_000), ("network", 1, 600_000),
    ]  # fmt: skip
    assert [dict(each) for each in found.by_step] == [{Origin.OWN: 600_000}, {Origin.INFRASTRUCTURE: 600_000}]
    assert failed.of_node(world.leaves["B"], world.cluster, [at(0)], at(HOUR)).lines == []
