"""A stretch of history as a scenario: what was stored comes out again; what rows cannot say follows stated rules."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from budgets import queries
from budgets.errors import InputError
from budgets.models import BudgetNode
from budgets.services import shares, tree
from scheduler.management.commands.scenario_from_history import Command as ScenarioFromHistory
from scheduler.models import MaintenanceWindow, Node
from scheduler.queries import stretch
from scheduler.queries.stretch import Stretch
from scheduler.services import clusters, history, policies
from scheduler.services.history import PastNode, PastRun, PastWorkload
from scheduler.simulator import parse, simulate
from scheduler.simulator.comparison import figures, wait_error, waits_by_workload
from scheduler.simulator.scenario import Happening
from scheduler.simulator.written import as_file
from tests.scheduler.pasts import lines, simulated, store

DAY = date(2026, 3, 2)
START = queries.midnight(DAY)
DAY_S = 86_400


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


class House:
    """Teams A (with A1 and A2) and B on one cluster; 1,000 basis points of the root are unassigned."""

    def __init__(self) -> None:
        self.cluster = clusters.create(name="north", executor="simulated")
        born = at(-40 * DAY_S)
        self.root = tree.create_root(code="LAB", name="Laboratory", at=born)
        self.node: dict[str, BudgetNode] = {}
        for code, parent in (("A", "LAB"), ("B", "LAB"), ("A1", "A"), ("A2", "A")):
            above = self.root if parent == "LAB" else self.node[parent]
            self.node[code] = tree.add_child(parent=above, kind="project", code=code, name=code, by=None, at=born)
        self.divide(self.root, date(2026, 2, 1), A=5_000, B=4_000)
        self.divide(self.node["A"], date(2026, 2, 1), A1=6_000, A2=4_000)

    def divide(self, parent: BudgetNode, day: date, **given: int) -> None:
        parent.refresh_from_db()
        for code in given:
            self.node[code].refresh_from_db()
        wanted = {self.node[code]: amount for code, amount in given.items()}
        shares.set_shares(parent=parent, cluster=self.cluster, shares=wanted, valid_from=day, by=None)

    def read(self, from_s: int = 0, until_s: int = 3 * DAY_S, now_s: int = 10 * DAY_S) -> Stretch:
        return stretch.read(self.cluster, at(from_s), at(until_s), now=at(now_s))

    def nodes(self, **sizes: int) -> None:
        history.add_nodes(
            self.cluster, [PastNode(name, size, [("healthy", at(-DAY_S), None)]) for name, size in sizes.items()]
        )

    def past(self, code: str, submit: int, *runs: PastRun, end: int | None = None, **more: Any) -> None:
        leaf = self.node[code.partition("-")[0]]
        values = {"size_milli": 4_000, "min_runtime_s": 3_600, "state": "finished"} | more
        workload = PastWorkload(
            leaf=leaf,
            owner=None,
            code=code,
            submitted_at=at(submit),
            ended_at=None if end is None else at(end),
            runs=runs,
            **values,
        )
        history.add(self.cluster, [workload])

    def job(self, code: str, found: Stretch) -> Any:
        return next(job for job in found.scenario.jobs if job.id == code)


def ran(start: int, end: int | None, node: str = "h1", **more: Any) -> PastRun:
    values: dict[str, Any] = {
        "started_at": at(start),
        "running_at": at(start),
        "ended_at": None if end is None else at(end),
        "size_milli": 4_000,
        "is_funded": True,
        "end_reason": "" if end is None else "finished",
        "holdings": {node: 4_000},
    }
    return PastRun(**values | more)


@pytest.fixture
def house(db: None) -> House:
    return House()


def busy_week(chance: Random, count: int) -> list[dict[str, Any]]:
    """Work that does not fit, of every kind: small and large, funded and not, slow to start and to leave."""
    found = []
    for number in range(1, count + 1):
        leaf = chance.choice(["A1", "A2", "B"])
        found.append(
            {
                "id": f"{leaf}-{number:04d}",
                "leaf": leaf,
                "submit": chance.randrange(2 * DAY_S),
                "gpus": chance.choice([1, 2, 4, 8, 16]),
                "min_runtime": chance.choice([0, 600, 3_600, 7_200]),
                "duration": chance.randrange(600, 14_000),
                "resumable": chance.random() < 0.8,
                "priority": chance.choice([0, 0, 1]),
                "startup": chance.choice([0, 30, 95]),
                "exit_delay": chance.choice([0, 20, 50]),
                "restart_cost": chance.choice([0, 300]),
            }
        )
    return found


LAB_FILE: Mapping[str, Any] = {
    "cluster": {"nodes": {"h1": 8, "h2": 8, "h3": 8}, "racks": {"r1": ["h1", "h2"]}},
    "tree": {
        "A": {"shares": 5_000, "children": {"A1": 6_000, "A2": 4_000}},
        "B": 4_000,
        "nobody": 1_000,
    },
    "events": [
        {"at": 50_000, "node": "h2", "health": "unhealthy"},
        {"at": 70_000, "node": "h2", "health": "healthy"},
        {"at": DAY_S, "shares": {"A": 2_000, "B": 7_000}},
    ],
}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_past_replayed_is_the_same_past(house: House, seed: int) -> None:
    first = simulated(**LAB_FILE, workloads=busy_week(Random(seed), 120), until=6 * DAY_S)
    assert sum(record.preemptions for record in first.jobs) > 10
    assert all(record.end_s is not None for record in first.jobs)
    house.divide(house.root, DAY + timedelta(days=1), A=2_000, B=7_000)
    store(house.cluster, first, house.node, START)

    found = house.read(until_s=6 * DAY_S)
    again = simulate(parse(json.dumps(as_file(found.scenario))))

    cut_off = sum(record.state == "preempted" for record in first.jobs)
    said = f"{cut_off} workloads had not ended, or had been cut off: how long they take is the median of their like."
    assert found.notes == [said]
    assert lines(again) == lines(first)
    assert lines(found.real) == lines(first)
    assert wait_error(waits_by_workload(found.real), again) == {
        "compared": 120,
        "median_off_s": 0,
        "p90_off_s": 0,
        "mean_s": 0,
        "only_real": 0,
        "only_replay": 0,
    }
    really, replayed = figures(found.real), figures(again)
    assert really == replayed


def test_a_replay_can_begin_in_the_middle(house: House) -> None:
    first = simulated(**LAB_FILE, workloads=busy_week(Random(5), 120), until=6 * DAY_S)
    house.divide(house.root, DAY + timedelta(days=1), A=2_000, B=7_000)
    store(house.cluster, first, house.node, START)
    middle_s = 90_000
    found = house.read(from_s=middle_s, until_s=6 * DAY_S)
    held = {
        job.id: job.before.holdings for job in found.scenario.jobs if job.before is not None and job.before.holdings
    }
    then = [run for run in first.runs if run.start_s < middle_s < run.end_s]
    assert held == {run.job.job.id: run.holdings for run in then if run.told_s is None or run.told_s > middle_s}
    assert len(held) >= 2
    again = simulate(parse(json.dumps(as_file(found.scenario))))
    error = wait_error(waits_by_workload(found.real), again)
    assert error["only_real"] == error["only_replay"] == 0
    assert error["compared"] == sum(record.first_start_s >= middle_s for record in first.jobs)
    # Plans and reservations of that instant are made anew, so that a few things come differently, and few minutes off.
    assert error["median_off_s"] == 0
    assert figures(again)["delivery"] == pytest.approx(figures(found.real)["delivery"], abs=0.02)


# --- the rules --------------------------------------------------------------------------------------------------------


def shares_of(found: Stretch) -> dict[str, tuple[int, int]]:
    return {node.id: (node.shares, node.whole) for node in found.scenario.tree}


def test_what_takes_how_long(house: House) -> None:
    house.nodes(h1=8, h2=8)
    house.past("B-0001", 0, ran(0, 5_000), end=5_000)  # it has run for 5,000 s
    slow = ran(100, 4_000, running_at=at(160), stop_asked_at=at(3_970), end_reason="preempted_fair_share")
    house.past("B-0002", 100, slow, ran(6_000, 8_000, running_at=at(6_060)), end=8_000, progress_s=3_210)
    house.past("B-0003", 200, ran(200, None, "h2"), state="running")
    house.past("B-0004", 300, state="queued")
    house.past("A1-0001", 400, ran(9_000, 9_500, end_reason="drained"), end=9_500, state="preempted")
    house.past("A2-0001", 500, state="queued", min_runtime_s=7_200)
    found = house.read(until_s=10_000, now_s=10_000)
    durations = {job.id: job.duration_s for job in found.scenario.jobs}
    assert durations == {
        "B-0001": 5_000,
        "B-0002": 3_210 + 1_940,  # what it kept of its first run, and its second run from when all ranks ran
        "B-0003": 2 * 9_800,  # it has run for longer than anything known of its leaf and contract
        "B-0004": 5_000,  # the lower median of its like
        "A1-0001": 5_000,  # cut off after 500 s: the median of those with its contract that took longer
        "A2-0001": 7_200,  # nothing like it is known: its contract
    }
    second = house.job("B-0002", found)
    assert (second.startup_s, second.exit_delay_s, second.restart_cost_s) == (60, 30, 600)
    assert house.job("B-0004", found).exit_delay_s == 30  # as others take
    assert found.notes == [
        "4 workloads had not ended, or had been cut off: how long they take is the median of their like."
    ]


def test_who_was_cancelled(house: House) -> None:
    house.nodes(h1=8)
    house.past("B-0001", 0, ran(0, 3_000, end_reason="cancelled"), end=3_000, state="cancelled")
    house.past("B-0002", 100, end=2_000, state="cancelled")
    house.past("B-0003", 100, ran(200, 900, end_reason="preempted_fair_share"), end=5_000, state="cancelled")
    house.past("B-0004", 100, end=100, state="refused")
    found = house.read(until_s=DAY_S)
    assert [job.id for job in found.scenario.jobs] == ["B-0001", "B-0002", "B-0003"]
    assert house.job("B-0001", found).duration_s == 3_000
    assert [event for event in found.scenario.events if event.kind == "cancel"] == [
        Happening(2_000, "cancel", "B-0002"),
        Happening(5_000, "cancel", "B-0003"),
    ]


def test_what_was_before(house: House) -> None:
    house.nodes(h1=8, h2=8)
    house.past("B-0001", -9_000, ran(-9_000, -1_000), end=-1_000)
    house.past("A1-0001", -8_000, ran(-8_000, -2_000, is_funded=False), end=-2_000, min_runtime_s=0)
    house.past("B-0002", -7_000, ran(-6_000, 3_000, running_at=at(-5_940)), end=3_000)
    first = ran(-6_500, -4_000, "h2", end_reason="preempted_fair_share")
    house.past("A2-0001", -6_500, first, ran(4_000, 9_000, "h2"), end=9_000, progress_s=2_500)
    leaving = ran(-3_000, 30, "h2", stop_asked_at=at(-10), end_reason="preempted_fair_share")
    house.past("A2-0002", -3_000, leaving, ran(9_000, 9_600, "h2"), end=9_600, progress_s=2_990)
    found = house.read(until_s=DAY_S)
    assert [(use.leaf, use.size_milli, use.from_s, use.until_s, use.is_funded) for use in found.scenario.history] == [
        ("B", 4_000, -9_000, -1_000, True),
        ("A1", 4_000, -8_000, -2_000, False),
        ("A2", 4_000, -6_500, -4_000, True),
    ]
    held = house.job("B-0002", found)
    assert held.submit_s is None
    assert (held.before.holdings, held.before.since_s, held.before.running_s) == ({"h1": 4_000}, -6_000, -5_940)
    assert held.duration_s == 8_940
    waits = house.job("A2-0001", found)
    assert (waits.before.holdings, waits.before.first_start_s, waits.before.done_s) == ({}, -6_500, 2_500)
    assert waits.duration_s == 7_500
    left = house.job("A2-0002", found)
    assert (left.before.holdings, left.before.done_s, left.duration_s) == ({}, 2_990, 3_590)


def test_nodes_with_how_they_fared(house: House) -> None:
    spells = {
        "always": [("healthy", at(-DAY_S), None)],
        "broke": [("healthy", at(-DAY_S), at(100)), ("draining", at(100), at(900)), ("healthy", at(900), None)],
        "came": [("healthy", at(500), None)],
        "died": [("down", at(-100), at(50)), ("healthy", at(50), None)],
        "gone": [("healthy", at(-DAY_S), at(-500))],
        "left": [("healthy", at(-DAY_S), at(700))],
        "mute": [("healthy", at(-DAY_S), at(10)), ("unreachable", at(10), at(20)), ("healthy", at(20), None)],
    }
    history.add_nodes(house.cluster, [PastNode(name, 8, each, rack="r1") for name, each in spells.items()])
    mended = Node.objects.get(name="always")
    MaintenanceWindow.objects.create(node=mended, starts_at=at(-50), ends_at=at(300))
    MaintenanceWindow.objects.create(node=mended, starts_at=at(600), ends_at=at(800), cancelled_at=at(1))
    house.past("B-0001", 0, ran(0, 5_000, "broke"), end=5_000)
    found = house.read(until_s=1_000)
    assert [(node.name, node.capacity_milli, node.rack) for node in found.scenario.nodes] == [
        (name, 8_000, "r1") for name in ("always", "broke", "came", "died", "left", "mute")
    ]
    assert list(found.scenario.events) == [
        Happening(0, "health", "came", "down"),
        Happening(0, "health", "died", "down"),
        Happening(0, "maintenance", "always", length_s=300),
        Happening(50, "health", "died", "healthy"),
        Happening(100, "health", "broke", "unhealthy"),
        Happening(500, "health", "came", "healthy"),
        Happening(700, "health", "left", "down"),
        Happening(900, "health", "broke", "healthy"),
    ]
    assert figures(found.real)["availability"] == pytest.approx((700 + 200 + 500 + 950 + 700 + 1_000) / 6_000)
    # broke was held while it was draining: 4 of its devices for 800 s of 1,000.
    assert figures(found.real)["occupancy"] == pytest.approx(4 * 1_000 / (8 * 4_050 + 4 * 800))


def test_the_tree_with_its_dated_shares(house: House) -> None:
    house.nodes(h1=8)
    house.past("B-0001", 0, ran(0, 5_000), end=5_000)
    house.divide(house.root, DAY + timedelta(days=1), A=2_000, B=8_000)
    house.divide(house.node["A"], DAY + timedelta(days=2), A1=1_000)
    house.divide(house.node["A"], DAY + timedelta(days=5), A1=2_000)
    found = house.read()
    assert shares_of(found) == {
        "": (1, 1),
        "A": (5_000, 10_000),
        "B": (4_000, 10_000),
        "~unassigned": (1_000, 10_000),
        "A1": (6_000, 10_000),
        "A2": (4_000, 10_000),
        "A~unassigned": (0, 10_000),
    }
    assert list(found.scenario.events) == [
        Happening(DAY_S, "shares", shares={"A": 2_000, "B": 8_000, "~unassigned": 0}),
        Happening(2 * DAY_S, "shares", shares={"A1": 1_000, "A2": 4_000, "A~unassigned": 5_000}),
    ]


def test_a_leaf_that_was_divided_keeps_its_work(house: House) -> None:
    house.nodes(h1=8)
    house.past("B-0001", 0, ran(0, 5_000), end=5_000)
    house.past("B-0002", 100, ran(5_000, 9_000), end=9_000)
    for code in ("B1", "B2"):
        house.node[code] = tree.add_child(parent=house.node["B"], kind="project", code=code, name=code, by=None)
    made = BudgetNode.objects.filter(parent=house.node["B"])
    made.exclude(code="B_0").update(created_at=at(DAY_S + 100))
    made.filter(code="B_0").update(closed_at=at(DAY_S + 100))
    house.divide(house.node["B"], DAY + timedelta(days=1), B1=7_000, B2=2_000)
    found = house.read()
    assert {job.leaf for job in found.scenario.jobs} == {"B_0"}
    of_b = {name: amount for name, (amount, _) in shares_of(found).items() if name.startswith("B") and name != "B"}
    assert of_b == {"B1": 0, "B2": 0, "B_0": 10_000, "B~unassigned": 0}
    assert list(found.scenario.events) == [
        Happening(DAY_S, "shares", shares={"B1": 7_000, "B2": 2_000, "B_0": 0, "B~unassigned": 1_000}),
        Happening(DAY_S + 100, "close", subject="B_0"),
    ]
    assert [record.state for record in simulate(found.scenario).jobs] == ["finished", "finished"]


def test_a_node_that_was_moved_or_closed(house: House) -> None:
    house.nodes(h1=8)
    house.past("A1-0001", -900, ran(-900, -100), end=-100)
    house.past("A1-0002", 0, ran(0, 5_000), end=5_000)
    house.past("A2-0001", 0, ran(5_000, 9_000), end=9_000)
    house.divide(house.node["A"], DAY + timedelta(days=2), A1=0, A2=0)
    for node in house.node.values():
        node.refresh_from_db()
    tree.close(node=house.node["A2"], by=None, reason="over", at=at(DAY_S))
    tree.move(node=house.node["A1"], parent=house.root, by=None, reason="its own")
    house.divide(house.root, DAY + timedelta(days=2), A1=500)
    today_s = int((datetime.now(UTC) - START).total_seconds())  # a move is of today
    found = house.read(until_s=today_s, now_s=today_s)
    parents = {node.id: node.parent for node in found.scenario.tree}
    assert (parents["A1"], parents["A2"], parents["A~"]) == ("", "A", "A")
    assert shares_of(found)["A1"] == (500, 10_000)  # before its move, what it has had since
    assert [use.leaf for use in found.scenario.history] == ["A~"]  # a charge stays with the path it was made under
    assert {event.subject: event.at_s for event in found.scenario.events if event.kind == "close"} == {
        "A~": 0,
        "A2": DAY_S,
    }


def test_the_last_policy_counts_and_changes_are_said(house: House) -> None:
    house.nodes(h1=8)
    house.past("B-0001", 0, ran(0, 5_000), end=5_000)
    found = house.read()
    assert (found.scenario.policy.reservations, found.scenario.policy.pass_every_s, found.notes) == (1, 60, [])
    version = policies.change(cluster=house.cluster, knobs={"reservations": 4}, by=None, reason="more")
    type(version).objects.filter(pk=version.pk).update(made_at=at(100))
    found = house.read()
    assert found.scenario.policy.reservations == 4
    assert found.notes == ["The policy was changed once within this time; the replay uses the last one throughout."]


@pytest.mark.parametrize(
    ("from_s", "until_s", "said"),
    [
        (0, 0, "until: must be after the start, 2026-03-02 00:00"),
        (-60 * DAY_S, -50 * DAY_S, "cluster: north had no nodes then"),
        (5 * DAY_S, 6 * DAY_S, "from: nothing was submitted, waited or ran on north then"),
    ],
)
def test_a_stretch_that_makes_no_sense(house: House, from_s: int, until_s: int, said: str) -> None:
    house.nodes(h1=8)
    house.past("B-0001", 0, ran(0, 5_000), end=5_000)
    with pytest.raises(InputError) as caught:
        house.read(from_s=from_s, until_s=until_s)
    assert str(caught.value) == said


def test_more_history_needs_no_more_queries(house: House) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as captured:
            house.read()
        return len(captured)

    house.nodes(h1=8, h2=8)
    house.past("B-0001", 0, ran(0, 5_000), end=5_000)
    few = asked()
    for number in range(2, 6):
        house.past(f"A1-000{number}", 100, ran(5_000 * number, 5_000 * number + 900, "h2"), end=5_000 * number + 900)
    assert asked() == few <= 16


def test_written_from_the_command_line(house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = simulated(**LAB_FILE, workloads=busy_week(Random(7), 60), until=5 * DAY_S)
    house.divide(house.root, DAY + timedelta(days=1), A=2_000, B=7_000)
    store(house.cluster, outcome, house.node, START)
    out, more = tmp_path / "week.json", tmp_path / "more.json"
    more.write_text(json.dumps({"workloads": [{"id": "d1", "leaf": "B", "submit": 0, "gpus": 1, "duration": 60}]}))
    command = ScenarioFromHistory(stdout=StringIO())
    options = {
        "cluster": "north",
        "start": "2026-03-02",
        "until": "2026-03-07",
        "add": None,
        "out": None,
        "check": False,
    }
    command.handle(**{**options, "out": str(out), "add": str(more), "check": True})
    assert len(parse(out.read_text()).jobs) == 61
    assert "the wait of half is off by at most" in command.stdout.getvalue()
    for changes, said in (
        ({"cluster": "south"}, "--cluster: there is no cluster 'south'"),
        (
            {"start": "soon"},
            "--from: must be a day such as 2026-07-02, or an instant such as 2026-07-02T12:00, not 'soon'",
        ),
        ({"until": "2999-01-01"}, "--until: is still to come: only what is over can be replayed"),
        ({"start": "2026-03-09"}, "--until: must be after the start, 2026-03-09 00:00"),
        ({"out": None}, "--out: is missing: where to write the scenario, or --check"),
    ):
        with pytest.raises(CommandError, match=f"^{re.escape(said)}$"):
            command.handle(**{**options, "out": "-", **changes})
