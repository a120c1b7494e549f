"""What a workload reports of its throughput: the note that it leaves, and its way from the node to the portal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.executors import reports
from scheduler.executors.base import Malformed, RankFact
from scheduler.executors.slurm.script import REPORT
from scheduler.models import ThroughputReport
from tests.conftest import REPOSITORY
from tests.executors.conftest import Site, wait_for

PROGRAM = [sys.executable, str(REPOSITORY / "scheduler" / "executors" / "programs" / "allotment_report.py")]
PROGRAMS = {"agents": PROGRAM, "slurm": ["/bin/sh", "-c", REPORT, "allotment-report"]}
"""Where agents run ranks, and in jobs of Slurm: the same calls leave the same notes."""
GOOD = {"tokens": 3_000, "span_ms": 1_500, "parameters": 7_000_000_000}


@pytest.fixture(params=list(PROGRAMS))
def program(request: pytest.FixtureRequest) -> list[str]:
    """The command of the one that agents bring, and of the one in a job's script."""
    return PROGRAMS[request.param]


def said(program: list[str], folder: Path, *words: str) -> tuple[int, str]:
    """How the program ends that leaves the note, and its last line."""
    environment = {**os.environ, "ALLOTMENT_DIRECTORY": str(folder)}
    done = subprocess.run([*program, *words], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, (done.stderr.splitlines() or [""])[-1]


def test_the_note_says_what_the_call_said(program: list[str], tmp_path: Path) -> None:
    assert said(program, tmp_path, "--tokens", "3000", "--seconds", "1.5", "--parameters", "7e9") == (0, "")
    found = reports.read(str(tmp_path), 0)
    assert found is not None
    assert found[1:] == (3_000, 1_500, 7_000_000_000)
    assert reports.read(str(tmp_path), found.at_s + 60) is None  # of before the run


@pytest.mark.parametrize(
    ("option", "value"),
    [("tokens", "-1"), ("tokens", "1.5"), ("tokens", "1e16"), ("seconds", "0"), ("seconds", "nan"), ("seconds", "inf"),
     ("parameters", "0"), ("parameters", "nan"), ("parameters", "many")],
)  # fmt: skip
def test_a_call_that_makes_no_sense_names_the_option(
    program: list[str], tmp_path: Path, option: str, value: str
) -> None:
    words = {"tokens": "1", "seconds": "1", "parameters": "1", option: value}
    code, line = said(program, tmp_path, *(f"--{name}={each}" for name, each in words.items()))
    assert (code, f"argument --{option}:" in line) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_other_notes_are_none(tmp_path: Path) -> None:
    note = tmp_path / reports.NOTE
    for bad in ("", "[]", '{"tokens": 1}', json.dumps(GOOD | {"tokens": -1}), json.dumps(GOOD | {"span_ms": 0}),
                json.dumps(GOOD | {"parameters": "7"}), json.dumps(GOOD | {"tokens": 10**16}), "x" * 500):  # fmt: skip
        note.write_text(bad)
        assert reports.read(str(tmp_path), 0) is None
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(json.dumps(GOOD))
    note.unlink()
    note.symlink_to(elsewhere)
    assert reports.read(str(tmp_path), 0) is None


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"tokens": None}, "tokens"), ({"span_ms": 0}, "span_ms"), ({"parameters": 10**16}, "parameters")],
    ids=["no tokens", "no time", "too large"],
)
def test_a_fact_with_half_a_report_is_refused(changed: dict[str, int | None], field: str) -> None:
    fact = {"run": 1, "rank": 0, "state": "running", "began_age_s": 9, "report_age_s": 1, **GOOD, **changed}
    with pytest.raises(Malformed, match=f"facts.0.{field}"):
        RankFact.read(fact, "facts.0")


@pytest.mark.long
def test_a_report_goes_from_the_node_to_the_portal(site: Site) -> None:
    site.agent()
    script = "allotment-report --tokens 3000 --seconds 1.5 --parameters 7e9; exec sleep 120"
    workload = site.submit("/bin/sh", "-c", script, gpus=2, min_runtime_s=0)
    site.wait(workload, "running")
    kept = ThroughputReport.objects.filter(run__workload=workload)
    wait_for(kept.exists, within_s=90)
    assert list(kept.values_list("tokens", "span_ms", "parameters")) == [(3_000, 1_500, 7_000_000_000)]
