"""A past stored in bulk: what was says what it said, and what goes on is taken over by the next pass."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from django.core.management.base import CommandError
from django.db import IntegrityError, connection, transaction

from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster, Share
from budgets.services import shares, tree
from scheduler import loop, snapshots
from scheduler.management.commands.import_trace import Command as ImportTrace
from scheduler.models import Decision, Device, Event, Holding, Node, NodeSpell, Rank, Run, UsageHour, Workload
from scheduler.services import clusters, history, usage, workloads
from scheduler.services.history import PastDecision, PastNode, PastRun, PastWorkload

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


@pytest.fixture
def leaf(db: None) -> BudgetNode:
    founded = datetime(2026, 1, 1, tzinfo=UTC)
    root = tree.create_root(code="LAB", name="Laboratory", at=founded)
    return tree.add_child(parent=root, kind="project", code="P", name="Project", by=None, at=founded)


@pytest.fixture
def hall(leaf: BudgetNode) -> Cluster:
    """Two nodes of 4, the second one broken for a while."""
    cluster = clusters.create(name="hall", executor="simulated")
    shares.set_shares(parent=leaf.parent, cluster=cluster, shares={leaf: 10_000}, valid_from=date(2026, 1, 1), by=None)
    history.add_nodes(
        cluster,
        [
            PastNode("n1", 4, [("healthy", ago(100), None)], rack="r1"),
            PastNode("n2", 4, [("healthy", ago(100), ago(50)), ("down", ago(50), ago(40)), ("healthy", ago(40), None)]),
        ],
    )
    return cluster


def a_run(start: float, end: float | None, size: int = 2_000, **more) -> PastRun:
    return PastRun(
        started_at=ago(start),
        running_at=ago(start),
        ended_at=None if end is None else ago(end),
        size_milli=size,
        is_funded=True,
        holdings=more.pop("holdings", {"n1": size}),
        **more,
    )


def a_workload(leaf: BudgetNode, submit: float, *runs: PastRun, end: float | None = None, **more) -> PastWorkload:
    values = {"size_milli": 2_000, "min_runtime_s": 3_600, "state": "finished"} | more
    return PastWorkload(
        leaf=leaf, owner=None, submitted_at=ago(submit), ended_at=None if end is None else ago(end), runs=runs, **values
    )


def test_what_was(leaf, hall) -> None:
    taken = a_workload(
        leaf,
        30,
        a_run(29, 20, end_reason="preempted_fair_share", preempted_by="P-0007"),
        a_run(15, 10),
        end=10,
        code="P-0003",
        preemptions=1,
        decisions=[
            PastDecision(ago(20), "preempt", "preempted_fair_share", "P-0007 took it.", {"by": "P-0007"}, "P-0007")
        ],
    )
    taker = a_workload(leaf, 25, a_run(20, 16, holdings={"n1": 2_000}), end=16, code="P-0007", name="taker")
    assert history.add(hall, [taker, taken]) == history.Added(2, 3)
    first, second = Workload.objects.order_by("submitted_at")
    assert (first.code, first.state, first.first_started_at, first.preemptions) == ("P-0003", "finished", ago(29), 1)
    assert (first.reason_code, first.reason_text) == ("preempted_fair_share", "P-0007 took it.")
    assert [(run.number, run.started_at, run.preempted_by) for run in first.runs.all()] == [
        (1, ago(29), second),
        (2, ago(15), None),
    ]
    assert Run.objects.first().path == leaf.path
    assert Decision.objects.get().by == second
    assert set(Holding.objects.values_list("run__workload__code", "run__number", "node__name", "device__index")) == {
        ("P-0003", 1, "n1", 0),
        ("P-0003", 1, "n1", 1),
        ("P-0007", 1, "n1", 0),
        ("P-0007", 1, "n1", 1),
        ("P-0003", 2, "n1", 0),
        ("P-0003", 2, "n1", 1),
    }
    assert set(Device.objects.values_list("held_milli", flat=True)) == {0}
    assert NodeSpell.objects.filter(node__name="n2").count() == 3
    added = Event.objects.get(kind="history_added")
    assert (added.data["workloads"], added.data["runs"]) == (2, 3)
    assert workloads.take_numbers(leaf, 1) == ["P-0008"]


def test_runs_side_by_side_hold_devices_of_their_own(leaf, hall) -> None:
    long = a_workload(leaf, 30, a_run(30, None), state="running")
    short = [a_workload(leaf, 29 - n, a_run(28 - n, 27 - n), end=27 - n) for n in range(5)]
    history.add(hall, [*short, long])
    lanes = {}
    for code, index in Holding.objects.values_list("run__workload__code", "device__index"):
        lanes.setdefault(code, set()).add(index)
    assert lanes == {"P-0001": {0, 1}} | {f"P-000{n}": {2, 3} for n in range(2, 7)}
    assert dict(Device.objects.filter(node__name="n1").values_list("index", "held_milli")) == {
        0: 1000,
        1: 1000,
        2: 0,
        3: 0,
    }


@pytest.mark.django_db(transaction=True)
def test_what_goes_on_is_taken_over(transactional_db, leaf, hall) -> None:
    history.add(
        hall,
        [
            a_workload(leaf, 3, a_run(2, None, 4_000), state="running", size_milli=4_000),
            a_workload(leaf, 1, state="queued", size_milli=4_000),
            a_workload(leaf, 1, state="queued", size_milli=8_000),
        ],
    )
    assert [(rank.node.name, rank.state, rank.began_at) for rank in Rank.objects.all()] == [("n1", "running", ago(2))]
    result = loop.run_pass(hall.pk, now=NOW)
    assert result is not None
    assert set(Workload.objects.values_list("code", "state")) == {
        ("P-0001", "running"),
        ("P-0002", "starting"),
        ("P-0003", "queued"),
    }
    again = snapshots.snapshot_at(result.stored)
    assert set(again.runs) == {"P-0001/1"}
    assert set(again.workloads) == {"P-0002", "P-0003"}


@pytest.mark.parametrize(
    ("past", "message"),
    [
        ({"code": "P-0001"}, "there is a workload P-0001 already"),
        ({"code": "P1"}, "P1 is not a leaf's code, a dash and a number"),
        (
            {"runs": (a_run(5, None, 5_000),), "state": "running"},
            "has not ended, and its nodes don't have what it holds",
        ),
    ],
)
def test_what_cannot_be_stored_changes_nothing(leaf, hall, past: dict, message: str) -> None:
    history.add(hall, [a_workload(leaf, 3, end=2)])
    runs = past.pop("runs", ())
    with pytest.raises(InputError, match=message):
        history.add(hall, [a_workload(leaf, 9, end=8), a_workload(leaf, 3, *runs, end=None if runs else 1, **past)])
    assert list(Workload.objects.values_list("code", flat=True)) == ["P-0001"]


def test_a_node_is_stored_once(hall) -> None:
    with pytest.raises(InputError, match="hall has a node n1 already"):
        history.add_nodes(hall, [PastNode("n3", 1, []), PastNode("n1", 1, [])])
    assert Node.objects.count() == 2


# --- import_trace --to database ---------------------------------------------------------------------------------------

TRACE = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 06:00:00,7200.0,12,86400.0,6214e9
2017-10-08 22:30:00,600.0,1,600.0,103959
"""


