"""The commands on files, as people call them: no database, no environment, one line for a fault."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler.simulator import parse, report, simulate

REPOSITORY = Path(__file__).resolve().parents[2]
SCENARIO = {
    "name": "two teams",
    "cluster": {"nodes": {"h1": 8}},
    "tree": {"A": 1, "B": 1},
    "workloads": [
        {"id": "a1", "leaf": "A", "submit": 0, "gpus": 8, "min_runtime": "1h", "duration": "2h"},
        {"id": "b1", "leaf": "B", "submit": "30m", "gpus": 8, "min_runtime": "1h", "duration": "1h"},
    ],
}


def manage(*argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command with an empty environment."""
    return subprocess.run(
        (sys.executable, str(REPOSITORY / "manage.py"), *argv),
        check=False,
        capture_output=True,
        text=True,
        input=stdin,
        cwd=REPOSITORY,
        env={},
    )


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A scenario file that is right."""
    path = tmp_path / "two.json"
    path.write_text(json.dumps(SCENARIO), encoding="utf-8")
    return path


def assert_refused(done: subprocess.CompletedProcess[str], line: str) -> None:
    """Exit status 2, one line on standard error, nothing on standard output."""
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line + "\n")


def test_simulate_prints_one_object(scenario: Path) -> None:
    done = manage("simulate", str(scenario), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    result: dict[str, Any] = json.loads(done.stdout)
    assert list(result) == ["runs", "workloads", "usage", "decisions", "metrics"]
    assert [(run["workload"], run["start"], run["end"]) for run in result["runs"]] == [
        ("a1", 0, 3_600),
        ("b1", 3_600, 7_200),
        ("a1", 7_200, 10_800),
    ]
    assert result["runs"][0] == {
        "workload": "a1",
        "start": 0,
        "end": 3_600,
        "nodes": {"h1": 8},
        "contract_end": 3_600,
        "funded": True,
        "end_reason": "preempted_fair_share",
        "preempted_by": "b1",
        "charged_gpu_s": 28_800,
    }
    assert result["usage"][""] == {"charged_gpu_s": 86_400, "uncharged_gpu_s": 0}
    assert result["metrics"]["occupancy"] == 1.0


def test_the_object_is_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{**SCENARIO["workloads"][0], "id": f"a{number}", "duration": "1h"} for number in range(5)]
    outcome = simulate(parse(json.dumps({**SCENARIO, "workloads": rows})))
    monkeypatch.setattr(report, "ROWS_AT_ONCE", 2)
    pieces = list(report.json_text(outcome))
    assert len(pieces) > 15
    assert "".join(pieces) == json.dumps(report.as_json(outcome))
    assert "".join(report.json_text(simulate(parse(json.dumps({**SCENARIO, "workloads": []}))))).startswith(
        '{"runs": []'
    )


def test_simulate_reads_standard_input_and_prints_a_table(scenario: Path) -> None:
    done = manage("simulate", "-", "--until", "1h", stdin=scenario.read_text(encoding="utf-8"))
    assert done.returncode == 0
    assert "two teams: 2 workloads, 1 runs" in done.stdout
    assert "Traceback" not in done.stderr


def test_simulate_prints_the_order_at_an_instant(scenario: Path) -> None:
    done = manage("simulate", str(scenario), "--order-at", "31m", "--json")
    assert json.loads(done.stdout) == {
        "order": ["b1"],
        "served": {
            "A": {
                "used_gpu_s": 8 * 31 * 60,
                "committed_gpu_s": 8 * 29 * 60,
                "uncharged_gpu_s": 0,
                "shares": 1,
                "entitlement": 0.5,
            },
            "B": {"used_gpu_s": 0, "committed_gpu_s": 0, "uncharged_gpu_s": 0, "shares": 1, "entitlement": 0.5},
        },
    }


def test_rank_prints_the_order(tmp_path: Path) -> None:
    path = tmp_path / "tree.json"
    tree = {"a": {"shares": 1, "used_gpu_s": 5}, "b": {"shares": 1}, "c": {"shares": 2, "used_gpu_s": 10}}
    path.write_text(json.dumps({"tree": tree}), encoding="utf-8")
    done = manage("rank", str(path), "--json")
    assert json.loads(done.stdout) == {"order": [["b"], ["a", "c"]]}


def test_a_fault_is_one_line_with_file_and_key(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**SCENARIO, "workload": []}), encoding="utf-8")
    assert_refused(manage("simulate", str(path), "--json"), f"simulate: {path}: workload: unknown key")
    assert_refused(manage("rank", str(path)), f"rank: {path}: tree.A: must be an object, not 1")


def test_files_that_cannot_be_read_or_written(tmp_path: Path, scenario: Path) -> None:
    absent = tmp_path / "absent.json"
    assert_refused(manage("simulate", str(absent)), f"simulate: {absent}: cannot be read: No such file or directory")
    assert_refused(manage("simulate", str(tmp_path)), f"simulate: {tmp_path}: cannot be read: Is a directory")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert_refused(manage("rank", str(binary)), f"rank: {binary}: is not UTF-8 text")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--orders"], "simulate: unrecognized arguments: --orders"),
        (["--until", "soon"], 'simulate: --until: must be seconds or a text such as "90s" or "1h30m", not "soon"'),
        (["--order-at", "-1h"], "simulate: argument --order-at: expected one argument"),
    ],
)
def test_a_mistyped_command_line_is_one_line(scenario: Path, argv: list[str], line: str) -> None:
    assert_refused(manage("simulate", str(scenario), *argv), line)


def test_import_trace_writes_a_scenario_that_simulate_runs(tmp_path: Path) -> None:
    trace, shares, out = tmp_path / "t.csv", tmp_path / "s.csv", tmp_path / "out.json"
    rows = ["2017-10-09 00:00:30,600.0,1,600.0,103959", "2017-10-10 00:00:00,60.0,8,480.0,6214e9"]
    trace.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n" + "\n".join(rows) + "\n", encoding="utf-8")
    shares.write_text("vc,node num\n103959,3\n", encoding="utf-8")
    options = ("--format", "philly", "--shares", str(shares), "--gpus", "16", "--out", str(out))
    assert manage("import_trace", str(trace), *options).returncode == 0
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["tree"] == {"103959": 3, "6214e9": 1}
    assert [(row["id"], row["submit"], row["min_runtime"]) for row in written["workloads"]] == [
        ("philly-2", 30, 600),
        ("philly-3", 86_400, 60),
    ]
    assert manage("simulate", str(out)).returncode == 0


def test_import_trace_names_row_and_field_and_writes_nothing(tmp_path: Path) -> None:
    trace, shares, out = tmp_path / "t.csv", tmp_path / "s.csv", tmp_path / "out.json"
    trace.write_text("timestamp,duration,num_gpus,gpu_time,cluster\nnever,1,1,1,a\n", encoding="utf-8")
    shares.write_text("vc,node num\na,3\n", encoding="utf-8")
    options = ["--format", "philly", "--shares", str(shares), "--out", str(out)]
    line = f"""import_trace: {trace}: row 2, timestamp: must be like "2017-10-09 07:01:55", not 'never'"""
    assert_refused(manage("import_trace", str(trace), *options), line)
    assert not out.exists()
