"""The generated laboratory: the same seed, the same file; people, work, faults, and demand as they are assumed."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from scheduler.simulator import as_json, parse, simulate
from scheduler.simulator.lab import Assumptions, check_size, invent, research_lab
from scheduler.simulator.lab.teams import Spells

HOUR_S = 3_600
DAY_S = 86_400


def lab(seed: int, days: int = 1, gpus: int = 64) -> dict[str, Any]:
    """A small laboratory's file."""
    return research_lab(random.Random(seed), seed=seed, days=days, gpus=gpus)


def kind_of(row: dict[str, Any]) -> str:
    """What kind of work a workload's id says it is."""
    return str(row["id"]).split("-")[2].rstrip("0123456789")


@pytest.fixture(scope="module")
def month() -> dict[str, Any]:
    """Thirty days of a thousand GPUs."""
    return lab(1, days=30, gpus=1_024)


def test_a_seed_says_everything() -> None:
    assert lab(7) == lab(7)
    assert lab(7) != lab(8)


def test_it_has_fifteen_teams_whose_shares_are_the_whole() -> None:
    for seed in range(20):
        tree = lab(seed)["tree"]
        assert len(tree) == 15
        assert sum(team["shares"] for team in tree.values()) == 10_000
        assert min(team["shares"] for team in tree.values()) >= 100
        assert sum(len(team["children"]) for team in tree.values()) == 15


def test_it_has_a_hundred_and_fifty_researchers_and_caps_that_equal_the_entitlements(month: dict[str, Any]) -> None:
    assert sum(len(team["children"]) for team in month["tree"].values()) == 150
    for team in month["tree"].values():
        assert team["cap_gpus"] == round(1_024 * team["shares"] / 10_000)


def test_everybody_works_in_closed_loops(month: dict[str, Any]) -> None:
    rows = {row["id"]: row for row in month["workloads"]}
    assert 20_000 < len(rows) < 40_000
    assert {row["leaf"] for row in rows.values()} == {
        name for team in month["tree"].values() for name in team["children"]
    }
    followed = Counter(row["after"] for row in rows.values() if "after" in row)
    assert set(followed.values()) == {1}, "one waits for each"
    for row in rows.values():
        assert ("submit" in row) != ("after" in row and row["think"] >= 0)
        if "after" in row:
            assert rows[row["after"]]["leaf"] == row["leaf"]


def test_there_is_work_of_every_kind(month: dict[str, Any]) -> None:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for row in month["workloads"]:
        by_kind.setdefault(kind_of(row), []).append(row)
    assert by_kind.keys() == {"debug", "session", "medium", "large", "free"}
    assert all(300 <= row["min_runtime"] <= 900 and row["gpus"] <= 8 for row in by_kind["debug"])
    assert all(row["min_runtime"] == 0 for row in by_kind["free"])
    assert all(64 <= row["gpus"] <= 512 and row["gpus"] % 8 == 0 for row in by_kind["large"])
    assert all(row["min_runtime"] <= 8 * HOUR_S for row in month["workloads"])
    heroes = [row["gpus"] for seed in range(1, 5) for row in lab(seed, 30, 1_024)["workloads"] if row["gpus"] > 256]
    assert heroes, "now and then a gang has more than a quarter of the cluster"
    assert max(heroes) <= 512


def test_the_world_is_not_friendly(month: dict[str, Any]) -> None:
    rows = month["workloads"]
    assert (min(row["startup"] for row in rows), max(row["startup"] for row in rows)) == (30, 120)
    assert (min(row["exit_delay"] for row in rows), max(row["exit_delay"] for row in rows)) == (5, 60)
    assert {row["restart_cost"] for row in rows} == {600}
    faults = [event for event in month["events"] if event["health"] != "healthy"]
    assert 40 < len(faults) < 90, "128 nodes, 30 days, one in 60 days each"
    for name in {event["node"] for event in faults}:
        health = [event["health"] == "healthy" for event in month["events"] if event["node"] == name]
        assert health == [False, True] * (len(health) // 2) + [False] * (len(health) % 2), "repaired after each"


def test_for_the_priority_scheduler_all_is_high_and_protected_where_the_cap_allows(month: dict[str, Any]) -> None:
    for row in month["workloads"]:
        team = month["tree"][row["leaf"].split("-")[0]]
        assert row["level"] == "HIGH"
        assert row["protected"] == (row["gpus"] <= team["cap_gpus"])


@pytest.mark.parametrize("gpus", [64, 88, 256, 4_096])
def test_other_sizes_are_read_and_refuse_nothing(gpus: int) -> None:
    scenario = parse(json.dumps(lab(3, days=1, gpus=gpus)))
    assert max(job.size_milli for job in scenario.jobs) <= gpus * 500 or gpus < 128
    outcome = simulate(replace(scenario, until_s=120))
    assert "refused" not in {record.state for record in outcome.jobs}


def test_it_asks_for_two_to_three_times_the_cluster_from_the_first_hour() -> None:
    result = as_json(simulate(replace(parse(json.dumps(lab(3, gpus=256))), until_s=12 * HOUR_S)))
    demand = result["metrics"]["demand"]
    assert 2 < demand["p5"] < demand["p95"] < 3
    states = Counter(row["state"] for row in result["workloads"])
    assert states["refused"] == 0
    assert states["finished"] > 50


def test_bursty_teams_ask_for_little_while_quiet() -> None:
    invented = invent(random.Random(5), seed=5, days=30, gpus=1_024)
    assert len(invented.bursty) == 3
    for row in invented.scenario["workloads"]:
        if row["leaf"].split("-")[0] in invented.bursty:
            assert kind_of(row) in ("debug", "session", "medium")


def test_every_assumption_says_its_unit_its_meaning_and_its_source_and_matters() -> None:
    base = lab(1, days=20, gpus=128)
    for each, value in Assumptions():
        assert all(each.metadata[name] for name in ("unit", "meaning", "source")), each.name
        varied = Assumptions().varied(each.name, 0.25)
        assert getattr(varied, each.name) == value / 4
        if each.name != "patience_h":  # which is about what is counted
            assert invent(random.Random(1), seed=1, days=20, gpus=128, assume=varied).scenario != base, each.name


def test_spells_say_when_a_team_is_busy_next() -> None:
    spells = Spells(((0, 100), (200, 300)))
    assert [spells.busy_from(at_s) for at_s in (0, 99, 100, 150, 200, 250)] == [0, 99, 200, 200, 200, 250]
    assert spells.busy_after(50, 20) == 70
    assert spells.busy_after(50, 80) == 230, "fifty in this spell, thirty in the next"
    assert spells.busy_after(120, 10) == 210
    assert spells.busy_after(290, 50) == 340, "after the last it goes on"


@pytest.mark.parametrize(
    ("days", "gpus", "option"), [(0, 64, "--days"), (367, 64, "--days"), (1, 63, "--gpus"), (1, 56, "--gpus")]
)
def test_a_size_that_cannot_be_names_its_option(days: int, gpus: int, option: str) -> None:
    fault = check_size(days=days, gpus=gpus)
    assert fault is not None
    assert fault[0] == option
    assert check_size(days=30, gpus=1_024) is None
