"""The queue and one workload explained: finished values, in a number of queries that no number of rows raises."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.queries import levels, queue
from scheduler.queries.queue import Filters
from scheduler.queries.workload import explanation
from scheduler.services import workloads
from tests.scheduler.conftest import World, at

HOUR_S = 3_600
TREE = {"A": (6_000, {"A1": 5_000, "A2": 5_000}), "B": 4_000}


def busy(make_world: Callable[..., World], rows: int) -> World:
    """A1 holds everything inside its contract; B, A2 and an unallocated one wait."""
    world = make_world(TREE, nodes={"h1": 8})
    world.submit("A1", gpus=8, min_runtime_s=2 * HOUR_S, sim={"startup_s": 0, "duration_s": 5 * HOUR_S})
    world.step(0)
    for number in range(rows):
        world.submit("A2", gpus=2, now=10 + number, name=f"tune {number}")
        world.submit("B", gpus=1, min_runtime_s=600, now=10 + number)
    world.submit("B", gpus=4, min_runtime_s=0, now=50)
    world.step(60)
    return world


def test_the_queue_is_in_the_order_of_the_pass_with_its_numbers(make_world: Callable[..., World]) -> None:
    world = busy(make_world, rows=1)
    page = queue.page(world.cluster, now=at(120))
    assert [(row.place, row.code, row.workload_class, row.waited_s) for row in page.rows] == [
        (1, "B-0001", "debug", 110),
        (2, "A2-0001", "large", 110),
        (3, "B-0002", "unallocated", 70),
    ]
    assert page.rows[0].reason_code == "waiting_capacity"
    assert page.rows[0].earliest_start_at == at(2 * HOUR_S)
    assert page.rows[0].promise == 1
    assert [level.code for level in page.rows[1].path] == ["A", "A2"]
    assert page.as_of == at(60)
    assert (page.count, page.pages, page.number) == (3, 1, 1)


def test_what_waits_now_changes_the_levels_of_a_pass_and_nothing_else(make_world: Callable[..., World]) -> None:
    world = busy(make_world, rows=1)
    last = levels.latest_pass(world.cluster)
    before = levels.levels_of(world.cluster, last)
    more = world.submit("B", gpus=3, now=70)
    other = world.submit("A1", gpus=1, now=70)
    then = levels.levels_of(world.cluster, last)
    assert [(row.code, row.turn, row.waiting) for row in then.rows] == [
        ("lab", 1, 4),
        ("B", 1, 2),
        ("A", 2, 2),
        ("A2", 1, 1),
        ("A1", 2, 1),
    ]
    assert then.of["A2"] is before.of["A2"]
    assert then.name != before.name
    levels._kept.clear()
    anew = levels.levels_of(world.cluster, last)
    assert (anew.rows, anew.below, anew.name) == (then.rows, then.below, then.name)
    for each in (more, other):
        workloads.cancel(workload=each, by=None, now=at(80))
    assert levels.levels_of(world.cluster, last).rows == before.rows


def test_levels_say_who_is_served_first(make_world: Callable[..., World]) -> None:
    found = queue.page(busy(make_world, rows=1).cluster).levels
    assert [(row.code, row.turn, row.waiting, row.waiting_milli) for row in found.rows] == [
        ("lab", 1, 2, 3_000),
        ("B", 1, 1, 1_000),
        ("A", 2, 1, 2_000),
        ("A2", 1, 1, 2_000),
        ("A1", None, 0, 0),
    ]
    first = found.of["A1"]
    assert (first.used_milli_s, first.committed_milli_s) == (8_000 * 60, 8_000 * (2 * HOUR_S - 60))
    assert first.entitlement == Fraction(3, 10)
    assert first.entitled_milli_s == Fraction(3, 10) * 8_000 * 604_800
    assert first.served == (8_000 * 2 * HOUR_S) / first.entitled_milli_s


def test_totals_of_the_cluster(make_world: Callable[..., World]) -> None:
    totals = queue.page(busy(make_world, rows=2).cluster, now=at(120)).totals
    assert (totals.waiting_funded, totals.waiting_funded_milli) == (4, 6_000)
    assert (totals.waiting_unallocated, totals.waiting_unallocated_milli) == (1, 4_000)
    assert (totals.capacity_milli, totals.healthy_milli, totals.held_milli) == (8_000, 8_000, 8_000)
    assert (totals.in_contract_milli, totals.interruptible_milli) == (8_000, 0)
    assert totals.longest_wait is not None
    assert totals.longest_wait.code == "A2-0001"


def test_filters(make_world: Callable[..., World]) -> None:
    world = busy(make_world, rows=2)

    def codes(**wanted: Any) -> list[str]:
        return [row.code for row in queue.page(world.cluster, filters=Filters(**wanted)).rows]

    assert codes(leaf="A") == ["A2-0001", "A2-0002"]
    assert codes(find="a2-0002") == ["A2-0002"]
    assert codes(find="TUNE 1", inside=[world.leaves["A"].pk]) == ["A2-0002"]
    assert codes(find="TUNE 1", inside=[world.leaves["B"].pk]) == [], "names are for those who see inside"
    assert codes(workload_class="unallocated") == ["B-0003"]
    assert codes(leaf="nowhere") == []


def test_pages(make_world: Callable[..., World]) -> None:
    world = busy(make_world, rows=2)
    second = queue.page(world.cluster, 2, per_page=2)
    assert (second.number, second.pages, second.count, len(second.rows)) == (2, 3, 5, 2)
    assert queue.page(world.cluster, 99, per_page=2).number == 3


def count_queries(ask: Callable[[], object]) -> int:
    with CaptureQueriesContext(
        connection,
    ) as caught:
        ask()
    return len(caught)


def test_no_number_of_rows_raises_the_number_of_queries(make_world: Callable[..., World]) -> None:
    world = busy(make_world, rows=1)
    workload = world.cluster.workloads.get(code="A2-0001")
    few = (count_queries(lambda: queue.page(world.cluster)), count_queries(lambda: explanation(workload)))
    for number in range(5):
        world.submit("A2", gpus=1, now=100 + number)
        world.submit("B", gpus=1, now=100 + number)
    world.step(120)
    workload = world.cluster.workloads.get(code="A2-0001")
    many = (count_queries(lambda: queue.page(world.cluster)), count_queries(lambda: explanation(workload)))
    assert many == few


def test_why_it_waits_from_the_root_down(make_world: Callable[..., World]) -> None:
    world = busy(make_world, rows=2)
    workload = world.cluster.workloads.get(code="A2-0002")
    said = explanation(workload, now=at(120))
    assert [(step.node.code, step.mine.code, [each.code for each in step.siblings]) for step in said.steps] == [
        ("lab", "A", ["B", "A"]),
        ("A", "A2", ["A2", "A1"]),
    ]
    assert [each.code for each in said.same_leaf] == ["A2-0001", "A2-0002"]
    assert [each.code for each in said.ahead] == ["B-0001", "B-0002", "A2-0001"]
    assert said.ahead_count == 3
    assert (said.runs, said.preemptions) == ([], [])
    assert [(line.kind, line.at) for line in said.events] == [("submitted", at(11))]


def test_why_it_was_preempted_with_both_sides(make_world: Callable[..., World]) -> None:
    world = make_world(TREE, nodes={"h1": 8})
    quick = {"startup_s": 0, "duration_s": 9 * HOUR_S, "exit_delay_s": 41}
    victim = world.submit("A1", gpus=8, min_runtime_s=HOUR_S, sim=quick, resumable=True)
    world.step(0)
    world.step(HOUR_S + 100)
    newcomer = world.submit("B", gpus=8, min_runtime_s=HOUR_S, sim=quick, now=HOUR_S + 200)
    world.step(HOUR_S + 200)
    world.step(HOUR_S + 241)
    victim.refresh_from_db()
    said = explanation(victim, now=at(HOUR_S + 300))
    (run,) = said.runs
    assert (run.started_at, run.contract_ends_at, run.ended_at, run.nodes) == (
        at(0),
        at(HOUR_S),
        at(HOUR_S + 241),
        ["h1"],
    )
    assert (run.preempted_by, run.charged_milli_s) == (newcomer.code, 8_000 * (HOUR_S + 241))
    (preemption,) = said.preemptions
    assert (preemption.code, preemption.by, preemption.at) == ("preempted_fair_share", newcomer.code, at(HOUR_S + 200))
    assert (preemption.contract_over_for_s, preemption.left_at) == (200, at(HOUR_S + 241))
    assert preemption.took is not None
    assert preemption.gave is not None
    assert (preemption.took.code, preemption.took.used_milli_s) == ("B", 0)
    assert (preemption.gave.code, preemption.gave.used_milli_s) == ("A", 8_000 * (HOUR_S + 200))
    assert preemption.gave.served == 8_000 * (HOUR_S + 200) / (Fraction(6, 10) * 8_000 * 604_800)
    assert preemption.newcomer_protected_until == at(HOUR_S + 241 + HOUR_S)
    assert victim.progress_s == HOUR_S + 200
    assert said.waits_since == at(HOUR_S + 241), "it waits again since its run ended, not since it was submitted"
    page = queue.page(world.cluster, now=at(HOUR_S + 300))
    assert [(row.code, row.waited_s) for row in page.rows] == [(victim.code, 59)]
    assert (page.totals.longest_wait, page.totals.longest_wait_since) == (victim, at(HOUR_S + 241))
    assert explanation(newcomer).took_from == [victim.code]
