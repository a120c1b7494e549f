"""Figures beside plain loops over the same rows: totals, pace, who ran on whose entitlement, phases, squatting."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.models import BudgetNode, Cluster, Person
from budgets.services import shares, tree
from scheduler.models import ClusterHour, Device, Node, NodeSpell, Run, UsageHour, UtilizationHour, Workload
from scheduler.queries import (
    behind,
    fairness,
    lent,
    pace,
    people_usage,
    priorities,
    pyramid,
    squatting,
    usage,
    utilization,
    waits,
)
from scheduler.queries.behind import Window
from scheduler.queries.spans import Steps, steps
from scheduler.queries.squatting import TeamIdle
from scheduler.queries.usage import Step, balance_of
from scheduler.queries.utilization import Activity
from scheduler.queries.waits import ClassWaits
from scheduler.services import usage as usage_cache

T0 = datetime(2026, 3, 2, tzinfo=UTC)
HOUR_S = 3_600
HOURS = 48


def at(second: int) -> datetime:
    return T0 + timedelta(seconds=second)


@pytest.fixture
def lab(db: None) -> dict[str, BudgetNode]:
    """LAB > A > A1, A2; LAB > B; LAB > C."""
    founded = datetime(2026, 1, 1, tzinfo=UTC)
    nodes = {"LAB": tree.create_root(code="LAB", name="Laboratory", at=founded)}
    for parent, code in (("LAB", "A"), ("LAB", "B"), ("LAB", "C"), ("A", "A1"), ("A", "A2")):
        kind = "program" if parent == "LAB" else "project"
        nodes[code] = tree.add_child(parent=nodes[parent], kind=kind, code=code, name=code, by=None, at=founded)
    return nodes


@pytest.fixture
def north(lab: dict[str, BudgetNode]) -> Cluster:
    """A node of 8; A has a half, from 20 March a quarter."""
    cluster = Cluster.objects.create(name="north", executor="simulated")
    node = Node.objects.create(cluster=cluster, name="n1")
    Device.objects.bulk_create(Device(node=node, index=index) for index in range(8))
    for day, points in ((date(2026, 1, 1), 5_000), (date(2026, 3, 20), 2_500)):
        shares.set_shares(parent=lab["LAB"], cluster=cluster, shares={lab["A"]: points}, valid_from=day, by=None)
    return cluster


@pytest.fixture
def people(db: None) -> tuple[Person, Person]:
    return (
        Person.objects.create(username="ana", display_name="Ana"),
        Person.objects.create(username="bo", display_name="Bo"),
    )


def add_hours(cluster: Cluster, nodes: list[BudgetNode], hours: int, chance: random.Random) -> None:
    """Any hours that could be, of a cluster of 8."""
    for hour in range(hours):
        healthy = chance.choice((8_000, 8_000, 6_000)) * HOUR_S
        rest, available = healthy, healthy
        for node in nodes:
            entitled = 2_000 * HOUR_S
            part = min(entitled * healthy // (8_000 * HOUR_S), available)
            charged = chance.choice((0, min(rest, part), chance.randrange(rest + 1)))
            uncharged = chance.choice((0, chance.randrange(rest - charged + 1)))
            rest, available = rest - charged - uncharged, available - part
            UsageHour.objects.create(
                cluster=cluster,
                node=node,
                hour=at(hour * HOUR_S),
                charged_milli_s=charged,
                uncharged_milli_s=uncharged,
                demand_milli_s=charged + chance.choice((0, 7, 4_000 * HOUR_S)),
                entitled_milli_s=entitled,
                available_milli_s=part,
            )


def add_run(
    cluster: Cluster, leaf: BudgetNode, code: str, spans: list[tuple[int, int | None, int | None, int | None]], **more
) -> Workload:
    """A workload of 2 devices with runs (started, running, told, ended)."""
    state = more.pop("state", "finished")
    ended = [end for *_, end in spans]
    is_over = state in Workload.ENDED_STATES
    values = {"min_runtime_s": 3_600, "workload_class": "standard", "submitted_at": at(spans[0][0])} | more
    workload = Workload.objects.create(
        cluster=cluster,
        leaf=leaf,
        code=code,
        size_milli=2_000,
        state=state,
        first_started_at=at(spans[0][0]),
        ended_at=at(ended[-1] or 0) if is_over else None,
        **values,
    )
    for number, (start, running, told, end) in enumerate(spans, 1):
        Run.objects.create(
            workload=workload,
            number=number,
            cluster=cluster,
            leaf=leaf,
            path=leaf.path,
            size_milli=2_000,
            funded=workload.min_runtime_s > 0,
            min_runtime_s=workload.min_runtime_s,
            state="running" if end is None else "ended",
            started_at=at(start),
            running_at=None if running is None else at(running),
            stop_asked_at=None if told is None else at(told),
            ended_at=None if end is None else at(end),
        )
    return workload


def measure(run: Run, hour: int, measured_s: int, busy_percent: int) -> None:
    measured = run.size_milli * measured_s
    UtilizationHour.objects.create(
        cluster=run.cluster,
        run=run,
        hour=at(hour * HOUR_S),
        measured_milli_s=measured,
        busy_milli_s=measured * busy_percent // 100,
    )


# --- totals -----------------------------------------------------------------------------------------------------------


def test_the_database_balances_hours_as_the_rule_does(lab, north) -> None:
    nodes = [lab["A"], lab["B"], lab["C"]]
    add_hours(north, nodes, HOURS, random.Random(1))
    found = usage.totals(nodes, north, at(HOUR_S), at(40 * HOUR_S))
    rows = UsageHour.objects.filter(hour__gte=at(HOUR_S), hour__lt=at(40 * HOUR_S))
    plain = {node.pk: sum((balance_of(row) for row in rows if row.node_id == node.pk), usage.Books()) for node in nodes}
    assert found == plain
    found = usage.by_step(nodes, north, steps(at(HOUR_S), at(40 * HOUR_S), Step.DAY).starts, at(40 * HOUR_S))
    assert {
        pk: (sum(each.charged_milli_s for each in values), sum(each.entitled_milli_s for each in values))
        for pk, values in found.items()
    } == {pk: (books.charged_milli_s, books.entitled_milli_s) for pk, books in plain.items()}
    starts = steps(at(HOUR_S), at(40 * HOUR_S), Step.DAY).starts
    place = {start: number for number, start in enumerate(starts)}
    each: dict[tuple[int, int], usage.Books] = {}
    for row in rows.filter(node__in=nodes):
        key = (place[max(start for start in starts if start <= row.hour)], row.node_id)
        each[key] = each.get(key, usage.Books()) + balance_of(row)
    in_each = usage.totals_in_each([node.pk for node in nodes], north, starts, at(40 * HOUR_S))
    assert sorted((number, pk) for number, pk, _ in in_each) == sorted(each)
    assert {(number, pk): books for number, pk, books in in_each} == each
    charged = {pk: [each[number, pk].charged_milli_s for number in range(len(starts))] for pk in plain}
    apart, together = usage.charged_by_step(nodes[:1], nodes[1:], north, starts, at(40 * HOUR_S))
    assert apart == {nodes[0].pk: charged[nodes[0].pk]}
    assert together == [sum(column) for column in zip(*(charged[node.pk] for node in nodes[1:]), strict=True)]


def test_spans_are_cut_where_the_organisations_days_begin(settings) -> None:
    settings.TIME_ZONE = "Europe/Zurich"
    start = datetime(2026, 3, 28, 20, tzinfo=UTC)  # the night after, clocks go forward
    found = steps(start, start + timedelta(hours=49), Step.DAY)
    ends = [int((end - begin).total_seconds()) // HOUR_S for begin, end in found.bounds()]
    assert (ends, sum(ends)) == ([3, 23, 23], 49)
    assert len(steps(start, start + timedelta(hours=5), Step.HOUR).starts) == 5


# --- lent and borrowed ------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**12), st.dictionaries(st.integers(0, 50), st.integers(0, 10**12), min_size=1, max_size=9))
def test_what_is_shared_out_sums_exactly_and_nobody_gives_more_than_they_have(amount: int, among: dict) -> None:
    amount = min(amount, sum(among.values()))
    found = lent.shared_out(amount, among)
    assert sum(found.values()) == amount
    assert all(0 <= found[key] <= among[key] for key in among)


@given(
    st.dictionaries(st.integers(1, 9), st.integers(1, 10**9), max_size=5),
    st.dictionaries(st.integers(11, 19), st.integers(1, 10**9), max_size=5),
)
def test_an_hour_is_attributed_whole(borrowed: dict[int, int], spare: dict[int, int]) -> None:
    cells: lent.Cells = {}
    left = lent.attribute(borrowed, spare, cells)
    assert {who: sum(part for (by, _), part in cells.items() if by == who) for who in borrowed} == borrowed
    given_by = {whose: sum(part for (_, of), part in cells.items() if of == whose) for whose in spare}
    assert {whose: spare[whose] - given_by[whose] for whose in spare} == left
    assert all(amount >= 0 for amount in [*left.values(), *cells.values()])
    outside = sum(part for (_, whose), part in cells.items() if whose == lent.OUTSIDE)
    assert outside == max(0, sum(borrowed.values()) - sum(spare.values()))


def test_rows_are_what_the_books_call_borrowed_and_columns_never_exceed_what_was_spare(lab, north) -> None:
    nodes = [lab["A"], lab["B"], lab["C"]]
    add_hours(north, nodes, HOURS, random.Random(2))
    for hour in range(HOURS):  # the root has a quarter more than its children: that is unassigned
        UsageHour.objects.create(
            cluster=north, node=lab["LAB"], hour=at(hour * HOUR_S), entitled_milli_s=8_000 * HOUR_S,
            available_milli_s=8_000 * HOUR_S,
        )  # fmt: skip
    found = lent.matrix(lab["LAB"], north, T0, at(HOURS * HOUR_S))
    books = usage.totals(nodes, north, T0, at(HOURS * HOUR_S))
    for node in nodes:
        assert found.borrowed(node.pk) == books[node.pk].borrowed_milli_s > 0
        spare = sum(max(0, row.available_milli_s - row.charged_milli_s) for row in UsageHour.objects.filter(node=node))
        assert 0 < found.lent(node.pk) <= spare
        assert (node.pk, node.pk) not in found.cells
    assert found.borrowed(lent.UNALLOCATED) == sum(each.uncharged_milli_s for each in books.values())
    assert found.lent(lent.UNASSIGNED) > 0
    assert (
        sum(found.borrowed(pk) for pk in found.borrowers) == sum(found.lent(pk) for pk in found.lenders) == found.total
    )


def test_many_children_are_taken_together_and_lose_nothing(lab, north, monkeypatch) -> None:
    nodes = [lab["A"], lab["B"], lab["C"]]
    add_hours(north, nodes, HOURS, random.Random(3))
    whole = lent.matrix(lab["LAB"], north, T0, at(HOURS * HOUR_S))
    monkeypatch.setattr(lent, "HOURS_SQL", lent.HOURS_SQL.replace(f"LIMIT {lent.CHILDREN_MAX}", "LIMIT 1"))
    found = lent.matrix(lab["LAB"], north, T0, at(HOURS * HOUR_S))
    assert len(set(found.borrowers) & {node.pk for node in nodes}) == 1
    assert found.total == whole.total
    assert found.borrowed(lent.UNALLOCATED) == whole.borrowed(lent.UNALLOCATED)


def test_a_node_whose_children_used_nothing_has_an_empty_matrix(lab, north) -> None:
    assert lent.matrix(lab["A"], north, T0, at(HOUR_S)) == lent.Matrix([], [], {})


# --- pace -------------------------------------------------------------------------------------------------------------


def even_hours(cluster: Cluster, node: BudgetNode, days: int, part: Fraction) -> None:
    """So many days up to T0 + 10 days on which it got this part of what it was entitled to."""
    entitled = 4_000 * HOUR_S
    end = T0 + timedelta(days=10)
    UsageHour.objects.bulk_create(
        UsageHour(
            cluster=cluster, node=node, hour=end - timedelta(hours=hour + 1), entitled_milli_s=entitled,
            available_milli_s=entitled, charged_milli_s=int(entitled * part), demand_milli_s=entitled,
        )
        for hour in range(days * 24)
    )  # fmt: skip


def test_an_even_use_is_forecast_to_go_on_evenly_on_the_shares_that_are_decided(lab, north) -> None:
    even_hours(north, lab["A"], 28, Fraction(3, 4))
    now, end = T0 + timedelta(days=10), T0 + timedelta(days=20)
    found = pace.pace(lab["A"], north, T0, end, now)
    # a half of 8 devices until the 20th of March (8 days from now), then a quarter for the 2 days that are left
    to_come = 8 * 24 * 4_000 * HOUR_S + 2 * 24 * 2_000 * HOUR_S
    so_far = 10 * 24 * 4_000 * HOUR_S
    assert found.to_come_milli_s == [24 * 4_000 * HOUR_S] * 8 + [24 * 2_000 * HOUR_S] * 2
    assert (found.gone, found.is_over) == (Fraction(so_far, so_far + to_come), False)
    assert found.entitled_milli_s == so_far + to_come
    assert found.used == Fraction(so_far * 3 // 4, so_far + to_come)
    expected = (so_far + to_come) * 3 // 4
    assert found.forecast == pace.Forecast(expected, expected, expected, 28)


def test_a_forecast_has_a_range_that_is_the_same_at_each_look(lab, north) -> None:
    chance = random.Random(4)
    entitled = 4_000 * HOUR_S
    for hour in range(28 * 24):
        UsageHour.objects.create(
            cluster=north, node=lab["A"], hour=T0 - timedelta(hours=hour + 1), entitled_milli_s=entitled,
            available_milli_s=entitled, charged_milli_s=chance.randrange(entitled) if hour // 24 % 3 else 0,
        )  # fmt: skip
    found = pace.pace(lab["A"], north, T0 - timedelta(days=5), T0 + timedelta(days=15), T0)
    assert found == pace.pace(lab["A"], north, T0 - timedelta(days=5), T0 + timedelta(days=15), T0)
    assert found.forecast is not None
    so_far = found.books.charged_milli_s
    assert so_far < found.forecast.low_milli_s < found.forecast.middle_milli_s < found.forecast.high_milli_s
    assert found.forecast.high_milli_s < so_far + 15 * 24 * entitled


@pytest.mark.parametrize(
    ("days", "length", "expected"), [(6, 20, None), (28, 10, None), (7, 20, 7)], ids=["too little", "over", "enough"]
)
def test_there_is_a_forecast_where_something_is_to_come_and_a_week_is_known(lab, north, days, length, expected) -> None:
    even_hours(north, lab["A"], days, Fraction(1, 2))
    found = pace.pace(lab["A"], north, T0, T0 + timedelta(days=length), T0 + timedelta(days=10))
    assert (found.forecast.history_days if found.forecast else None) == expected


def test_pace_takes_the_same_number_of_queries_for_a_week_and_a_year(lab, north, django_assert_num_queries) -> None:
    even_hours(north, lab["A"], 28, Fraction(1, 2))
    for length in (11, 370):
        with django_assert_num_queries(3):
            pace.pace(lab["A"], north, T0, T0 + timedelta(days=length), T0 + timedelta(days=10))


# --- what held devices did --------------------------------------------------------------------------------------------


def test_held_time_is_split_by_what_it_was_to_the_second(lab, north) -> None:
    add_run(north, lab["A1"], "A1-1", [(100, 160, 3_000, 3_040), (4_000, 4_100, None, 9_000)], resumable=True)
    add_run(north, lab["A2"], "A2-1", [(0, 50, 500, 520)], state="preempted")
    add_run(north, lab["B"], "B-1", [(3_500, None, 3_700, 3_720)], state="cancelled")
    now = at(3 * HOUR_S)
    usage_cache.rebuild(north, T0, now, now=now)
    found = utilization.by_step(north, steps(T0, now, Step.HOUR), now)
    assert found == [
        Activity(
            held_milli_s=2_000 * (2_940 + 520 + 100),
            startup_milli_s=2_000 * (60 + 50 + 100),
            saving_milli_s=2_000 * (40 + 20),
            lost_milli_s=2_000 * 450,
        ),
        Activity(
            held_milli_s=2_000 * (3_200 + 120),
            startup_milli_s=2_000 * 100,
            restart_milli_s=2_000 * 100,
            saving_milli_s=2_000 * 20,
        ),
        Activity(held_milli_s=2_000 * 1_800),
    ]
    whole = sum(found, Activity())
    assert whole.running_milli_s == 2_000 * (2_840 + 4_900)


def test_a_run_that_goes_on_is_cut_now_and_what_was_not_measured_has_no_figure(lab, north) -> None:
    workload = add_run(north, lab["A1"], "A1-1", [(0, 0, None, None)], state="running")
    usage_cache.rebuild(north, T0, at(HOUR_S), now=at(1_000))
    (found,) = utilization.by_step(north, steps(T0, at(HOUR_S), Step.HOUR), at(1_000))
    assert found == Activity(held_milli_s=2_000 * 1_000)
    assert (found.utilization, found.measured) == (None, 0.0)
    measure(workload.runs.get(), 0, 900, 50)
    (found,) = utilization.by_step(north, steps(T0, at(HOUR_S), Step.HOUR), at(1_000))
    assert (found.utilization, found.measured, found.idle_milli_s) == (0.5, 0.9, 900_000)


def test_the_pyramid_of_two_hours(lab, north) -> None:
    ClusterHour.objects.create(
        cluster=north, hour=T0, capacity_milli_s=800, healthy_milli_s=600, held_milli_s=500, held_unfit_milli_s=25,
        uncharged_milli_s=100,
    )  # fmt: skip
    ClusterHour.objects.create(cluster=north, hour=at(HOUR_S), capacity_milli_s=800, healthy_milli_s=800)
    for code, hour, charged, demand in (("A", 0, 0, 400), ("A", 1, 500, 500), ("B", 0, 100, 100)):
        UsageHour.objects.create(
            cluster=north, node=lab[code], hour=at(hour * HOUR_S), charged_milli_s=charged, demand_milli_s=demand,
            entitled_milli_s=400, available_milli_s=400,
        )  # fmt: skip
    found = pyramid.pyramid(north, steps(T0, at(3 * HOUR_S), Step.HOUR), at(3 * HOUR_S))
    assert [point.start for point in found.points] == [T0, at(HOUR_S)], "an hour of which nothing is known is no point"
    assert found.total == pyramid.Layer(1_600, 1_400, 500, 25, 100, 900, 600)
    assert (found.total.availability, found.total.occupancy) == (1_400 / 1_600, 500 / 1_425)
    assert (found.total.impact, found.total.unallocated_share) == (600 / 900, 0.2)
    assert [point.layer.impact for point in found.points] == [100 / 500, 1.0]
    assert (found.activity.utilization, found.total.allocated_milli_s, found.total.free_milli_s) == (None, 400, 925)


def test_nothing_is_known_of_a_cluster_without_history(lab, north) -> None:
    found = pyramid.pyramid(north, steps(T0, at(HOUR_S), Step.HOUR), at(HOUR_S))
    assert (found.points, found.total, found.activity) == ([], pyramid.Layer(), Activity())


# --- what is behind ---------------------------------------------------------------------------------------------------


def test_lists_behind_the_figures(lab, north, people) -> None:
    ana, bo = people
    node = Node.objects.get()
    NodeSpell.objects.create(node=node, state="healthy", started_at=at(-100), ended_at=at(600))
    NodeSpell.objects.create(node=node, state="down", started_at=at(600), ended_at=None)
    first = add_run(north, lab["A1"], "A1-1", [(600, 600, None, 1_600)], owner=ana, submitted_at=at(100))
    second = add_run(north, lab["B"], "B-1", [(0, 0, None, 500)], owner=bo, min_runtime_s=0)
    measure(first.runs.get(), 0, 1_000, 10)
    measure(second.runs.get(), 0, 500, 90)
    window = Window(north, T0, at(HOUR_S), at(HOUR_S))
    assert behind.unfit(window, 1) == behind.Listed([behind.Unfit("n1", "down", at(600), None, 8_000 * 3_000)], 1)
    held = behind.held(window, 1)
    assert [(row.code, row.milli_s, row.uncharged_milli_s) for row in held.rows] == [
        ("A1-1", 2_000_000, 0), ("B-1", 1_000_000, 1_000_000),
    ]  # fmt: skip
    assert [(row.code, row.milli_s) for row in behind.waited(window, 1).rows] == [("A1-1", 2_000 * 500)]
    theirs = behind.idled(window, 1, person_id=ana.pk, managed=[])
    assert [(row.code, row.milli_s, row.utilization) for row in theirs.rows] == [("A1-1", 1_800_000, 0.1)]
    assert behind.idled(window, 1, person_id=0, managed=[]) == behind.Listed([], 0)
    assert behind.idled(window, 1, person_id=0, managed=[lab["LAB"].pk]).count == 2


# --- squatting --------------------------------------------------------------------------------------------------------


@pytest.fixture
def idle(lab, north, people) -> dict[str, Workload]:
    """Ana's in A1 idles for two hours, Bo's in A2 is at 5 %, Bo's in B idles: one hour of it was hardly measured."""
    ana, bo = people
    found = {
        "ana": add_run(north, lab["A1"], "A1-1", [(0, 0, None, 7_200)], owner=ana),
        "bo": add_run(north, lab["A2"], "A2-1", [(0, 0, None, 7_200)], owner=bo),
        "boB": add_run(north, lab["B"], "B-1", [(0, 0, None, 7_200)], owner=bo),
    }
    measure(found["ana"].runs.get(), 0, 3_600, 0)
    measure(found["ana"].runs.get(), 1, 3_600, 4)
    measure(found["bo"].runs.get(), 0, 3_600, 5)
    measure(found["boB"].runs.get(), 0, 599, 0)
    measure(found["boB"].runs.get(), 1, 600, 0)
    return found


