"""What nodes say they measured: counted once, bounded by what was held, and nothing assumed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from budgets.errors import InputError
from scheduler.executors.base import Malformed, UtilizationSample
from scheduler.executors.simulated import activity_milli
from scheduler.models import Node, Rank, Run, UtilizationHour, UtilizationMark
from scheduler.services import utilization
from tests.scheduler.conftest import World, at, second_of


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """One node of 8 devices on which a workload of 2 runs since second 10."""
    world = make_world()
    world.submit("A", gpus=2, sim={"startup_s": 10, "duration_s": 5_000})
    world.live(30)
    return world


def said(run: Run, busy_milli_s: int, from_age_s: int, until_age_s: int = 0, **more: object) -> UtilizationSample:
    """A sample of rank 0."""
    values = {"run_id": str(run.pk), "rank_index": 0, "memory_milli": None, **more}
    return UtilizationSample(busy_milli_s=busy_milli_s, from_age_s=from_age_s, until_age_s=until_age_s, **values)  # type: ignore[arg-type]


def kept() -> list[tuple[int | None, int, int, int | None]]:
    """(hour, measured, busy, memory) of every row; hours as seconds of the tests' time."""
    rows = UtilizationHour.objects.order_by("run", "hour")
    return [(second_of(row.hour), row.measured_milli_s, row.busy_milli_s, row.memory_milli) for row in rows]


def test_samples_add_up_by_hour_and_count_once(world: World) -> None:
    run, node = Run.objects.get(), world.node("h1")
    assert utilization.keep(node=node, samples=[said(run, 15_000, 10)], now=at(30)) == 1
    assert utilization.keep(node=node, samples=[said(run, 15_000, 10)], now=at(30)) == 0
    assert utilization.keep(node=node, samples=[said(run, 20_000, 10, memory_milli=400)], now=at(40)) == 1
    assert kept() == [(0, 2_000 * 20, 35_000, 400)]


def test_a_repetition_a_second_later_counts_only_what_is_new(world: World) -> None:
    run, node = Run.objects.get(), world.node("h1")
    utilization.keep(node=node, samples=[said(run, 10_000, 10)], now=at(30))
    assert utilization.keep(node=node, samples=[said(run, 10_000, 10)], now=at(31)) == 1
    assert utilization.keep(node=node, samples=[said(run, 10_000, 10)], now=at(40)) == 1
    assert kept() == [(0, 2_000 * 20, 10_000 + 1_000 + 9_000, None)]  # 20 s really passed, and 20 s are measured


def test_a_stretch_over_the_hour_is_cut_to_the_second_and_sums_exactly(world: World) -> None:
    run, node = Run.objects.get(), world.node("h1")
    Run.objects.update(started_at=at(3_000), running_at=at(3_000))
    Rank.objects.update(began_at=at(3_000))
    assert utilization.keep(node=node, samples=[said(run, 1_001, 7)], now=at(3_604)) == 1
    assert kept() == [(0, 6_000, 429, None), (3_600, 8_000, 572, None)]


def test_nothing_is_measured_out_of_the_life_of_a_run(world: World) -> None:
    run, node = Run.objects.get(), world.node("h1")
    assert utilization.keep(node=node, samples=[said(run, 40_000, 40)], now=at(30)) == 1
    assert kept() == [(0, 2_000 * 20, 20_000, None)], "it began at second 10"
    assert utilization.keep(node=node, samples=[said(run, 0, 600, 500)], now=at(40)) == 0


def test_what_lies_apart_is_kept_in_order_of_time(world: World) -> None:
    run, node = Run.objects.get(), world.node("h1")
    samples = [said(run, 5_000, 5, 0), said(run, 2_000, 15, 10)]
    assert utilization.keep(node=node, samples=samples, now=at(30)) == 2
    assert kept() == [(0, 20_000, 7_000, None)]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"busy_milli_s": 24_001}, "utilization[0].busy_milli_s: 24001 is more than 2000 thousandths"),
        ({"busy_milli_s": -1}, "utilization[0].busy_milli_s: -1 is negative"),
        ({"from_age_s": 0}, "utilization[0].from_age_s: from 0 s to 0 s ago is not a stretch"),
        ({"until_age_s": -1}, "utilization[0].from_age_s: from 10 s to -1 s ago"),
        ({"from_age_s": 700_000}, "utilization[0].from_age_s: from 700000 s to 0 s ago"),
        ({"memory_milli": 1_001}, "utilization[0].memory_milli: 1001 is not 0 to 1,000"),
        ({"rank_index": 1}, "utilization[0].run_id: rank 1 of run"),
        ({"run_id": "999999"}, "utilization[0].run_id: rank 0 of run 999999 is not on h1"),
        ({"run_id": "9" * 40}, "utilization[0].run_id: '9999"),
        ({"run_id": "A-0001/1"}, "utilization[0].run_id: 'A-0001/1' is not a run's number"),
    ],
)
def test_what_cannot_be_is_refused_whole(world: World, changed: dict, expected: str) -> None:
    run = Run.objects.get()
    good = said(run, 10_000, 10)
    values = {name: getattr(good, name) for name in good.__slots__}
    with pytest.raises(InputError) as refused:
        utilization.keep(node=world.node("h1"), samples=[UtilizationSample(**{**values, **changed}), good], now=at(30))
    assert expected in f"{refused.value.field}: {refused.value.message}"
    assert not UtilizationHour.objects.exists()
    assert not UtilizationMark.objects.exists()


