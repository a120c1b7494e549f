"""A pass on rows: what a plan does to workloads, runs, devices, claims and the log."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler import snapshots
from scheduler.engine import decide
from scheduler.loop import live_on, run_pass
from scheduler.models import Claim, Decision, Event, Holding, Pass, Rank, Run, Workload
from scheduler.services import passes, workloads
from tests.scheduler.conftest import World, at


def test_a_workload_starts_on_the_lowest_devices(make_world: Callable[..., World]) -> None:
    world = make_world(nodes={"h1": 4, "h2": 4})
    workload = world.submit("A", gpus=2)
    result = run_pass(world.cluster.pk, now=at(3))
    assert result is not None
    workload.refresh_from_db()
    run = Run.objects.get(workload=workload)
    assert (workload.state, workload.reason_code, workload.first_started_at) == ("starting", "started", at(3))
    assert (run.state, run.size_milli, run.funded, run.path) == ("starting", 2_000, True, world.leaves["A"].path)
    held = Holding.objects.filter(run=run).values_list("node__name", "device__index", "milli")
    assert sorted(held) == [("h1", 0, 1_000), ("h1", 1, 1_000)]
    assert list(Rank.objects.filter(run=run).values_list("index", "node__name", "state")) == [(0, "h1", "wanted")]
    assert Decision.objects.get(workload=workload).made_in == result.stored
    kinds = Event.objects.filter(workload=workload).values_list("kind", flat=True)
    assert list(kinds) == ["submitted", "run_started"]


def test_a_gang_of_several_nodes_has_a_rank_on_each(make_world: Callable[..., World]) -> None:
    world = make_world(nodes={"h2": 4, "h1": 4})
    workload = world.submit("A", gpus=6)
    run_pass(world.cluster.pk, now=at(0))
    run = Run.objects.get(workload=workload)
    assert run.size_milli == 8_000, "whole nodes are held whole"
    assert list(Rank.objects.filter(run=run).values_list("index", "node__name")) == [(0, "h1"), (1, "h2")]


def test_a_pass_that_decides_nothing_new_writes_only_itself(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.submit("A", gpus=8)
    world.submit("B", gpus=8)
    run_pass(world.cluster.pk, now=at(0))
    before = (Event.objects.count(), Decision.objects.count())
    run_pass(world.cluster.pk, now=at(10))
    assert (Event.objects.count(), Decision.objects.count()) == before
    assert Pass.objects.count() == 2


def test_a_victim_leaves_within_the_grace_and_its_devices_wait_for_the_claim(
    make_world: Callable[..., World],
) -> None:
    world = make_world()
    victim = world.submit("A", gpus=8, min_runtime_s=0, sim={"startup_s": 5, "duration_s": 9_000, "exit_delay_s": 20})
    world.step(0)
    world.step(100)
    newcomer = world.submit("B", gpus=8, now=101)
    world.step(101)
    run = Run.objects.get(workload=victim)
    assert (run.state, run.stop_asked_at, run.leave_by) == ("leaving", at(101), at(161))
    assert run.preempted_by == newcomer
    claim = Claim.objects.get(workload=newcomer)
    assert (claim.waits_for, claim.holdings, claim.ended_at) == ([run.pk], {"h1": 8_000}, None)
    newcomer.refresh_from_db()
    assert (newcomer.state, newcomer.reason_code) == ("queued", "waiting_victims")
    world.step(121)
    run.refresh_from_db()
    victim.refresh_from_db()
    claim.refresh_from_db()
    newcomer.refresh_from_db()
    assert (run.state, run.ended_at, run.end_reason) == ("ended", at(121), "preempted_unallocated")
    assert (newcomer.state, claim.outcome) == ("starting", "started")
    assert victim.state == "preempted", "it is not resumable"
    assert victim.preemptions == 1


def test_a_pass_takes_as_many_statements_for_many_starts_and_victims_as_for_one(
    make_world: Callable[..., World],
) -> None:
    counts = []
    world = make_world(nodes={"h1": 8}, pass_every_s=1)
    for amount in (1, 4):
        base = 1_000 * amount
        victims = [
            world.submit("A", gpus=8 // amount, min_runtime_s=0, now=base, sim={"startup_s": 0, "exit_delay_s": 0})
            for _ in range(amount)
        ]
        loaded = snapshots.load(world.cluster, at(base))
        with CaptureQueriesContext(connection) as starts:
            passes.apply(loaded, decide(loaded.snapshot, loaded.policy))
        live_on(world.cluster, at(base + 1))
        assert set(Run.objects.exclude(state="ended").values_list("state", flat=True)) == {"running"}
        newcomers = [world.submit("B", gpus=8 // amount, now=base + 2) for _ in range(amount)]
        loaded = snapshots.load(world.cluster, at(base + 2))
        with CaptureQueriesContext(connection) as claims:
            passes.apply(loaded, decide(loaded.snapshot, loaded.policy))
        assert Run.objects.filter(workload__in=victims, state="leaving").count() == amount
        assert Claim.objects.filter(workload__in=newcomers, ended_at=None).count() == amount
        counts.append((len(starts), len(claims)))
        for workload in newcomers:
            workloads.cancel(workload=workload, by=None, now=at(base + 3))
        live_on(world.cluster, at(base + 3))
        assert not Run.objects.exclude(state="ended").exists()
    assert counts[0] == counts[1]


def test_another_place_rewrites_no_reason(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.submit("A", gpus=8, sim={"startup_s": 0, "duration_s": 9_000})
    first, second = (world.submit("B", gpus=8, now=second) for second in (1, 2))
    for now in (5, 8):
        run_pass(world.cluster.pk, now=at(now))
    second.refresh_from_db()
    assert second.place == 2
    text = second.reason_text
    Workload.objects.filter(pk=second.pk).update(reason_numbers={"as they were": 1})
    workloads.cancel(workload=first, by=None, now=at(6))
    run_pass(world.cluster.pk, now=at(10))
    second.refresh_from_db()
    assert (second.place, second.reason_text, second.reason_numbers) == (1, text, {"as they were": 1})