def test_squatting_costs_its_team_what_was_measured_and_not_used(lab, north, idle) -> None:
    window = Window(north, T0, at(7_200), at(7_200))
    found = squatting.by_node([lab["A"], lab["B"], lab["C"]], window)
    assert found == {
        lab["A"].pk: TeamIdle(0, 2_000 * 10_800, 2_000 * 3_600 + 2_000 * 3_456, 1),
        lab["B"].pk: TeamIdle(0, 2_000 * 1_199, 2_000 * 600, 1),
        lab["C"].pk: TeamIdle(),
    }


def test_figures_of_a_person_are_for_that_person_and_those_who_manage_them(lab, north, idle, people) -> None:
    ana, bo = people
    window = Window(north, T0, at(7_200), at(7_200))

    def seen(person_id: int, *managed: str) -> tuple[list[str], list[str]]:
        theirs = {"person_id": person_id, "managed": [lab[code].pk for code in managed]}
        listed = squatting.workloads(lab["LAB"], window, 1, **theirs)
        assert listed.count == len(listed.rows)
        return [row.code for row in listed.rows], [row.name for row in squatting.people(lab["LAB"], window, **theirs)]

    assert seen(ana.pk) == (["A1-1"], ["Ana"])
    assert seen(bo.pk) == (["B-1"], ["Bo"])
    assert seen(0, "A") == (["A1-1"], ["Ana"])
    assert seen(0, "LAB") == (["A1-1", "B-1"], ["Ana", "Bo"])
    assert seen(0) == ([], [])


