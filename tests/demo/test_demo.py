"""The demo: a laboratory from a seed, with books that balance, that passes go on with, and that is fed in bounds."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction
from django.test import Client, override_settings

from budgets import queries
from budgets.models import BudgetNode, Cluster, LedgerEntry, Person, Request, Review, RoleGrant, Share
from budgets.services import shares
from budgets.services.review_snapshots import id_of
from portal.demo import advised, build, feed, past
from scheduler.models import ClusterHour, Decision, NodeSpell, Run, Workload
from scheduler.queries import advice
from scheduler.services import history, policies, usage
from tests.demo.holdings import devices_held_twice

WEEKS = 1
DAY = datetime(2026, 1, 6, tzinfo=UTC)
"""What people submit to this machine hangs on the time: on this day there is some of every kind."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demo writes its files."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def made(folder: Path, django_db_setup: None, django_db_blocker) -> Iterator[None]:
    """The demo with one week of past, made once, in a transaction around these tests that is never committed."""
    with django_db_blocker.unblock(), override_settings(DATA_DIR=folder), transaction.atomic():
        call_command("demo", seed=7, weeks=WEEKS, stdout=StringIO())
        yield
        transaction.set_rollback(True)


@pytest.fixture
def demo(made: None, db: None, folder: Path, settings) -> Path:
    """The demo; the folder of its files."""
    settings.DATA_DIR = folder
    return folder


def simulated() -> list[Cluster]:
    return list(Cluster.objects.filter(executor="simulated"))


def test_a_whole_laboratory(demo: Path) -> None:
    kinds = list(BudgetNode.objects.values_list("kind", flat=True))
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "organisation": 1,
        "program": 3,
        "project": 8,
        "subproject": 3,
        "member": 2,
    }
    assert Person.objects.filter(grants__role="member").distinct().count() == 20
    assert set(RoleGrant.objects.values_list("role", flat=True)) == {
        "manager",
        "member",
        "reviewer",
        "operator",
        "administrator",
    }
    assert [cluster.name for cluster in Cluster.objects.all()] == ["north", "south", "here"]
    for node in BudgetNode.objects.exclude(kind="member").exclude(kind="subproject"):
        assert node.grants.filter(role="manager").exists(), node
    for cluster in Cluster.objects.all():
        rows = queries.tree_on(cluster, queries.today())
        leaves = [row for row in rows if not row.has_children]
        assert all(row.entitlement > 0 for row in leaves)
        assert sum(row.entitlement for row in leaves) <= 1
    assert Share.objects.filter(valid_until__isnull=False).exists()  # something was changed in the past days


def test_its_past_is_whole(demo: Path) -> None:
    for cluster in simulated():
        end = ClusterHour.objects.filter(cluster=cluster).latest("hour").hour
        assert ClusterHour.objects.filter(cluster=cluster).count() in (WEEKS * 168, WEEKS * 168 + 1)
        assert (
            usage.check(cluster, end - timedelta(weeks=2), end - timedelta(hours=1), now=end + timedelta(days=2)) == []
        )
        states = set(Workload.objects.filter(cluster=cluster).values_list("state", flat=True))
        assert {"finished", "running", "queued"} <= states
        over = Run.objects.filter(cluster=cluster, ended_at=None).exclude(started_at__lte=end + timedelta(hours=1))
        assert not over.exists()
    of_cores = Decision.objects.filter(workload__cluster__name="south", action="start")
    assert of_cores.filter(text__contains="core").exists()
    assert not of_cores.filter(text__contains="GPU").exists()
    taken = Decision.objects.filter(action="preempt", by__isnull=False)
    assert taken.count() == Decision.objects.filter(action="preempt", code__startswith="preempted").count() > 0
    finished = Workload.objects.filter(state="finished")
    assert set(finished.values_list("reason_code", "reason_text")) == {past.FINISHED}
    assert NodeSpell.objects.exclude(state="healthy").exists()
    assert devices_held_twice() == []