def run_import(tmp_path: Path, trace: str = TRACE, **options) -> None:
    (tmp_path / "trace.csv").write_text(trace)
    (tmp_path / "shares.csv").write_text("vc,node num\n6214e9,2\n11cb48,1\n")
    values = {
        "file": str(tmp_path / "trace.csv"), "shares": str(tmp_path / "shares.csv"), "format": "philly",
        "to": "database", "cluster": "philly", "out": None, "other_shares": 1, "start": None, "until": None,
        "gpus": None, "min_runtime_cap": "1h",
    }  # fmt: skip
    ImportTrace().handle(**(values | options))


def test_a_trace_becomes_history(db: None, tmp_path: Path) -> None:
    run_import(tmp_path)
    assert list(Share.objects.order_by("node__code").values_list("node__code", "basis_points", "valid_from")) == [
        ("103959", 2500, date(2017, 10, 8)),
        ("11cb48", 2500, date(2017, 10, 8)),
        ("6214e9", 5000, date(2017, 10, 8)),
    ]
    assert list(
        Workload.objects.order_by("code").values_list(
            "code", "size_milli", "min_runtime_s", "state", "runs__size_milli"
        )
    ) == [("103959-0001", 1_000, 600, "finished", 1_000), ("6214e9-0001", 12_000, 3_600, "finished", 16_000)]
    root = BudgetNode.objects.get(parent=None)
    cluster = Cluster.objects.get()
    assert (
        sum(UsageHour.objects.filter(node=root).values_list("charged_milli_s", flat=True)) == 16_000 * 7_200 + 600_000
    )
    assert usage.check(cluster, datetime(2017, 10, 1, tzinfo=UTC), datetime(2017, 11, 1, tzinfo=UTC)) == []
    assert Node.objects.count() == 4
    with pytest.raises(CommandError, match="there is a cluster philly already"):
        run_import(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": "no name"}, "name: Enter a valid"),
        ({"cluster": None}, "--cluster: is needed with --to database"),
        ({"gpus": 12}, "--gpus: must be a multiple of 8, but is 12"),
        ({"trace": TRACE.replace("86400.0", "1.0")}, "row 2, gpu_time: is not duration times num_gpus"),
        ({"trace": TRACE.replace("2017-10-09", "2917-10-09")}, "which is still to come"),
    ],
)
def test_a_bad_trace_or_option_is_one_line_and_stores_nothing(db: None, tmp_path: Path, options, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run_import(tmp_path, **options)
    assert not Cluster.objects.exists()
    assert not BudgetNode.objects.exists()


# --- the log that only grows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    ["UPDATE scheduler_event SET kind = 'nicer'", "DELETE FROM scheduler_event", "TRUNCATE scheduler_event CASCADE"],
)
def test_the_event_log_only_grows(leaf, hall, statement: str) -> None:
    history.add(hall, [a_workload(leaf, 3, end=2)])
    connection.cursor().execute("SET CONSTRAINTS ALL IMMEDIATE")
    with pytest.raises(IntegrityError, match="scheduler_event is append-only"), transaction.atomic():
        connection.cursor().execute(statement)
    assert Event.objects.filter(kind="history_added").count() == 1