# --- waits, priorities, people ----------------------------------------------------------------------------------------


def test_waits_by_class_with_those_that_wait_still(lab, north) -> None:
    for number, wait in enumerate((0, 59, 60, 300, 100_000)):
        add_run(north, lab["A1"], f"A1-{number}", [(wait, wait, None, wait + 5)], submitted_at=T0)
    Workload.objects.create(
        cluster=north, leaf=lab["A2"], code="A2-9", size_milli=1_000, min_runtime_s=60, workload_class="debug",
        submitted_at=at(-500),
    )  # fmt: skip
    found = waits.by_class(lab["A"], north, T0, at(200_000), at(100))
    assert found == [
        ClassWaits("debug", still=1, still_longest_s=600),
        ClassWaits("standard", 5, 60, 100_000, 100_000, (2, 1, 1, 0, 0, 0, 0, 1, 0)),
        ClassWaits("large"),
        ClassWaits("unallocated"),
    ]
    assert waits.by_class(lab["B"], north, T0, at(200_000), at(100)) == [
        ClassWaits(name) for name in ("debug", "standard", "large", "unallocated")
    ]


def test_who_waited_longest(lab, north) -> None:
    add_run(north, lab["A1"], "A1-1", [(50, 50, None, 60)], submitted_at=T0)
    add_run(north, lab["B"], "B-1", [(10, 10, None, 60)], submitted_at=T0)
    Workload.objects.create(
        cluster=north, leaf=lab["A2"], code="A2-1", size_milli=1_000, min_runtime_s=60, workload_class="debug",
        submitted_at=T0,
    )  # fmt: skip
    found = fairness.waited_longest(lab["A"], north, T0, at(HOUR_S), at(30))
    assert [(row.code, row.wait_s) for row in found] == [("A1-1", 50), ("A2-1", 30)]


