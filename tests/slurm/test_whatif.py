"""A site's records become a scenario and a report: what would budgets have done on that cluster?"""

from __future__ import annotations

import heapq
import json
import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from scheduler.executors.slurm import accounts, history, nodes
from scheduler.management.commands.slurm_whatif import Command
from scheduler.management.slurm_scenario import Choices, past_of, real_outcome
from scheduler.simulator.comparison import figures

HEADER = "JobID|Account|User|State|Submit|Start|End|TimelimitRaw|AllocTRES|NNodes|NodeList|ExitCode"
START = datetime(2026, 3, 2, tzinfo=UTC)
ASSOC = (
    "Cluster|Account|ParentName|User|Share\nc|root|||1\nc|lab|root||6\nc|vision|lab||2\nc|speech|lab||1\n"
    "c|guests|root||4\nc|vision||ada|1\n"
)
SINFO = "n1|idle|64|512000|gpu:h100:8|rack1|none|\nn2|idle|64|512000|gpu:h100:8|rack1|none|\n"


def line(job: str, account: str, gpus: int, times: tuple[int, int, int], names: str, state: str = "COMPLETED") -> str:
    """A record; times are seconds of submission, start and end."""
    submit, start, end = (f"{START + timedelta(seconds=each):%Y-%m-%dT%H:%M:%S}" for each in times)
    tres = f"cpu=8,gres/gpu={gpus},node=1"
    return f"{job}|{account}|ada|{state}|{submit}|{start}|{end}|UNLIMITED|{tres}|1|{names}|0:0"


RECORDS = "\n".join(
    [
        HEADER,
        line("1", "vision", 8, (0, 0, 3_600), "n1"),
        line("2", "guests", 8, (0, 10, 7_200), "n2"),
        line("2.batch", "guests", 8, (0, 10, 7_200), "n2"),
        line("3", "speech", 2, (60, 3_600, 4_000), "n1"),
        line("4", "lab", 4, (60, 4_000, 5_000), "n1", "REQUEUED"),
        line("4", "lab", 4, (60, 5_100, 6_000), "n1"),
        line("5", "other", 1, (100, 6_000, 6_100), "n1"),
        f"6|vision|ada|CANCELLED|{START:%Y-%m-%dT%H:%M:%S}|Unknown|{START:%Y-%m-%dT%H:%M:%S}|60||1|None assigned|0:0",
        line("7", "vision", 0, (0, 10, 20), "n1").replace("gres/gpu=0,", ""),
    ]
)


def test_records_become_a_scenario_and_what_really_happened() -> None:
    jobs, tree = history.read("sacct", RECORDS), accounts.read("sacctmgr", ASSOC)
    seen = nodes.with_places(nodes.read_sinfo("sinfo", SINFO), {})
    past, text = past_of(jobs, tree, seen, Choices())
    file = json.loads(text)
    assert file["cluster"] == {"nodes": {"n1": 8, "n2": 8}, "racks": {"rack1": ["n1", "n2"]}}
    assert file["tree"] == {
        "guests": 4,
        "lab": {"shares": 6, "children": {"speech": 1, "vision": 2, "lab (itself)": 1}},
        "other": 5,
    }
    assert [
        (work["id"], work["leaf"], work["gpus"], work["submit"], work["duration"]) for work in file["workloads"]
    ] == [
        ("1", "vision", 8, 0, 3_600),
        ("2", "guests", 8, 0, 7_190),
        ("3", "speech", 2, 60, 400),
        ("4", "lab (itself)", 4, 60, 1_900),
        ("5", "other", 1, 100, 100),
    ]
    assert past.notes == [
        "1 jobs that never started are left out.",
        "1 jobs that held no GPU are left out.",
        "Accounts that are not in the account tree stand beside it: other.",
    ]
    real = figures(real_outcome(past))
    assert real["nodes"]["lab"]["charged_milli_s"] == 8_000 * 3_600 + 2_000 * 400 + 4_000 * 1_900
    assert real["nodes"][""]["charged_milli_s"] == real["nodes"]["lab"]["charged_milli_s"] + 8_000 * 7_190 + 1_000 * 100
    assert real["waits"]["all"] == {"count": 5, "median_s": 3_540, "p90_s": 5_900}
    assert real["preemptions"] == 1


