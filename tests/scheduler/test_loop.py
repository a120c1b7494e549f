"""When passes are made, and that there is one at a time whatever happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster
from budgets.services import tree
from scheduler import loop
from scheduler.engine import decide
from scheduler.models import Claim, Decision, Node, Pass, PolicyVersion, Run, Workload
from scheduler.services import clusters, nodes, passes, policies, workloads
from scheduler.snapshots import load
from tests.scheduler.conftest import World, at, check_books


def in_thread(work: Callable[[], object]) -> None:
    """Do something on a database connection of its own, and wait for it."""
    caught: list[BaseException] = []

    def body() -> None:
        try:
            work()
        except BaseException as error:
            caught.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if caught:
        raise caught[0]


def together(works: Sequence[Callable[[], object]]) -> None:
    """Do them at the same time, each on a connection of its own; the first error is raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        for result in [pool.submit(in_thread, work) for work in works]:
            result.result()


# --- one at a time ----------------------------------------------------------------------------------------------------


def test_a_second_pass_of_a_cluster_gives_way(make_world: Callable[..., World]) -> None:
    world = make_world()
    results: list[object] = []
    with loop.the_only_one(world.cluster.pk) as is_mine:
        assert is_mine
        in_thread(lambda: results.append(loop.run_pass(world.cluster.pk)))
    in_thread(lambda: results.append(loop.run_pass(world.cluster.pk)))
    assert results[0] is None
    assert results[1] is not None


def test_another_cluster_does_not_wait(make_world: Callable[..., World]) -> None:
    world = make_world()
    other = Cluster.objects.create(name="south")
    with loop.the_only_one(world.cluster.pk):
        results: list[object] = []
        in_thread(lambda: results.append(loop.run_pass(other.pk)))
    assert results[0] is not None


def test_a_pass_that_fails_lets_go_of_the_lock(make_world: Callable[..., World]) -> None:
    make_world()
    with pytest.raises(Cluster.DoesNotExist):
        loop.run_pass(999_999)

    def take() -> None:
        with loop.the_only_one(999_999) as is_mine:
            assert is_mine

    in_thread(take)


def test_the_lock_ends_with_a_session_that_is_cut(make_world: Callable[..., World]) -> None:
    """Somebody ends the connection in mid-pass: the lock is free, and this thread gets a new connection."""
    world = make_world()

    def cut() -> None:
        with loop.the_only_one(world.cluster.pk), connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (pid,) = cursor.fetchone()
            in_thread(lambda: connection.cursor().execute("SELECT pg_terminate_backend(%s)", [pid]))
            cursor.execute("SELECT 1")

    with pytest.raises(Exception, match=r"terminat|closed|connection"):
        in_thread(cut)
    assert loop.run_pass(world.cluster.pk, now=at(0)) is not None


ENOUGH = 10
"""Starts, so that something is seen of beats that meet."""


def test_many_ticks_at_once_start_nothing_twice(make_world: Callable[..., World]) -> None:
    """Four beats that never agree, while workloads come in: every workload starts once, and devices add up."""
    world = make_world(nodes={"h1": 8, "h2": 8}, pass_every_s=1)
    began_s = time.monotonic()

    def is_over() -> bool:
        """After three seconds; on a machine that has much to do, when enough have started."""
        passed_s = time.monotonic() - began_s
        return passed_s > 3 and (passed_s > 30 or Run.objects.count() > ENOUGH)

    def beat() -> None:
        while not is_over():
            loop.tick()

    def submit() -> None:
        while not is_over():
            workloads.submit(
                cluster=world.cluster,
                leaf=world.leaves["A"],
                owner=None,
                size_milli=1_000,
                min_runtime_s=300,
                command=["train"],
                environment={"SIM_STARTUP_S": "0", "SIM_DURATION_S": "1"},
            )
            time.sleep(0.05)

    together([beat, beat, beat, beat, submit])
    started = Run.objects.count()
    assert started > ENOUGH
    assert started == Workload.objects.exclude(state="queued").count(), "one run for each that started"
    marks = list(Pass.objects.order_by("pk").values_list("event_mark", flat=True))
    assert marks == sorted(marks), "no pass saw less than one before it"
    check_books()


# --- when -------------------------------------------------------------------------------------------------------------


def test_a_tick_makes_a_pass_when_it_is_due(make_world: Callable[..., World]) -> None:
    make_world(pass_every_s=10)
    assert [loop.tick(at(second)) for second in (0, 1, 9, 10, 11)] == [1, 0, 0, 1, 0]


def test_a_tick_looks_at_once_when_something_has_happened(make_world: Callable[..., World]) -> None:
    world = make_world(pass_every_s=10)
    loop.tick(at(0))
    workload = world.submit("A", now=1)
    assert loop.tick(at(1)) > 0
    workload.refresh_from_db()
    assert workload.state == "starting"
    assert loop.tick(at(2)) == 0, "its own start is no news"