def test_delivery_of_a_level_is_of_its_children_each_for_itself(lab, north) -> None:
    for code, charged, demand in (("A", 900, 900), ("B", 100, 500)):
        UsageHour.objects.create(
            cluster=north, node=lab[code], hour=T0, charged_milli_s=charged, demand_milli_s=demand,
            entitled_milli_s=500, available_milli_s=500,
        )  # fmt: skip
    found = fairness.fairness(lab["LAB"], north, T0, at(HOUR_S))
    assert [(line.node.code, line.books.delivery, line.has_children) for line in found.lines] == [
        ("A", 1.0, True), ("B", 0.2, False), ("C", None, False),
    ]  # fmt: skip
    assert found.delivery == 600 / 1_000


def test_priorities_order_nothing_where_nearly_all_are_raised(lab, north, people) -> None:
    ana, bo = people
    for number in range(10):
        add_run(north, lab["A1"], f"A1-{number}", [(0, 0, None, 10)], owner=ana, priority=0 if number == 0 else 10)
    for number in range(4):
        add_run(north, lab["A2"], f"A2-{number}", [(0, 0, None, 10)], owner=bo, priority=10)
    a1, a2 = priorities.by_leaf(lab["A"], north, T0, at(HOUR_S), at(HOUR_S))
    assert (a1.leaf.code, a1.submitted, a1.raised, a1.all_raised) == ("A1", 10, 9, True)
    assert (a2.leaf.code, a2.submitted, a2.raised, a2.all_raised) == ("A2", 4, 4, False), "four are no pattern"
    assert [rank.held_milli_s for rank in a1.ranks] == [9 * 20_000, 20_000]
    everyone = priorities.by_person(lab["A"], north, T0, at(HOUR_S), only=None)
    assert [(row.name, row.submitted, row.raised) for row in everyone] == [("Ana", 10, 9), ("Bo", 4, 4)]
    assert [row.name for row in priorities.by_person(lab["A"], north, T0, at(HOUR_S), only=bo.pk)] == ["Bo"]