def test_a_run_of_another_node_is_refused(world: World) -> None:
    other = Node.objects.create(cluster=world.cluster, name="h2")
    with pytest.raises(InputError, match="is not on h2"):
        utilization.keep(node=other, samples=[said(Run.objects.get(), 1, 10)], now=at(30))


def test_stretches_of_one_report_that_overlap_are_refused(world: World) -> None:
    run = Run.objects.get()
    samples = [said(run, 10, 20, 5), said(run, 10, 10)]
    with pytest.raises(InputError) as refused:
        utilization.keep(node=world.node("h1"), samples=samples, now=at(30))
    assert (refused.value.field, refused.value.message) == (
        "utilization[1].from_age_s",
        "overlaps another stretch of the same rank",
    )


def test_any_number_of_samples_take_the_same_number_of_queries(
    world: World, django_assert_num_queries: Callable
) -> None:
    run, node = Run.objects.get(), world.node("h1")
    for samples, now in (([said(run, 1, 10)], 40), ([said(run, 1, 30 - n, 29 - n) for n in range(30)], 80)):
        with django_assert_num_queries(7):
            assert utilization.keep(node=node, samples=samples, now=at(now)) == len(samples)


def test_samples_cross_the_wire_strictly() -> None:
    sample = UtilizationSample("7", 0, 900, None, 10, 0)
    assert UtilizationSample.read(sample.write(), "utilization[0]") == sample
    for changed, field in (
        ({"run_id": 7}, "run_id"),
        ({"run_id": "x"}, "run_id"),
        ({"busy_milli_s": -1}, "busy_milli_s"),
        ({"memory_milli": 1_001}, "memory_milli"),
        ({"until_age_s": 10}, "from_age_s"),
        ({"extra": 1}, "extra"),
    ):
        with pytest.raises(Malformed) as refused:
            UtilizationSample.read({**sample.write(), **changed}, "utilization[0]")
        assert refused.value.field == f"utilization[0].{field}"


# --- invented work ----------------------------------------------------------------------------------------------------


def test_invented_nodes_measure_what_their_work_says_of_itself(make_world: Callable[..., World]) -> None:
    world = make_world()
    idle = world.submit("A", gpus=2, sim={"startup_s": 10, "duration_s": 5_000, "activity_milli": 0})
    world.submit("B", gpus=4, sim={"startup_s": 10, "duration_s": 90, "activity_milli": 3})
    world.live(200)
    assert utilization.invent(world.cluster, at(60)) == 2
    assert utilization.invent(world.cluster, at(60)) == 0
    assert utilization.invent(world.cluster, at(200)) == 2
    assert utilization.invent(world.cluster, at(200)) == 0, "what was said is not said again"
    found = {row.run.workload_id: (row.measured_milli_s, row.busy_milli_s) for row in UtilizationHour.objects.all()}
    assert found.pop(idle.pk) == (190 * 2_000, 0)
    assert list(found.values()) == [(90 * 4_000, 90 * 4_000 * 3 // 1_000)]


def test_work_that_says_nothing_is_drawn_by_its_code_and_wavers_by_the_hour() -> None:
    drawn = [activity_milli(f"A-{number:04d}", {}, hour) for number in range(50) for hour in range(20)]
    assert drawn == [activity_milli(f"A-{number:04d}", {}, hour) for number in range(50) for hour in range(20)]
    assert 480 <= min(drawn) < 600 < 900 < max(drawn) <= 1_000
    assert {activity_milli("A-0001", {"SIM_ACTIVITY_MILLI": "20"}, hour) for hour in range(200)} <= set(range(15, 26))


def test_a_cluster_with_agents_is_never_told_invented_activity(make_world: Callable[..., World]) -> None:
    world = make_world(executor="agent")
    assert utilization.invent(world.cluster, at(100) + timedelta(days=1)) == 0
