"""`manage.py sweep` and `simulate --add`, as people call them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.simulator.test_commands import SCENARIO, assert_refused, manage

MORE = {"workloads": [{"id": "d1", "leaf": "A", "submit": "40m", "gpus": 1, "min_runtime": "5m", "duration": "5m"}]}


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "two.json"
    path.write_text(json.dumps(SCENARIO), encoding="utf-8")
    return path


def test_a_table_on_all_cores(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = manage("sweep", str(scenario), "--knob", "min_runtime_max_s", "--values", "1h,8h", "--seeds", "2",
                  "--csv", str(out), "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["knob"], [(row["value"], row["runs"]) for row in found["rows"]]) == (
        "min_runtime_max_s",
        [(3_600, 2), (28_800, 2)],
    )
    lines = list(csv.DictReader(out.open()))
    assert [line["min_runtime_max_s"] for line in lines] == ["3600", "28800"]
    least, median, most = (float(lines[0][f"occupancy_{name}"]) for name in ("least", "median", "most"))
    assert 0 < least <= median <= most <= 1
    shown = manage("sweep", str(scenario), "--knob", "lookback_s", "--values", "1d, 7d", "--processes", "1").stdout
    assert [line.split()[0] for line in shown.splitlines()] == ["lookback", "1", "7"]


def test_what_is_wrong_is_one_line(scenario: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.json"
    more.write_text(json.dumps({"workloads": [{**MORE["workloads"][0], "leaf": "C"}]}))
    knob = ("--knob", "reservations", "--values")
    gone = str(tmp_path / "none.json")
    for argv, line in (
        ((*knob, "1"), "sweep: FILE: is missing: a scenario, or --cluster NAME"),
        ((str(scenario), *knob, "1,17"), "sweep: --values: must be from 0 to 16"),
        ((str(scenario), *knob, "1", "--seeds", "0"), "sweep: --seeds: must be at least 1, but is 0"),
        ((str(scenario), *knob, "1", "--processes", "0"), "sweep: --processes: must be from 1 to 64, but is 0"),
        ((str(scenario), *knob, "1", "--add", str(more)),
         f'sweep: {more}: workloads[0].leaf: there is no leaf "C" in the tree'),
        ((gone, *knob, "1"), f"sweep: {gone}: cannot be read: No such file or directory"),
    ):  # fmt: skip
        assert_refused(manage("sweep", *argv), line)


def test_work_laid_over_a_scenario(scenario: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.json"
    more.write_text(json.dumps(MORE))
    done = manage("simulate", str(scenario), "--add", str(more), "--json")
    assert [each["id"] for each in json.loads(done.stdout)["workloads"]] == ["a1", "b1", "d1"]
    more.write_text(json.dumps({**MORE, "tree": {}}))
    assert_refused(manage("simulate", str(scenario), "--add", str(more)), f"simulate: {more}: tree: unknown key")