def test_a_wake_up_for_what_was_seen_already_makes_no_pass(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.submit("A")
    assert loop.look_at(world.cluster.pk, now=at(0)) > 0
    assert [loop.look_at(world.cluster.pk, now=at(0)) for _ in range(5)] == [0] * 5


def test_time_never_runs_backwards(make_world: Callable[..., World]) -> None:
    world = make_world()
    loop.run_pass(world.cluster.pk, now=at(100))
    result = loop.run_pass(world.cluster.pk, now=at(40))
    assert result is not None
    assert result.stored.at == at(100)


def test_a_cluster_in_trouble_does_not_stop_the_others(make_world: Callable[..., World]) -> None:
    world = make_world()
    trouble = clusters.create(name="a-first", position=0)
    PolicyVersion.objects.filter(cluster=trouble).update(knobs={"grace_s": -1})
    workload = world.submit("A")
    loop.tick(at(0))
    workload.refresh_from_db()
    assert workload.state == "starting"
    assert not Pass.objects.filter(cluster=trouble).exists()


def test_quiet_passes_are_forgotten_after_an_hour(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.submit("A")
    for second in range(0, 100, 10):
        loop.run_pass(world.cluster.pk, now=at(second))
    assert passes.forget_quiet(at(100)) == 0
    assert passes.forget_quiet(at(2 * 3_600)) == 8
    kept = list(Pass.objects.order_by("pk").values_list("at", flat=True))
    assert kept == [at(0), at(90)], "the one that started something, and the last"


# --- between loading and applying -------------------------------------------------------------------------------------


def test_what_was_cancelled_meanwhile_does_not_start(make_world: Callable[..., World]) -> None:
    world = make_world()
    kept, gone = world.submit("A"), world.submit("B")
    loaded = load(world.cluster, at(1))
    plan = decide(loaded.snapshot, loaded.policy)
    workloads.cancel(workload=gone, by=None, now=at(2))
    applied = passes.apply(loaded, plan)
    assert applied.dropped == [gone.code]
    assert (world.runs(kept), world.runs(gone)) == ([(1, None)], [])
    assert not Decision.objects.filter(workload=gone).exists()


def test_nobody_is_preempted_for_one_that_is_gone(make_world: Callable[..., World]) -> None:
    world = make_world()
    victim = world.submit("A", gpus=8, min_runtime_s=0, sim={"startup_s": 0, "duration_s": 9_000})
    world.step(0)
    newcomer = world.submit("B", gpus=8, now=1)
    loaded = load(world.cluster, at(2))
    plan = decide(loaded.snapshot, loaded.policy)
    workloads.cancel(workload=newcomer, by=None, now=at(2))
    passes.apply(loaded, plan)
    victim.refresh_from_db()
    assert (victim.state, Claim.objects.count()) == ("running", 0)


def test_nothing_starts_on_a_node_that_fell_silent_meanwhile(make_world: Callable[..., World]) -> None:
    world = make_world(nodes={"h1": 8, "h2": 8})
    first, second = world.submit("A", gpus=8), world.submit("B", gpus=8)
    loaded = load(world.cluster, at(1))
    plan = decide(loaded.snapshot, loaded.policy)
    Node.objects.filter(name="h2").update(health="unreachable")
    applied = passes.apply(loaded, plan)
    assert applied.dropped == [second.code]
    assert (world.runs(first), world.runs(second)) == ([(1, None)], [])


def test_a_plan_applied_twice_changes_nothing_the_second_time(make_world: Callable[..., World]) -> None:
    world = make_world()
    workload = world.submit("A")
    loaded = load(world.cluster, at(1))
    plan = decide(loaded.snapshot, loaded.policy)
    passes.apply(loaded, plan)
    again = passes.apply(loaded, plan)
    assert (again.dropped, again.has_changed) == ([workload.code], False)
    assert world.runs(workload) == [(1, None)]


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_draining_node_gives_up_the_unallocated_at_once_and_contracts_at_their_end(
    make_world: Callable[..., World],
) -> None:
    world = make_world(nodes={"h1": 8})
    sim = {"startup_s": 0, "duration_s": 90_000, "exit_delay_s": 5}
    funded = world.submit("A", gpus=4, min_runtime_s=600, sim=sim, resumable=True)
    unallocated = world.submit("B", gpus=4, min_runtime_s=0, sim=sim, resumable=True)
    world.step(0)
    nodes.ask_drain(node=world.node("h1"), now=at(10))
    world.live(since=10, until=700)
    assert world.runs(unallocated) == [(0, 15)] or world.runs(unallocated) == [(0, 20)]
    assert world.runs(funded)[0][1] in (605, 610)
    unallocated.refresh_from_db()
    assert (unallocated.state, unallocated.reason_code, unallocated.preemptions) == ("queued", "waiting_nodes", 1)
    nodes.resume(node=world.node("h1"), now=at(710))
    world.step(710)
    assert len(world.runs(funded)) == len(world.runs(unallocated)) == 2


def test_runs_of_a_dead_node_are_lost_and_requeued_in_their_old_place(make_world: Callable[..., World]) -> None:
    world = make_world(nodes={"h1": 8, "h2": 8})
    sim = {"startup_s": 0, "duration_s": 90_000}
    resumable = world.submit("A", gpus=8, sim=sim, resumable=True)
    plain = world.submit("B", gpus=8, sim=sim)
    world.step(0)
    nodes.set_health(node=world.node("h1"), health="down", now=at(50))
    nodes.set_health(node=world.node("h2"), health="down", now=at(50))
    world.step(50)
    for row in (resumable, plain):
        row.refresh_from_db()
    assert (resumable.state, resumable.submitted_at) == ("queued", at(0))
    assert plain.state == "lost"
    assert {run.end_reason for run in Run.objects.all()} == {"node_lost"}


# --- the commands -----------------------------------------------------------------------------------------------------


def test_run_cycle_makes_a_pass(make_world: Callable[..., World]) -> None:
    world = make_world()
    workload = world.submit("A", now=0)
    printed = StringIO()
    call_command("run_cycle", "north", stdout=printed)
    workload.refresh_from_db()
    assert workload.first_started_at is not None
    assert timezone.now() - workload.first_started_at < timedelta(minutes=1)
    assert printed.getvalue().endswith("passes over north\n")


def test_run_cycle_of_no_cluster_is_one_line(transactional_db: None) -> None:
    with pytest.raises(CommandError, match="cluster: there is no 'nowhere'") as caught:
        call_command("run_cycle", "nowhere")
    assert caught.value.returncode == 2


# --- the policy -------------------------------------------------------------------------------------------------------


def test_a_changed_policy_is_a_version_that_later_passes_name(make_world: Callable[..., World]) -> None:
    world = make_world()
    before = loop.run_pass(world.cluster.pk, now=at(0))
    policies.change(cluster=world.cluster, knobs={"grace_s": 30, "swap_margin": "0.5"}, reason="try it")
    after = loop.run_pass(world.cluster.pk, now=at(1))
    assert before is not None
    assert after is not None
    assert (before.stored.policy.number, after.stored.policy.number) == (1, 2)
    assert after.stored.policy.knobs == {"grace_s": 30, "swap_margin": "1/2"}


@pytest.mark.parametrize(
    ("knobs", "field"),
    [
        ({"grace": 30}, "grace"),
        ({"grace_s": -1}, "grace_s"),
        ({"grace_s": "30"}, "grace_s"),
        ({"grace_s": True}, "grace_s"),
        ({"swap_margin": "1/0"}, "swap_margin"),
        ({"swap_margin": "nan"}, "swap_margin"),
        ({"lookback_s": 0}, "lookback_s"),
        ({"min_runtime_min_s": 30_000}, "min_runtime_min_s"),
        ({"self_fence_s": 3_900}, "self_fence_s"),
    ],
)
def test_a_bad_knob_is_named_and_changes_nothing(
    make_world: Callable[..., World], knobs: dict[str, object], field: str
) -> None:
    world = make_world()
    with pytest.raises(policies.InputError) as caught:
        policies.change(cluster=world.cluster, knobs=knobs)
    assert caught.value.field == field
    assert policies.latest(world.cluster).number == 1


# --- beside changes of the tree ---------------------------------------------------------------------------------------


def test_dividing_projects_while_work_comes_in_never_locks_up(make_world: Callable[..., World]) -> None:
    """A project is divided (its past moves) while others submit to it and passes start runs of it."""
    world = make_world(nodes={"h1": 8, "h2": 8}, pass_every_s=1)
    until_s = time.monotonic() + 3
    divided: list[str] = []

    def divide() -> None:
        leaf = world.leaves["A"]
        while time.monotonic() < until_s:
            time.sleep(0.1)
            leaf = tree.add_child(parent=leaf, kind="subproject", code=f"A{len(divided)}", name="part", by=None)
            divided.append(leaf.code)

    def submit() -> None:
        while time.monotonic() < until_s:
            leaf = BudgetNode.objects.get(code=divided[-1] if divided else "A")
            with suppress(InputError):  # it was divided just now, and is no leaf any more
                workloads.submit(
                    cluster=world.cluster,
                    leaf=leaf,
                    owner=None,
                    size_milli=1_000,
                    min_runtime_s=0,
                    command=["train"],
                    environment={"SIM_STARTUP_S": "0", "SIM_DURATION_S": "1"},
                )

    def beat() -> None:
        while time.monotonic() < until_s:
            loop.tick()

    together([divide, submit, submit, beat])
    assert len(divided) > 3
    assert Run.objects.exists()
    check_books()
