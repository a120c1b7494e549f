"""Locality that relaxes with wait, simulated: when it starts, how long it then takes, and the study of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from scheduler.simulator import ScenarioError, as_json, parse, simulate
from scheduler.simulator.study import relaxing
from scheduler.simulator.written import as_file


def world(**gang: Any) -> dict[str, Any]:
    """Four nodes in two racks, half of each held for five hours, and a gang of two nodes that runs for an hour."""
    held = {"leaf": "B", "submit": 0, "gpus": 4, "min_runtime": "5h", "duration": "5h"}
    return {
        "cluster": {"nodes": dict.fromkeys(("h1", "h2", "h3", "h4"), 8), "nodes_per_rack": 2},
        "tree": {"A": 1, "B": 1},
        "policy": {"locality_waits_s": ["30m", "1h", "2h"], "reservations": 0},
        "workloads": [
            *({"id": f"b{number}", "node": f"h{number}", **held} for number in (1, 2, 3, 4)),
            {"id": "a", "leaf": "A", "submit": 60, "gpus": 16, "min_runtime": "1h", "duration": "1h", **gang},
        ],
    }


def run_of(scenario: dict[str, Any]) -> dict[str, Any]:
    (found,) = [run for run in as_json(simulate(parse(json.dumps(scenario))))["runs"] if run["workload"] == "a"]
    return found


@pytest.mark.parametrize(
    ("asks", "starts_s", "nodes", "takes_s"),
    [
        ({"locality": 2}, 3_660, 4, 3_838),  # 0.4366 / 0.4094 of an hour, rounded to thousandths
        ({"locality": 3}, 3_660, 4, 3_838),
        ({"locality": 1}, 18_000, 2, 3_600),
        ({}, 18_000, 2, 3_600),
        ({"locality": 2, "gpus": 24}, 18_000, 3, 3_600),  # in 3 to 6 equal parts, of which there is no room for any
        ({"locality": 3, "gpus": 12}, 3_660, 3, 3_737),
    ],
)
def test_a_gang_is_spread_when_it_has_waited_for_long_and_takes_longer_then(
    asks: dict[str, Any], starts_s: int, nodes: int, takes_s: int
) -> None:
    run = run_of(world(**asks))
    assert (run["start"], len(run["nodes"]), run["end"] - run["start"]) == (starts_s, nodes, takes_s)


def test_what_spreading_costs_can_be_left_out() -> None:
    run = run_of(world(locality=2) | {"spreading_cost": False})
    assert run["end"] - run["start"] == 3_600


def test_the_file_says_it_again() -> None:
    for scenario in (world(locality=3), world(locality=0) | {"spreading_cost": False}):
        read = parse(json.dumps(scenario))
        again = parse(json.dumps(as_file(read)))
        assert (again.jobs, again.policy, again.spreading_cost) == (read.jobs, read.policy, read.spreading_cost)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workloads": [world(locality=4)["workloads"][-1]]}, "workloads[0].locality: must be 0 to 3, not 4"),
        (
            {"policy": {"locality_waits_s": [1]}},
            "policy.locality_waits_s: must be 3 waits in s that do not fall, or none",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(json.dumps(world() | change))
    assert str(caught.value) == message


def test_the_study_lays_waits_beside_gpu_hours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "world.json"
    file.write_text(json.dumps(world()))
    call_command(
        "study", "locality", str(file), "--seeds", "1", "--processes", "1", "--json", "--html", str(tmp_path / "o")
    )
    rows = {row["way"][0]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert [rows[way]["gang_mean_s"][1] for way in "o0123"] == [17_940, 17_940, 17_940, 3_600, 3_600]
    assert rows["1"]["price"][1] == 1
    assert rows["2"]["price"][1] > 1
    assert rows["2"]["gpu_h"][1] - rows["1"]["gpu_h"][1] == pytest.approx(16 * 238 / 3_600)
    assert (tmp_path / "o").read_text().count("<svg") == 2
    call_command("study", "locality", str(file), "--seeds", "1", "--processes", "1", "--spreading-cost", "no")
    assert "Spreading costs nothing." in capsys.readouterr().out
    with pytest.raises(CommandError, match="--spreading-cost: belongs to the study of locality"):
        call_command("study", "sharing", "--spreading-cost", "no")


def test_the_study_tells_how_close_together_gangs_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A node below the first of two leaves is taken: who knows of leaves goes below the second."""
    gang = {"leaf": "A", "gpus": 16, "min_runtime": "1h", "duration": "1h"}
    file = tmp_path / "leaves.json"
    file.write_text(json.dumps({
        "cluster": {"nodes": 4, "gpus_per_node": 8},
        "tree": {"A": 1, "B": 1},
        "workloads": [
            {"id": "b", "leaf": "B", "submit": 0, "node": "n001", "gpus": 8, "min_runtime": "5h", "duration": "5h"},
            {"id": "a", "submit": 60, **gang},
        ],
    }))  # fmt: skip
    study = ("study", "locality", str(file), "--seeds", "1", "--processes", "1")
    call_command(*study, "--nodes-per-leaf", "2", "--nodes-per-rail", "4", "--json")
    rows = {row["way"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    told = {way: [row["gang_starts"], row["one_leaf"], row["one_rail"], row["one_rack"]] for way, row in rows.items()}
    assert told.pop("1, blind to rails and leaves") == [1, [0, 0, 0], [1, 1, 1], None]
    assert len(told) == 5
    assert all(each == [1, [1, 1, 1], [1, 1, 1], None] for each in told.values())
    call_command(*study, "--nodes-per-leaf", "2")
    out = capsys.readouterr().out
    assert "2 nodes to a leaf." in out
    assert out.count("blind to rails and leaves") == 2
    assert "in one rack" not in out
    call_command(*study)
    assert "blind" not in capsys.readouterr().out
    with pytest.raises(CommandError, match="--nodes-per-rack: must be at least 1, but is 0"):
        call_command(*study, "--nodes-per-rack", "0")
    with pytest.raises(CommandError, match="--nodes-per-leaf: belongs to the study of locality"):
        call_command("study", "sharing", "--nodes-per-leaf", "2")


def test_nothing_that_came_is_told_as_nothing() -> None:
    found = relaxing.run(parse(json.dumps(world() | {"workloads": []})), relaxing.VARIANTS[0])
    assert (found["wait_mean_s"], found["price"], found["finished"]) == (None, None, 0)
