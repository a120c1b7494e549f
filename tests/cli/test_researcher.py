"""What a researcher does with `allot`: submit, look, ask why, follow, cancel; and what each failure says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from allot import client
from allot.failures import CONFLICT, DONE, FAILED, NOT_FOUND, USAGE
from allot.main import cli
from click.shell_completion import ShellComplete

from scheduler.models import Workload
from tests.cli.conftest import SUBMIT, Run, World, newest, submitted

pytestmark = pytest.mark.django_db


# --- submit -----------------------------------------------------------------------------------------------------------


def test_the_line_of_the_guide_submits(ada: Run) -> None:
    done = ada("submit", "-g", "8", "--min-runtime", "2h", "--", "python", "train.py")
    row = newest()
    assert (row.size_milli, row.min_runtime_s, row.command) == (8_000, 7_200, ["python", "train.py"])
    assert (row.owner.username, row.leaf.code, row.cluster.name) == ("ada", "A1", "north")
    assert done.out.splitlines()[0] == f"{row.code}  queued on north for A1: 8 GPUs, contract 2 h"
    assert (done.code, done.err) == (DONE, "")


def test_everything_that_can_be_asked_for_is_passed_on(
    ada: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MODE", "fast")
    monkeypatch.setenv("WANDB_KEY", "s3cret-one")
    (tmp_path / "key").write_text("s3cret-two\n")
    done = ada(
        *("submit", "-g", "4", "-m", "1h30m", "-n", "big run", "-p", "3", "-t", "1-00:00:00", "--resumable"),
        *("-e", "A=b=c", "-e", "MODE", "--secret", "WANDB_KEY", "--secret", f"HF=@{tmp_path / 'key'}"),
        *("--checkpoint", "ckpt", "--checkpoint-every", "10m", "--cpus-per-rank", "12", "--memory-per-rank", "64G"),
        *("--fast",),
        *("--node", "n01", "--after", "A1-0001", "--leaf", "A1", "--cluster", "north"),
        *("python", "train.py", "--lr", "3", "two words", ""),
    )
    assert (done.code, done.err) == (DONE, "")
    row = newest()
    assert (row.name, row.priority, row.time_limit_s, row.resumable) == ("big run", 3, 86_400, True)
    assert {**row.environment} | {"ALLOTMENT_ARRAY_INDEX": "0"} == {
        "A": "b=c",
        "MODE": "fast",
        "ALLOTMENT_ARRAY_INDEX": "0",
    }
    assert sorted(row.secrets) == ["HF", "WANDB_KEY"]
    assert (row.checkpoint, row.checkpoint_every_s) == ("ckpt", 600)
    assert (row.cpu_milli_per_rank, row.memory_mib_per_rank, row.needs_fast) == (12_000, 65_536, True)
    assert (row.node.name, row.after.code) == ("n01", "A1-0001")
    assert row.command == ["python", "train.py", "--lr", "3", "two words", ""]
    shown = ada("show", row.code).out
    assert "s3cret" not in shown + done.out
    assert "two words" in shown


def test_an_array_and_ids_alone(ada: Run) -> None:
    done = ada(*SUBMIT, "--array", "3", "-q", "--", "true")
    codes = done.out.split()
    assert [len(codes), done.code, done.err] == [3, DONE, ""]
    assert Workload.objects.filter(code__in=codes, array__isnull=False).count() == 3
    assert ada("cancel", codes[0], "--array").code == DONE
    assert set(Workload.objects.filter(code__in=codes).values_list("state", flat=True)) == {"cancelled"}


def test_a_session_has_commands_to_save_and_restore_it(ada: Run) -> None:
    row = submitted(ada, "--save-command", "save 'all of it'", "--restore-command", "restore now")
    assert (row.save_command, row.restore_command) == (["save", "all of it"], ["restore", "now"])


def test_retries_are_asked_for_and_what_is_held_for_failing_alike_is_released(ada: Run) -> None:
    row = submitted(ada, "--retries", "2")
    assert (row.retries, ada(*SUBMIT, "--retries", "4", "--", "true").code) == (2, USAGE)
    Workload.objects.filter(pk=row.pk).update(state="held", reason_code="failed_alike", reason_text="Held: it failed.")
    assert "tried again" in ada("show", row.code).out
    done = ada("release", row.code)
    assert (done.code, done.out) == (DONE, f"{row.code} is back in the queue\n")
    row.refresh_from_db()
    assert (row.state, row.retried) == ("queued", 1)
    gang = submitted(ada, "--gpus", "4", "--canary")
    assert (gang.after_passed, gang.after.size_milli) == (True, 1_000)
    ada("cancel", row.code)
    assert ada("release", row.code).out == f"{row.code} is not held for that: cancelled\n"


def test_what_is_refused_at_the_door_says_why_and_fails(ada: Run) -> None:
    done = ada("submit", "-g", "8", "-m", "99h", "--", "true")
    assert done.code == FAILED
    assert re.match(r"A1-\d+ was refused: .*contract", done.out)
    done = ada("submit", "-g", "8", "-m", "99h", "-q", "--", "true")
    assert (done.code, done.out.strip() in done.err) == (FAILED, True)


def test_json_is_what_the_api_says(ada: Run) -> None:
    done = ada(*SUBMIT, "--json", "--", "true")
    row = newest()
    assert [each["code"] for each in done.json] == [row.code]
    assert done.json[0]["inside"]["command"] == ["true"]
    assert ada("show", row.code, "--json").json == done.json[0]


def test_an_answer_that_was_lost_submits_once(ada: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Workload.objects.count()
    read, lost = client.Portal._read, []

    def broken(self: client.Portal, response: Any) -> Any:
        if response.status == 201 and not lost:
            lost.append(response.read())
            raise ConnectionResetError
        return read(self, response)

    monkeypatch.setattr(client.Portal, "_read", broken)
    row = submitted(ada)
    assert len(lost) == 1
    assert Workload.objects.count() == before + 1
    assert json.loads(lost[0])[0]["code"] == row.code


# --- look -------------------------------------------------------------------------------------------------------------


def test_the_queue_is_that_of_the_page_with_its_numbers(ada: Run, world: World) -> None:
    done = ada("queue")
    page = ada("queue", "--json").json
    lines = done.out.splitlines()
    assert re.match(r"north  \d+ funded workloads? waits? for \d+ GPUs", lines[0])
    assert [line.split()[1] for line in lines if re.match(r"\s*[\d–]+ +A1-|\s*[\d–]+ +B1-", line)] == [
        row["code"] for row in page["rows"]
    ]
    [line] = [line for line in lines if world.lab.waits.code in line]
    assert re.search(r"A1 +waiting-one +8 +1 h +\d+ min +\d+\.\d › \d+\.\d", line)
    # Names of others' work are for those inside.
    assert "taken-one" not in done.out
    assert {row["code"]: (row["name"], row["is_mine"]) for row in page["rows"]}[world.lab.taken.code] == (None, False)
    numbers = ada("queue", "--levels").out
    assert re.search(r"^  A1 Team A1 +\S+ +70.00 % +1,129", numbers, re.MULTILINE)


def test_the_queue_is_filtered_and_fits(ada: Run, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    only = ada("queue", "--project", "B").out
    assert world.lab.taken.code in only
    assert world.lab.waits.code not in only
    assert "Nothing that waits fits this filter." in ada("queue", "--find", "nothing-like-it").out
    assert len(ada("queue", "-n", "1", "--json").json["rows"]) == 1
    for width in ("100", "80", "60"):
        monkeypatch.setenv("COLUMNS", width)
        assert max(map(len, ada("queue").out.splitlines())) <= int(width)


def test_why_begins_with_the_reason_and_has_the_very_numbers(ada: Run, world: World) -> None:
    code = world.lab.waits.code
    done = ada("why", code)
    told = ada("why", code, "--json").json
    lines = done.out.splitlines()
    assert re.match(rf"{code}  waiting-one  queued on north for A1, \d+\w\w in the queue", lines[0])
    assert lines[2].startswith(told["workload"]["reason"][:60])
    assert "served = (used in 7 days + committed) / entitled" in done.out
    for step in told["levels"]:
        for level in step["siblings"]:
            served = 100 * level["served"][0] / level["served"][1]
            [line] = [line for line in lines if re.match(rf" +(▸ )?{level['node']} Team", line)]
            assert f"{served:.1f} %" in line
            assert line.strip().startswith("▸") == (level["node"] == step["child"])
    for change in told["binding"]["changes"]:
        assert change.split(":")[0][:40] in " ".join(done.out.split())
    assert "try it below" not in done.out
    assert f"allot try {code} -g 4" in done.out


def test_why_was_it_preempted_names_who_took_it_and_both_sides(as_who: Callable[[str], Run], world: World) -> None:
    ben, lab = as_who("ben"), world.lab
    done = ben("why", lab.taken.code)
    assert "Run 1 was preempted" in done.out
    assert re.search(rf"taken by +{lab.taker.code}", done.out)
    assert re.search(r"A took +0 +0 +0.0 %", done.out)
    assert re.search(r"B gave +3\d.\d +0 +3.\d %", done.out)
    assert "10 min inside its contract" in done.out
    one = ben("why", lab.taken.code, "--run", "1")
    assert done.out.split("was preempted")[1] == one.out.split("was preempted")[1]
    assert ben("why", lab.taken.code, "--run", "1", "--json").json["decision"]["by"] == lab.taker.code
    assert ben("why", lab.taken.code, "--run", "9").code == NOT_FOUND


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("taker", "Nobody can take its devices before its contract ends"),
        ("free", "It is unallocated: charged to nobody"),
        ("holder", "All ranks exited with status 0."),
    ],
)
def test_why_says_how_safe_what_runs_is(ada: Run, world: World, name: str, said: str) -> None:
    done = ada("why", getattr(world.lab, name).code)
    assert said in " ".join(done.out.split())
    assert done.code == DONE


def test_another_size_is_tried_and_nothing_is_changed(ada: Run, world: World) -> None:
    row = world.lab.waits
    done = ada("try", row.code, "-g", "1", "-m", "30m")
    assert re.search(r"As it is: 8 GPUs, contract 1 h\n  It would wait: ", done.out)
    assert re.search(r"Tried: 1 GPU, contract 30 min\n  It would ", done.out)
    row.refresh_from_db()
    assert (row.size_milli, row.min_runtime_s) == (8_000, 3_600)
    assert ada("try", row.code).err == "allot: say what else to try: --gpus, --min-runtime, or both\n"


def test_list_has_her_own_and_show_what_they_are(ada: Run, world: World) -> None:
    done = ada("list", "-n", "200")
    mine = set(Workload.objects.filter(owner=world.lab.ada).values_list("code", flat=True))
    assert {line.split()[0] for line in done.out.splitlines()[1:]} == mine
    assert set(ada("list", "-n", "200", "-q").out.split()) == mine
    everybody = ada("list", "--everybody", "--state", "finished", "--json").json
    assert [row["code"] for row in everybody] == [world.lab.holder.code]
    shown = ada("show", world.lab.taker.code).out
    assert re.search(r"command +python train.py --secret-flag", shown)
    # Of others' work she sees that it is there, not what it is.
    shown = ada("show", world.lab.holder.code).out
    assert "finished on north for B1" in shown
    assert "train.py" not in shown


def test_usage_adds_up_to_what_the_api_says(ada: Run, as_who: Callable[[str], Run]) -> None:
    done = ada("usage", "B1", "--from", "3d", "--until", "yesterday")
    told = ada("usage", "B1", "--from", "3d", "--until", "yesterday", "--json").json
    total = told["total"]
    entitled = total["entitled_milli_s"] / 3_600_000
    assert f"of {entitled:,.0f} that it was entitled to" in " ".join(done.out.split())
    assert len(told["points"]) == 3
    days = [line for line in done.out.splitlines() if re.match(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) ", line)]
    assert len(days) == 3
    nodes = ada("usage").out
    assert [line.split()[0] for line in nodes.splitlines() if re.match(r"( *)(LAB|A|B) ", line)] == ["LAB", "A", "B"]
    shown = ada("usage", "A1", "--people").out  # whole hours: just before one ends there may be none of hers
    assert re.search(r"^(Ada |Nothing of A1 on north was used)", shown, re.MULTILINE)
    assert re.search(r"^Ben ", as_who("ben")("usage", "B1", "--people").out, re.MULTILINE)
    assert len(ada("usage", "B1", "--step", "hour", "--json").json["points"]) > 24


def test_the_tree_and_its_shares(ada: Run) -> None:
    rows = ada("tree").rows
    assert [row[0] for row in rows[1:]] == ["LAB", "A", "A1", "A2", "B", "B1"]
    assert ["A1", "Team", "A1", "project", "70.00", "%", "42.00", "%", "6.7"] in rows
    assert [row[0] for row in ada("tree", "A").rows[1:]] == ["A", "A1", "A2"]
    assert [row[0] for row in ada("tree", "-d", "2").rows[1:]] == ["LAB", "A", "B"]
    assert ada("tree", "Z").code == NOT_FOUND
    shares = ada("shares", "A").rows
    assert [row[:3] for row in shares[1:]] == [["A1", "70.00", "%"], ["A2", "25.00", "%"], ["unassigned", "5.00", "%"]]


def test_who_am_i_and_what_is_there(ada: Run, world: World) -> None:
    done = ada("whoami")
    assert done.out.startswith(f"ada (Ada) at {world.url}\n")
    assert re.search(r"submits to +A1", done.out)
    assert world.tokens["ada"] not in done.out
    assert ada("clusters").rows[1][:3] == ["north", "16", "GPUs"]
    assert [row["name"] for row in ada("nodes", "--json").json] == ["n01", "n02"]


@pytest.mark.parametrize(
    ("words", "incomplete", "offered"),
    [
        (["why"], "B1-000", ["B1-0002", "B1-0001"]),
        (["queue", "-c"], "", ["north"]),
        (["drain"], "n", ["n01", "n02"]),
        (["submit", "--leaf"], "", ["A1"]),
        (["shares"], "a", ["A", "A1", "A2"]),
        (["usage"], "B", ["B", "B1"]),
        (["cancel"], "A1-0001", ["A1-0001"]),
    ],
)
def test_a_tab_offers_what_the_portal_has(ada: Run, words: list[str], incomplete: str, offered: list[str]) -> None:
    shell = ShellComplete(cli, {}, "allot", "_ALLOT_COMPLETE")
    assert [each.value for each in shell.get_completions(words, incomplete)] == offered


def test_anything_can_be_asked_of_the_api(ada: Run, as_who: Callable[[str], Run]) -> None:
    assert [row["name"] for row in ada("api", "clusters").json] == ["north"]
    assert ada("api", "/api/v1/workloads/", "limit=1", "find=A1-0001").json["results"][0]["code"] == "A1-0001"
    assert len(ada("api", "workloads", "--all", "owner=me").json) > 1
    ops = as_who("ops")
    tag = ops("api", "clusters/north/policy", "--etag").out.strip()
    change = json.dumps({"knobs": {"reservations": 2}, "reason": "try it"})
    patch = ("api", "-X", "PATCH", "clusters/north/policy", "-d", "@-", "--if-match", tag)
    assert ops(*patch, stdin=change).json["knobs"]["reservations"] == 2
    assert ops(*patch, stdin=change).code == CONFLICT
    assert ops("api", "clusters", "-d", "{").err.startswith("allot: --data: ")
    assert ops("api", "clusters?x=1").code == USAGE
    assert ops("api", "nowhere").code == NOT_FOUND


def test_an_answer_of_another_version_is_one_line(ada: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.Portal, "get", lambda *asked, **more: {})
    done = ada("why", "A1-0001")
    assert done.code == FAILED
    assert re.fullmatch(
        r"allot: the portal's answer is not as expected \(KeyError: .*ALLOT_DEBUG=1 shows where\n", done.err
    )
    monkeypatch.setenv("ALLOT_DEBUG", "1")
    with pytest.raises(KeyError):
        ada("why", "A1-0001")