def test_people_sum_to_what_their_node_used(lab, north, people, monkeypatch) -> None:
    ana, bo = people
    chance = random.Random(5)
    plain: Counter[tuple[str, bool]] = Counter()
    for number in range(30):
        owner = chance.choice((ana, bo, None))
        start, length, funded = chance.randrange(5_000), chance.randrange(1, 5_000), chance.random() < 0.7
        add_run(
            north, lab[chance.choice(("A1", "A2"))], f"A-{number}", [(start, start, None, start + length)],
            owner=owner, min_runtime_s=60 if funded else 0,
        )  # fmt: skip
        seconds = max(0, min(start + length, 7_200) - max(start, 1_000))
        plain[owner.display_name if owner else "", funded] += 2_000 * seconds
    found = people_usage.by_person(lab["A"], north, at(1_000), at(7_200), at(9_000), only=None)
    assert {(row.name, True): row.charged_milli_s for row in found} == {
        key: amount for key, amount in plain.items() if key[1]
    }
    assert {(row.name, False): row.uncharged_milli_s for row in found} == {
        key: amount for key, amount in plain.items() if not key[1]
    }
    monkeypatch.setattr(people_usage, "SHOWN", 2)
    first, rest = people_usage.by_person(lab["A"], north, at(1_000), at(7_200), at(9_000), only=None)
    assert (first, rest.others) == (found[0], 2)
    assert rest.charged_milli_s == found[1].charged_milli_s + found[2].charged_milli_s
    only = people_usage.by_person(lab["A"], north, at(1_000), at(7_200), at(9_000), only=ana.pk)
    assert [row.name for row in only] == ["Ana"]


def test_an_empty_span_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        steps(T0, T0, Step.HOUR)
    assert Steps(Step.HOUR, [T0], at(HOUR_S)).bounds() == [(T0, at(HOUR_S))]