def test_without_a_tree_or_nodes_both_are_taken_from_the_jobs() -> None:
    past, text = past_of(history.read("sacct", RECORDS), None, None, Choices())
    file = json.loads(text)
    assert file["cluster"] == {"nodes": {"n1": 8, "n2": 8}}
    assert file["tree"]["guests"] == 8 * 7_190
    assert "What each node has is the most that jobs ever held on it at once." in past.notes
    bare = RECORDS.replace("|n1|", "||").replace("|n2|", "||")
    _past, text = past_of(history.read("sacct", bare), None, None, Choices(shares="equal"))
    file = json.loads(text)
    assert file["cluster"] == {"nodes": {"n0001": 8, "n0002": 8}}
    assert set(file["tree"].values()) == {1}


def busy_site(path: Path, jobs: int) -> None:
    """Records of a first-come-first-served cluster of 16 GPUs, where one account submits bursts."""
    chance = random.Random(5)
    free_at = [0] * 16
    heapq.heapify(free_at)
    submit, lines = 0, [HEADER]
    for number in range(1, jobs + 1):
        submit += chance.randrange(20, 600)
        account = chance.choice(["vision", "vision", "vision", "speech", "guests"])
        gpus, duration = chance.choice([1, 1, 2, 4, 8]), chance.choice([120, 600, 3_600, 14_400])
        start = max(submit, *(heapq.heappop(free_at) for _each in range(gpus)))
        for _each in range(gpus):
            heapq.heappush(free_at, start + duration)
        lines.append(line(str(number), account, gpus, (submit, start, start + duration), ""))
    path.write_text("\n".join(lines) + "\n")


def test_one_command_from_records_to_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    busy_site(tmp_path / "sacct.txt", 250)
    (tmp_path / "assoc.txt").write_text(ASSOC)
    (tmp_path / "sinfo.txt").write_text(SINFO)
    given = ["--sacct", "sacct.txt", "--sacctmgr", "assoc.txt", "--sinfo", "sinfo.txt", "--beside", "easy"]
    argv = [str(tmp_path / each) if each.endswith(".txt") else each for each in given]
    run(*argv, "--out", str(tmp_path / "report.html"), "--scenario", str(tmp_path / "scenario.json"))
    run(*argv, "--out", str(tmp_path / "report.md"))
    page, text = (tmp_path / "report.html").read_text(), (tmp_path / "report.md").read_text()
    assert "250 jobs on 2 nodes" in capsys.readouterr().out
    for words in ("Side by side", "Waits by kind of job", "What this rests on", "as it was", "contracts", "easy"):
        assert words in page
        assert words in text
    assert not re.search(r"(?:src|href)=", page)
    rows = [row.split(" | ") for row in text.split("\n") if row.startswith("| vision")]
    assert rows[0][1] == "40.0 %"  # 6 of 10, and 2 of 3 of it
    assert json.loads((tmp_path / "scenario.json").read_text())["workloads"][0]["id"] == "1"


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ("", "sacct.txt: is empty: not even the names of columns"),
        (HEADER, "sacct.txt: no job in it has run and ended"),
        (RECORDS.replace("|COMPLETED|", "|DREAMT|", 1), "sacct.txt: line 2, State: is not known: 'DREAMT'"),
    ],
)
def test_faults_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], records: str, said: str) -> None:
    (tmp_path / "sacct.txt").write_text(records)
    with pytest.raises(SystemExit) as ended:
        run("--sacct", str(tmp_path / "sacct.txt"), "--out", str(tmp_path / "report.html"))
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"slurm_whatif: {tmp_path}/{said}\n"
    assert not (tmp_path / "report.html").exists()


def run(*argv: str) -> None:
    """The command, as a person calls it."""
    Command().run_from_argv(["manage.py", "slurm_whatif", *argv])
