"""The hourly cache beside plain loops over the same rows, second by second exact; and the books of section 10."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from budgets.models import BudgetNode, Cluster, LedgerEntry
from budgets.queries import day_of, midnight
from budgets.services import shares, tree
from scheduler.models import (
    ClusterHour,
    Decision,
    Device,
    Event,
    Holding,
    MaintenanceWindow,
    Node,
    NodeSpell,
    Run,
    UsageHour,
    Workload,
)
from scheduler.queries import figures
from scheduler.queries import usage as usage_queries
from scheduler.queries.usage import Books, balance
from scheduler.services import usage

T0 = datetime(2026, 3, 28, 20, tzinfo=UTC)  # the night after, clocks go forward in Zurich
HOUR_S = 3_600
LENGTH_S = 12 * HOUR_S


def at(second: int) -> datetime:
    return T0 + timedelta(seconds=second)


@pytest.fixture
def lab(db: None, settings) -> dict[str, BudgetNode]:
    """LAB > A > A1, A2 and LAB > B, all since 2026."""
    settings.TIME_ZONE = "Europe/Zurich"
    founded = datetime(2026, 1, 1, tzinfo=UTC)
    nodes = {"LAB": tree.create_root(code="LAB", name="Laboratory", at=founded)}
    for parent, kind, code in [
        ("LAB", "program", "A"),
        ("A", "project", "A1"),
        ("A", "project", "A2"),
        ("LAB", "program", "B"),
    ]:
        nodes[code] = tree.add_child(parent=nodes[parent], kind=kind, code=code, name=code, by=None, at=founded)
    return nodes


@pytest.fixture
def north(lab: dict[str, BudgetNode]) -> Cluster:
    """A node of 8 and one of 4; A has two thirds (about), from the 29th on a half; A1 has 30 % of it."""
    cluster = Cluster.objects.create(name="north", executor="simulated")
    for name, count in (("n1", 8), ("n2", 4)):
        node = Node.objects.create(cluster=cluster, name=name)
        Device.objects.bulk_create(Device(node=node, index=index) for index in range(count))
    for day, parts in ((date(2026, 1, 1), (6667, 3333)), (date(2026, 3, 29), (5000, 3333))):
        give = dict(zip((lab["A"], lab["B"]), parts, strict=True))
        shares.set_shares(parent=lab["LAB"], cluster=cluster, shares=give, valid_from=day, by=None)
    shares.set_shares(parent=lab["A"], cluster=cluster, shares={lab["A1"]: 3000}, valid_from=date(2026, 1, 1), by=None)
    return cluster


def add_workload(cluster: Cluster, leaf: BudgetNode, code: str, size: int, submit: int, **more) -> Workload:
    end = more.pop("end", None)
    values = {"min_runtime_s": 3_600, "state": "queued" if end is None else "finished"} | more
    return Workload.objects.create(
        cluster=cluster,
        leaf=leaf,
        owner=None,
        code=code,
        size_milli=size,
        workload_class="standard",
        submitted_at=at(submit),
        ended_at=None if end is None else at(end),
        **values,
    )


def add_run(workload: Workload, number: int, start: int, end: int | None, **more) -> Run:
    values = {"funded": workload.min_runtime_s > 0, "size_milli": workload.size_milli} | more
    return Run.objects.create(
        workload=workload,
        number=number,
        cluster=workload.cluster,
        leaf=workload.leaf,
        path=workload.leaf.path,
        min_runtime_s=workload.min_runtime_s,
        state="running" if end is None else "ended",
        started_at=at(start),
        ended_at=None if end is None else at(end),
        **values,
    )


def add_spells(node: Node, *spells: tuple[str, int, int | None]) -> None:
    for state, start, end in spells:
        NodeSpell.objects.create(
            node=node, state=state, started_at=at(start), ended_at=None if end is None else at(end)
        )


def cached(node: BudgetNode, field: str) -> list[int]:
    """The amounts of the hours from T0 on, missing ones as 0."""
    rows = dict(UsageHour.objects.filter(node=node).values_list("hour", field))
    return [rows.get(at(hour * HOUR_S), 0) for hour in range(LENGTH_S // HOUR_S)]


def by_hour(spans: list[tuple[int, int, int]]) -> list[int]:
    """(amount, start, end) spans as amounts by hour: the plain way."""
    hours = [0] * (LENGTH_S // HOUR_S)
    for amount, start, end in spans:
        for hour in range(len(hours)):
            hours[hour] += amount * max(0, min(end, (hour + 1) * HOUR_S) - max(start, hour * HOUR_S))
    return hours


def test_an_hour_is_cut_to_the_second(lab, north) -> None:
    job = add_workload(north, lab["A1"], "A1-1", 2_000, 600, end=5_401)
    add_run(job, 1, 1_800, 5_401)
    free = add_workload(north, lab["A1"], "A1-2", 500, 0, min_runtime_s=0, end=7_200)
    add_run(free, 1, 3_599, 7_200)
    usage.rebuild(north, at(0), at(LENGTH_S), now=at(LENGTH_S))
    for node in (lab["A1"], lab["A"], lab["LAB"]):
        assert cached(node, "charged_milli_s")[:3] == [2_000 * 1_800, 2_000 * 1_801, 0]
        assert cached(node, "uncharged_milli_s")[:3] == [500, 500 * 3_600, 0]
        assert cached(node, "demand_milli_s")[:3] == [2_000 * 3_000, 2_000 * 1_801, 0]
    assert not UsageHour.objects.filter(node__in=[lab["A2"], lab["B"]]).exists()


def test_what_waits_asks_for_whole_nodes_and_while_held_for_nothing(lab, north) -> None:
    add_workload(north, lab["B"], "B-1", 12_000, 0)  # larger than a node of 8: holds 16
    held = add_workload(north, lab["A2"], "A2-1", 1_000, 0, state="held")
    Decision.objects.create(workload=held, at=at(600), action="hold", code="no_entitlement", text="x")
    Decision.objects.create(workload=held, at=at(1_200), action="release", code="waiting_order", text="x")
    Decision.objects.create(workload=held, at=at(3_000), action="hold", code="closed", text="x")
    add_workload(north, lab["A2"], "A2-2", 1_000, 0, state="refused", end=1)
    add_workload(north, lab["A2"], "A2-3", 1_000, 0, min_runtime_s=0)
    add_workload(north, lab["A2"], "A2-4", 1_000, 0, state="held", reason_code="waiting_after")
    usage.rebuild(north, at(0), at(7_200), now=at(7_200))
    assert cached(lab["B"], "demand_milli_s")[:2] == [16_000 * 3_600] * 2
    assert cached(lab["A2"], "demand_milli_s")[:2] == [1_000 * (600 + 1_800), 0]


def test_a_requeued_workload_asks_between_its_runs(lab, north) -> None:
    job = add_workload(north, lab["B"], "B-1", 12_000, 100)
    add_run(job, 1, 200, 1_000, size_milli=16_000)
    add_run(job, 2, 2_000, 2_500, size_milli=16_000)
    usage.rebuild(north, at(0), at(3_000), now=at(3_000))
    assert cached(lab["B"], "demand_milli_s")[0] == 16_000 * 2_900
    assert cached(lab["B"], "charged_milli_s")[0] == 16_000 * 1_300


def test_a_run_that_an_operator_stopped_is_credited(lab, north) -> None:
    job = add_workload(north, lab["B"], "B-1", 1_000, 0)
    add_run(job, 1, 0, 1_000, end_reason="stopped_by_operator")
    usage.rebuild(north, at(0), at(1_000), now=at(1_000))
    row = UsageHour.objects.get(node=lab["B"], hour=at(0))
    assert (row.charged_milli_s, row.uncharged_milli_s, row.demand_milli_s) == (0, 1_000_000, 1_000_000)


def test_devices_by_what_they_were_fit_for(lab, north) -> None:
    n1, n2 = Node.objects.order_by("name")
    add_spells(n1, ("healthy", 0, 1_800), ("draining", 1_800, 3_600), ("down", 3_600, 7_200), ("healthy", 7_200, None))
    add_spells(n2, ("healthy", 3_600, None))
    for start, end in ((8_000, 9_000), (8_500, 9_500)):  # they overlap: counted once
        MaintenanceWindow.objects.create(node=n1, starts_at=at(start), ends_at=at(end))
    MaintenanceWindow.objects.create(node=n2, starts_at=at(0), ends_at=at(9_000), cancelled_at=at(0))
    job = add_workload(north, lab["B"], "B-1", 8_000, 0, end=2_000)
    run = add_run(job, 1, 1_000, 2_000)
    Holding.objects.bulk_create(
        Holding(run=run, node=n1, device=device, milli=1_000, released_at=at(2_000)) for device in n1.devices.all()
    )
    usage.rebuild(north, at(0), at(9_600), now=at(9_600))
    rows = ClusterHour.objects.order_by("hour")
    assert [(row.capacity_milli_s, row.healthy_milli_s, row.held_milli_s, row.held_unfit_milli_s) for row in rows] == [
        (8_000 * 3_600, 8_000 * 1_800, 8_000 * 1_000, 8_000 * 200),
        (12_000 * 3_600, 4_000 * 3_600, 0, 0),
        (12_000 * 2_400, 12_000 * 2_400 - 8_000 * 1_500, 0, 0),
    ]
    found = figures.of_cluster(north, at(0), at(9_600))
    capacity, healthy = 8_000 * 3_600 + 12_000 * 6_000, 8_000 * 1_800 + 4_000 * 3_600 + 12_000 * 2_400 - 8_000 * 1_500
    assert found.availability == healthy / capacity
    assert found.occupancy == 8_000 * 1_000 / (healthy + 8_000 * 200)
    assert found.unallocated_share == 0


def test_entitlement_steps_with_the_organisations_day(lab, north) -> None:
    n1, n2 = Node.objects.order_by("name")
    add_spells(n1, ("healthy", 0, None))
    add_spells(n2, ("draining", 0, None))
    usage.rebuild(north, at(0), at(4 * HOUR_S), now=at(4 * HOUR_S))
    # midnight in Zurich is at 23:00 UTC, three hours after T0
    assert cached(lab["A"], "entitled_milli_s")[:4] == [28_801_440] * 3 + [21_600_000]
    assert cached(lab["A"], "available_milli_s")[:4] == [19_200_960] * 3 + [14_400_000]
    assert cached(lab["A1"], "entitled_milli_s")[:4] == [8_640_432] * 3 + [6_480_000]
    assert cached(lab["LAB"], "entitled_milli_s")[:4] == [43_200_000] * 4


@pytest.mark.parametrize("seed", range(8))
def test_random_worlds_beside_plain_loops(lab, north, seed: int) -> None:
    chance = random.Random(seed)
    charged, uncharged, demand = (defaultdict(list) for _ in range(3))
    for number in range(25):
        leaf = chance.choice([lab["A1"], lab["A2"], lab["B"]])
        size = chance.choice([250, 1_000, 3_000, 8_000])
        submit = chance.randrange(-20_000, LENGTH_S)
        is_funded = chance.random() < 0.7
        moments = sorted(chance.randrange(submit, submit + 40_000) for _ in range(chance.choice([0, 2, 4])))
        end = moments[-1] if moments and chance.random() < 0.6 else None
        job = add_workload(north, leaf, f"J-{number}", size, submit, end=end, min_runtime_s=3_600 if is_funded else 0)
        for index in range(0, len(moments), 2):
            start, stop = moments[index], moments[index + 1]
            add_run(job, index // 2 + 1, start, stop)
            (charged if is_funded else uncharged)[leaf.code].append((size, start, stop))
        if is_funded:
            demand[leaf.code].append((size, submit, LENGTH_S if end is None else end))
    usage.rebuild(north, at(0), at(LENGTH_S), now=at(LENGTH_S))
    below = {"A1": ["A1"], "A2": ["A2"], "B": ["B"], "A": ["A1", "A2"], "LAB": ["A1", "A2", "B"]}
    for code, leaves in below.items():
        for field, spans in (("charged", charged), ("uncharged", uncharged), ("demand", demand)):
            wanted = by_hour([span for leaf in leaves for span in spans[leaf]])
            assert cached(lab[code], f"{field}_milli_s") == wanted, (code, field)
    held = dict(ClusterHour.objects.values_list("hour", "held_milli_s"))
    everything = [
        a + b
        for a, b in zip(cached(lab["LAB"], "charged_milli_s"), cached(lab["LAB"], "uncharged_milli_s"), strict=True)
    ]
    assert [held.get(at(hour * HOUR_S), 0) for hour in range(12)] == everything


def test_rolled_up_piece_by_piece_is_the_same_as_at_once(lab, north) -> None:
    add_spells(Node.objects.get(name="n1"), ("healthy", 0, None))
    add_run(add_workload(north, lab["A1"], "A1-1", 2_000, 600), 1, 1_800, None)
    add_workload(north, lab["B"], "B-1", 4_000, 20_000)
    for now in range(900, LENGTH_S + 1, 5_400):
        usage.roll_up(north, at(now))
    fields = ("node", "hour", "charged_milli_s", "demand_milli_s", "entitled_milli_s", "available_milli_s")
    piecewise = list(UsageHour.objects.order_by("hour", "node").values_list(*fields))
    usage.rebuild(north, at(0), at(now), now=at(now))
    assert list(UsageHour.objects.order_by("hour", "node").values_list(*fields)) == piecewise
    assert usage.check(north, at(0), at(LENGTH_S), now=at(10 * LENGTH_S)) != []  # it went on since
    Run.objects.update(state="ended", ended_at=at(now))
    Workload.objects.update(state="cancelled", ended_at=at(now))
    NodeSpell.objects.update(ended_at=at(now))
    assert usage.check(north, at(0), at(LENGTH_S), now=at(10 * LENGTH_S)) == []


def test_an_end_that_is_learnt_late_is_put_right(lab, north) -> None:
    run = add_run(add_workload(north, lab["A1"], "A1-1", 2_000, 0), 1, 0, None)
    usage.roll_up(north, at(10_000))
    assert cached(lab["A1"], "charged_milli_s")[:3] == [7_200_000, 7_200_000, 2_000 * 2_800]
    Run.objects.filter(pk=run.pk).update(state="ended", ended_at=at(4_000), end_reason="node_lost")
    usage.roll_up(north, at(10_800))
    assert cached(lab["A1"], "charged_milli_s")[:3] == [7_200_000, 2_000 * 400, 0]


def test_a_long_history_is_computed_in_pieces_that_stay_done(lab, north, monkeypatch) -> None:
    add_spells(Node.objects.get(name="n1"), ("healthy", 0, None))
    add_run(add_workload(north, lab["A1"], "A1-1", 2_000, 600), 1, 1_800, None)
    now = at(7 * HOUR_S + 900)
    monkeypatch.setattr(usage, "PIECE", timedelta(hours=2))
    monkeypatch.setattr(usage, "_changed_from", lambda last, now: now)
    rebuild, done = usage.rebuild, []

    def slow(cluster, start, end, **rest):
        if len(done) == 2:
            raise TimeoutError
        done.append(((start - at(0)) // timedelta(hours=1), (end - at(0)) // timedelta(hours=1)))
        rebuild(cluster, start, end, **rest)

    monkeypatch.setattr(usage, "rebuild", slow)
    with pytest.raises(TimeoutError):
        usage.roll_up(north, now)
    assert done == [(0, 2), (2, 4)]
    done.clear()
    with pytest.raises(TimeoutError):
        usage.roll_up(north, now)
    assert done == [(3, 5), (5, 7)], "it goes on with the last hour that it has"
    done.clear()
    assert usage.roll_up(north, now, within_s=0.0) == (at(6 * HOUR_S), at(8 * HOUR_S))
    assert done == [(6, 8)]
    monkeypatch.setattr(usage, "_changed_from", lambda last, now: at(0))
    done.clear()
    assert usage.roll_up(north, now, within_s=0.0) == (at(0), at(2 * HOUR_S))
    assert done == [(0, 2)]
    assert usage.check(north, at(0), now, now=now) == []


def test_the_day_is_computed_again_only_where_the_ledger_had_news(lab, north, monkeypatch) -> None:
    day = midnight(day_of(timezone.now())) + timedelta(days=30)
    node = Node.objects.get(name="n1")
    NodeSpell.objects.create(node=node, state="healthy", started_at=day - timedelta(hours=1), ended_at=None)
    usage.roll_up(north, day + timedelta(hours=20))
    rebuild, done = usage.rebuild, []

    def noted(cluster, start, end, **rest):
        done.append(start - day)
        rebuild(cluster, start, end, **rest)

    monkeypatch.setattr(usage, "rebuild", noted)
    usage.roll_up(north, day + timedelta(hours=20, minutes=1))
    LedgerEntry.objects.create(at=day + timedelta(hours=19, minutes=30), verb="node_renamed")
    usage.roll_up(north, day + timedelta(hours=20, minutes=2))
    usage.roll_up(north, day + timedelta(hours=21, minutes=2))
    usage.roll_up(north, day + timedelta(hours=22, minutes=2))
    assert done == [timedelta(hours=each) for each in (17, 0, 0, 19)]


def test_a_cluster_without_history_has_nothing_to_roll_up(north) -> None:
    assert usage.roll_up(north, at(0)) is None


def test_the_check_names_each_hour_that_differs(lab, north) -> None:
    add_run(add_workload(north, lab["A1"], "A1-1", 1_000, 0, end=3_600), 1, 0, 3_600)
    usage.rebuild(north, at(0), at(7_200), now=at(7_200))
    later = at(LENGTH_S * 10)
    assert usage.check(north, at(0), at(7_200), now=later) == []
    UsageHour.objects.filter(node=lab["A1"]).update(charged_milli_s=1)
    UsageHour.objects.filter(node=lab["A"]).delete()
    ClusterHour.objects.update(held_milli_s=5)
    found = [
        (each.node_id, each.hour, each.field, each.cached, each.computed)
        for each in usage.check(north, at(0), at(7_200), now=later)
    ]
    whole = 3_600_000
    assert found == [
        (None, at(0), "held_milli_s", 5, whole),
        *[
            (lab["A"].pk, at(0), f"{field}_milli_s", None, amount)
            for field, amount in [
                ("available", 0),
                ("charged", whole),
                ("demand", whole),
                ("entitled", 0),
                ("uncharged", 0),
            ]
        ],
        (lab["A1"].pk, at(0), "charged_milli_s", 1, whole),
        (lab["LAB"].pk, at(0), "held_milli_s", 5, whole),
    ]
    assert usage.put_right(north, now=later) == len(found)
    assert usage.put_right(north, now=later) == 0


def test_a_leaf_that_is_divided_keeps_its_past_in_a_closed_child(lab, north) -> None:
    ended = add_workload(north, lab["A1"], "A1-1", 1_000, 0, end=3_600)
    add_run(ended, 1, 0, 3_600)
    waits = add_workload(north, lab["A1"], "A1-2", 1_000, 0)
    running = add_workload(north, lab["A1"], "A1-3", 1_000, 0, state="running")
    run = add_run(running, 1, 0, None)
    usage.rebuild(north, at(0), at(3_600), now=at(3_600))
    before = cached(lab["A1"], "charged_milli_s")
    tree.add_child(parent=lab["A1"], kind="member", code="A1x", name="x", by=None)
    kept = BudgetNode.objects.get(code="A1_0")
    assert kept.is_closed
    assert set(Workload.objects.values_list("code", "leaf__code")) == {
        ("A1-1", "A1_0"),
        ("A1-2", "A1_0"),
        ("A1-3", "A1_0"),
    }
    assert [row.path for row in Run.objects.all()] == [kept.path, kept.path]
    assert Run.objects.get(pk=run.pk).leaf_id == kept.pk
    moved = Event.objects.filter(kind="moved").order_by("workload").values_list("workload", "data__workload__leaf")
    assert list(moved) == [(waits.pk, kept.pk), (running.pk, kept.pk)]
    assert cached(lab["A1"], "charged_milli_s") == cached(kept, "charged_milli_s") == before
    assert usage.check(north, at(0), at(3_600), now=at(10 * LENGTH_S)) == []


amounts = st.integers(0, 10**15)


@given(amounts, amounts, amounts, amounts, amounts)
def test_the_books_of_an_hour_balance(charged: int, waiting: int, uncharged: int, entitled: int, unfit: int) -> None:
    available, demand = max(0, entitled - unfit), charged + waiting
    books = balance(charged=charged, uncharged=uncharged, demand=demand, entitled=entitled, available=available)
    parts = (books.within_milli_s, books.not_delivered_milli_s, books.not_asked_milli_s, books.in_repair_milli_s)
    assert min(parts) >= 0
    assert sum(parts) == entitled
    assert books.charged_milli_s == charged
    assert books.within_milli_s <= entitled
    assert books.not_delivered_milli_s == max(0, min(available, demand) - charged)
    assert books.borrowed_milli_s == max(0, charged - entitled)


@pytest.mark.parametrize(
    ("charged", "demand", "entitled", "available", "expected"),
    [
        # within, not delivered, not asked, in repair, borrowed
        (40, 40, 100, 100, (40, 0, 60, 0, 0)),
        (40, 90, 100, 100, (40, 50, 10, 0, 0)),
        (150, 150, 100, 100, (100, 0, 0, 0, 50)),
        (40, 200, 100, 70, (40, 30, 0, 30, 0)),
        (90, 200, 100, 70, (90, 0, 0, 10, 0)),
        (0, 0, 100, 70, (0, 0, 70, 30, 0)),
        (5, 9, 0, 0, (0, 0, 0, 0, 5)),
    ],
)
def test_where_an_entitlement_went(charged: int, demand: int, entitled: int, available: int, expected) -> None:
    books = balance(charged=charged, uncharged=0, demand=demand, entitled=entitled, available=available)
    assert (
        books.within_milli_s,
        books.not_delivered_milli_s,
        books.not_asked_milli_s,
        books.in_repair_milli_s,
        books.borrowed_milli_s,
    ) == expected


def test_a_series_by_day_is_the_sum_of_its_hours(lab, north, django_assert_num_queries) -> None:
    for node in Node.objects.all():
        add_spells(node, ("healthy", -7_200, None))
    add_run(add_workload(north, lab["A1"], "A1-1", 6_000, 0, end=30_000), 1, 5_000, 30_000)
    usage.roll_up(north, at(40_000))
    with django_assert_num_queries(1):
        hourly = usage_queries.series(lab["A1"], north, at(-86_400), at(86_400))
    with django_assert_num_queries(1):
        daily = usage_queries.series(lab["A1"], north, at(-86_400), at(86_400), "day")
    assert [point.start for point in hourly.points] == [at(hour * HOUR_S) for hour in range(-2, 12)]
    assert [(point.start, point.hours) for point in daily.points] == [
        (datetime(2026, 3, 27, 23, tzinfo=UTC), 5),
        (datetime(2026, 3, 28, 23, tzinfo=UTC), 9),
    ]
    assert daily.total == hourly.total == sum((point.books for point in hourly.points), Books())
    assert hourly.total.charged_milli_s == 6_000 * 25_000
    assert usage_queries.totals([lab["A1"]], north, at(-86_400), at(86_400)) == {lab["A1"].pk: hourly.total}


def test_delivery_and_waits_of_a_cluster(lab, north) -> None:
    for node in Node.objects.all():
        add_spells(node, ("healthy", 0, None))
    first = add_workload(north, lab["A1"], "A1-1", 6_000, 0, end=7_200, first_started_at=at(3_600))
    add_run(first, 1, 3_600, 7_200)
    for number, wait in enumerate((10, 20, 400)):
        add_workload(north, lab["B"], f"B-{number}", 1_000, 0, min_runtime_s=0, end=500, first_started_at=at(wait))
    usage.rebuild(north, at(0), at(7_200), now=at(7_200))
    found = figures.of_cluster(north, at(0), at(7_200))
    assert found.delivery == Fraction(6_000 * 3_600, 6_000 * 7_200)
    assert found.waits == {"standard": figures.Wait(4, 20, 3_600)}
