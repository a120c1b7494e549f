"""The Standard Workload Format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from scheduler.simulator import parse
from scheduler.simulator.counted import CountedJob
from scheduler.traces import TraceError, swf

HEADER = "; MaxNodes: 4\n; MaxProcs: 8\n; Note: a: b\n;\n"
JOB = "  7   100  5  60.5  4  59  -1   6  120  -1  1   3   1  -1 -1  1 -1 -1"


def log(*lines: str) -> str:
    return HEADER + "".join(f"{line}\n" for line in lines)


def changed(field: int, value: str) -> str:
    """The job with another value in a field, counted from 1."""
    values = JOB.split()
    values[field - 1] = value
    return " ".join(values)


def test_a_job_and_the_header() -> None:
    found = swf.read(log(JOB, ""))
    assert found.jobs == [CountedJob("7", 100, 60, 6_000, "user 3", 120)]
    assert found.header["Note"] == "a: b"
    assert (found.number("MaxProcs"), found.number("MaxJobs"), found.number("Note")) == (8, None, None)


def test_what_the_log_does_not_know() -> None:
    assert swf.read(log(changed(4, "-1"))).jobs[0].duration_s == 0
    assert swf.read(log(changed(9, "-1"))).jobs[0].estimate_s is None
    assert swf.read(log(changed(8, "-1"))).jobs[0].size_milli == 4_000  # those that it was given


@pytest.mark.parametrize("status", ["2", "3", "4"])
def test_parts_of_a_job_are_left_out(status: str) -> None:
    assert swf.read(log(JOB, changed(11, status))).jobs == swf.read(log(JOB)).jobs


@pytest.mark.parametrize("status", ["-1", "0", "1", "5"])
def test_failed_and_cancelled_jobs_count(status: str) -> None:
    assert len(swf.read(log(changed(11, status))).jobs) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3", "row 5: has 3 fields, a job has 18"),
        (changed(2, "soon"), "row 5, submit time: must be a number, not 'soon'"),
        (changed(2, "-1"), "row 5, submit time: must not be negative, but is -1"),
        (changed(4, "9e9999999"), "row 5, run time: must be a number from -1 to 10000000000, not '9e9999999'"),
        (changed(4, "nan"), "row 5, run time: must be a number from -1 to 10000000000, not 'nan'"),
        (changed(4, "-2"), "row 5, run time: must be a number from -1 to 10000000000, not '-2'"),
        (changed(8, "0"), "row 5, requested processors: must be at least 1, but is 0"),
        (changed(11, "x"), "row 5, status: must be a number, not 'x'"),
        (f"{JOB}\n{JOB}", "row 6, job number: 7 is in row 5 already"),
    ],
)
def test_a_fault_names_row_and_field(line: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        swf.read(log(line))
    assert str(caught.value) == message


def test_the_whole_log(shared: Path) -> None:
    found = swf.read((shared / "traces" / "hpc2n.swf").read_text())
    assert len(found.jobs) == 3_170
    assert len({job.team for job in found.jobs}) == 17
    assert sum(job.duration_s == 0 for job in found.jobs) == 25
    assert found.number("MaxProcs") == 240


def test_as_a_scenario(tmp_path: Path) -> None:
    trace, out = tmp_path / "log.swf", tmp_path / "scenario.json"
    trace.write_text(log(JOB, changed(1, "8")))
    call_command("import_trace", str(trace), "--format", "swf", "--out", str(out))
    found = parse(out.read_text())
    assert [node.capacity_milli for node in found.nodes] == [2_000] * 4
    assert [(job.id, job.leaf, job.submit_s, job.estimate_s) for job in found.jobs] == [
        ("7", "user 3", 0, 120),
        ("8", "user 3", 0, 120),
    ]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (JOB, [], "--gpus: is needed: the header of TRACE has no MaxProcs"),
        (log(JOB), ["--gpus", "0"], "--gpus: must be at least 1, but is 0"),
        (log(JOB), ["--shares", "x.csv"], "--shares: belongs to --format philly"),
        (log(JOB), ["--nodes", "x.csv"], "--nodes: belongs to --format alibaba"),
        (HEADER, [], "TRACE: has no jobs"),
        (log("1 2"), [], "TRACE: row 5: has 2 fields, a job has 18"),
    ],
)
def test_a_fault_of_the_import_is_one_line(tmp_path: Path, content: str, options: list[str], message: str) -> None:
    trace, out = tmp_path / "log.swf", tmp_path / "scenario.json"
    trace.write_text(content)
    with pytest.raises(CommandError) as caught:
        call_command("import_trace", str(trace), "--format", "swf", "--out", str(out), *options)
    assert str(caught.value) == message.replace("TRACE", str(trace))
    assert not out.exists()


def test_the_scenario_is_strict_json(tmp_path: Path) -> None:
    trace, out = tmp_path / "log.swf", tmp_path / "scenario.json"
    trace.write_text(log(JOB))
    call_command("import_trace", str(trace), "--format", "swf", "--out", str(out))
    assert json.loads(out.read_text())["cluster"] == {"nodes": 4, "gpus_per_node": 2}