def test_those_who_can_sign_in_are_written_down_for_us_alone(demo: Path) -> None:
    path = demo / "demo-logins.txt"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = [line.split(maxsplit=2) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 7
    for name, password, title in lines:
        assert Client().login(username=name, password=password), title
        person = Person.objects.get(username=name)
        assert person.is_staff is title.startswith("administrator")
    assert Person.objects.exclude(password__startswith="!").count() == 7


def test_a_second_time_changes_nothing(demo: Path) -> None:
    before = (Workload.objects.count(), LedgerEntry.objects.count(), (demo / "demo-logins.txt").read_text())
    out = StringIO()
    call_command("demo", stdout=out)
    assert "nothing to do" in out.getvalue()
    assert (Workload.objects.count(), LedgerEntry.objects.count(), (demo / "demo-logins.txt").read_text()) == before


def test_weeks_have_bounds(db: None) -> None:
    with pytest.raises(CommandError, match="--weeks: must be 1 to 26, not 0"):
        call_command("demo", weeks=0)


# --- the present --------------------------------------------------------------------------------------------------


def notebooks(rows: Iterable[Workload]) -> set[int]:
    """The sizes of those sessions among some workloads of this machine that may be parts of a GPU."""
    return {row.size_milli for row in rows if row.command[0] == "demo-session"}


def test_this_machine_is_fed_with_programs_of_the_demo(demo: Path) -> None:
    here = Cluster.objects.get(name="here")
    assert feed.feed(here) == []  # it has no nodes yet
    history.add_nodes(here, [history.PastNode(f"h{n}", 4, [("healthy", datetime.now(UTC), None)]) for n in range(4)])
    for slot in range(60):
        feed.feed(here, DAY + timedelta(seconds=slot * feed.SLOT_S))
    rows = list(Workload.objects.filter(cluster=here))
    assert 0 < len(rows) <= feed.QUEUE_MAX + feed.AT_ONCE
    assert {row.state for row in rows} == {"queued"}
    programs = {path.stem.replace("_", "-") for path in Path(build.__file__).with_name("programs").glob("demo_*.py")}
    assert {row.command[0] for row in rows} <= programs
    assert all(row.demo for row in rows)
    assert {row.min_runtime_s == 0 for row in rows} == {True, False}
    asked = sum(row.size_milli for row in rows)
    assert asked >= feed.OVERSUBSCRIBED * 16_000 or len(rows) >= feed.QUEUE_MAX
    assert notebooks(rows) == {250, 500}
    Workload.objects.filter(cluster=here).update(state="cancelled", ended_at=datetime.now(UTC))
    policies.change(cluster=here, knobs={"fraction_min_milli": 300})
    later = [feed.feed(here, DAY + timedelta(seconds=slot * feed.SLOT_S)) for slot in range(100, 130)]
    assert notebooks(row for rows in later for row in rows) == {500, 1_000}


def test_a_leaf_without_shares_asks_for_free_use_only(demo: Path) -> None:
    north = Cluster.objects.get(name="north")
    lab = BudgetNode.objects.get(parent=None)
    shares.set_shares(
        parent=lab, cluster=north, shares=dict.fromkeys(lab.children.all(), 0), valid_from=queries.today(), by=None
    )
    Workload.objects.filter(cluster=north, state="queued").update(state="cancelled", ended_at=datetime.now(UTC))
    new = feed.feed(north)
    assert [row.min_runtime_s for row in new] == [0] * feed.AT_ONCE


def test_two_feeders_in_one_slot_submit_once(demo: Path) -> None:
    north, now = Cluster.objects.get(name="north"), datetime.now(UTC)
    Workload.objects.filter(cluster=north, state="queued").update(state="cancelled", ended_at=now)
    first, second = feed.feed(north, now), feed.feed(north, now)
    assert [row.pk for row in first] == [row.pk for row in second] != []


def test_one_review_was_held_and_one_is_planned(demo: Path) -> None:
    held = Review.objects.get(state=Review.State.CLOSED)
    assert id_of(held.snapshot) == held.snapshot_id
    [decided] = held.reallocations.all()
    assert {line.node.code: line.change for line in decided.lines.all()} == {"A1": -300, "A3": 300}
    assert [request.state for request in Request.objects.filter(review_items__review=held)] == ["approved"]
    planned = Review.objects.get(state=Review.State.PLANNED)
    assert planned.node.code == "LAB"
    assert Request.objects.filter(desk=planned.node, state="submitted").count() == 1


def test_the_advisor_has_read_what_was_submitted_last(demo: Path) -> None:
    now = datetime.now(UTC)
    for cluster in simulated():
        found = advice.record(cluster, now - timedelta(weeks=2), now)
        assert found.read == advised.READ
        assert 0 < found.all.measured <= found.read
        assert sum(each.warned for each in found.rules) > 0
