"""A stretch of history as a scenario: what was stored comes out again; what rows cannot say follows stated rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

import pytest

from budgets import queries
from budgets.models import BudgetNode
from budgets.services import shares, tree
from scheduler.queries import stretch
from scheduler.queries.stretch import Stretch
from scheduler.services import clusters, history
from scheduler.services.history import PastNode, PastRun, PastWorkload
from scheduler.simulator import parse, simulate
from scheduler.simulator.comparison import figures, wait_error, waits_by_workload
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
