"""What a researcher does with `allot`: submit, look, ask why, follow, cancel; and what each failure says."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from allot import client
from allot.failures import CONFLICT, DONE, FAILED, NOT_ALLOWED, NOT_FOUND, UNREACHABLE, USAGE
from allot.main import cli
from click.shell_completion import ShellComplete

from budgets.models import AccessToken
from budgets.services import tokens
from scheduler.models import LogChunk, Rank, Workload
from scheduler.services import workloads
from tests.cli.conftest import Run, World

pytestmark = pytest.mark.django_db
SUBMIT = ("submit", "-g", "2", "--min-runtime", "30m")


def newest() -> Workload:
    """What was submitted last."""
    return Workload.objects.order_by("-pk")[0]


def submitted(run: Run, *more: str) -> Workload:
    """A workload of hers, as the command line submits it."""
    done = run(*SUBMIT, *more, "--", "python", "train.py")
    assert (done.code, done.err) == (DONE, "")
    return newest()


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
    assert (row.cpu_milli_per_rank, row.memory_mib_per_rank) == (12_000, 65_536)
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
    everybody = ada("list", "--everybody", "--state", "finished", "--json").json
    assert [row["code"] for row in everybody] == [world.lab.holder.code]
    shown = ada("show", world.lab.taker.code).out
    assert re.search(r"command +python train.py --secret-flag", shown)
    # Of others' work she sees that it is there, not what it is.
    shown = ada("show", world.lab.holder.code).out
    assert "finished on north for B1" in shown
    assert "train.py" not in shown


def test_usage_adds_up_to_what_the_api_says(ada: Run) -> None:
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
    assert re.search(r"^Ada ", ada("usage", "A1", "--people").out, re.MULTILINE)
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


# --- logs, wait, cancel -----------------------------------------------------------------------------------------------


def printed(code: str, text: str) -> None:
    """Its last run prints this."""
    rank = Rank.objects.filter(run__workload__code=code).order_by("-run__number", "index")[0]
    end = LogChunk.objects.filter(rank=rank).order_by("-offset").first()
    offset = 0 if end is None else end.offset + end.length
    LogChunk.objects.create(rank=rank, offset=offset, length=len(text.encode()), text=text)


def test_logs_print_what_was_printed(ada: Run, world: World) -> None:
    code = world.lab.taker.code
    assert ada("logs", code).out == "epoch 1: loss 0.42\n"
    assert ada("logs", code, "--json").json["text"] == "epoch 1: loss 0.42\n"
    waits = ada("logs", world.lab.waits.code)
    assert (waits.out, waits.err) == ("", f"allot: {world.lab.waits.code} has not run yet\n")
    assert ada("logs", code, "--rank", "7").code == NOT_FOUND
    assert ada("logs", world.lab.holder.code).code == NOT_FOUND


def test_following_goes_on_until_the_end_and_says_how_it_ended(
    ada: Run, process: Callable[..., subprocess.Popen[str]], world: World
) -> None:
    row = submitted(ada)
    world.lab.step()
    going = process("logs", "-f", row.code)
    assert going.stdout is not None
    # Wait until it runs; then let it print, and end.
    row.refresh_from_db()
    if row.state == "queued":
        workloads.cancel(workload=row, by=world.lab.ada, reason="")
        assert going.wait(20) == FAILED
        assert "was cancelled" in going.communicate()[1]
        return
    printed(row.code, "first\n")
    assert going.stdout.readline() == "first\n"
    printed(row.code, "naïve last\n")
    assert going.stdout.readline() == "naïve last\n"
    workloads.cancel(workload=row, by=world.lab.ada, reason="enough")
    world.lab.step(ago=-10)
    assert going.wait(20) == FAILED
    assert re.search(rf"allot: {row.code} was cancelled", going.communicate()[1])


def test_cancel_takes_several_and_goes_on_past_what_is_not_hers(ada: Run, world: World) -> None:
    first, second = submitted(ada), submitted(ada)
    done = ada("cancel", first.code, world.lab.taken.code, second.code, "--reason", "typo")
    assert done.code == NOT_FOUND
    assert done.out == f"{first.code} is cancelled\n{second.code} is cancelled\n"
    assert done.err.startswith(f"allot: {world.lab.taken.code}: ")
    assert ada("cancel", first.code).out == f"{first.code} is cancelled\n"
    world.lab.taken.refresh_from_db()
    assert world.lab.taken.state == "queued"


def test_waiting_ends_when_it_is_over_or_time_is_up(ada: Run, world: World) -> None:
    row = submitted(ada)
    late = ada("wait", world.lab.waits.code, "--timeout", "0")
    assert (late.code, late.err) == (FAILED, f"allot: {world.lab.waits.code} is still queued after 0 s\n")
    workloads.cancel(workload=row, by=world.lab.ada, reason="")
    done = ada("wait", row.code)
    assert (done.code, done.err) == (FAILED, f"allot: {row.code} was cancelled\n")
    assert ada("wait", world.lab.holder.code).code == DONE
    assert ada("wait", world.lab.taker.code, "--until", "running").code == DONE


def test_ctrl_c_is_quiet_and_a_reader_that_left_is_no_error(
    ada: Run, process: Callable[..., subprocess.Popen[str]], world: World
) -> None:
    going = process("logs", "-f", world.lab.taker.code)
    assert going.stdout is not None
    assert going.stdout.readline() == "epoch 1: loss 0.42\n"
    going.send_signal(signal.SIGINT)
    assert going.wait(20) == 130
    assert going.communicate()[1].strip() == ""
    left = process("list", "--everybody", "--json")
    assert left.stdout is not None
    left.stdout.close()
    assert left.wait(20) in (0, 141)
    assert left.stderr is not None
    assert left.stderr.read() == ""


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("submit", "-g", "8", "--", "true"), USAGE, "Missing option '-m' / '--min-runtime'"),
        (("submit", "-g", "8", "-m", "90", "--", "true"), USAGE, "'90' has no unit: say 90m or 90h"),
        (("submit", "-g", "x", "-m", "1h", "--", "true"), USAGE, "'x' is not a number of devices"),
        (("submit", "-g", "1.5", "-m", "1h", "--", "true"), USAGE, "--gpus: "),
        (("submit", "-g", "8", "-m", "1h"), USAGE, "Missing argument 'COMMAND...'"),
        (("submit", "-g", "1", "-m", "1h", "-p", "5000", "--", "true"), USAGE, "--priority: "),
        (("submit", "-g", "1", "-m", "1h", "-e", "LD_PRELOAD=x", "--", "true"), USAGE, "--env LD_PRELOAD: "),
        (("submit", "-g", "1", "-m", "1h", "-e", "NOT_HERE", "--", "true"), USAGE, "you have no such variable"),
        (("submit", "-g", "1", "-m", "1h", "--secret", "K=v", "--", "true"), USAGE, "is seen by everybody"),
        (
            ("submit", "-g", "1", "-m", "1h", "-c", "moon", "--", "true"),
            USAGE,
            "--cluster: There is no cluster 'moon'.",
        ),
        (("submit", "-g", "1", "-m", "1h", "-l", "Z", "--", "true"), USAGE, "--leaf: There is no budget node 'Z'."),
        (("submit", "-g", "1", "-m", "1h", "-l", "B1", "--", "true"), NOT_ALLOWED, "you are no member of B1"),
        (("why", "A1-9999"), NOT_FOUND, "There is no workload 'A1-9999'."),
        (("queue", "-c", "moon"), NOT_FOUND, "moon"),
        (("cancel", "B1-0001"), NOT_FOUND, "There is no workload 'B1-0001' that is yours to cancel."),
        (("drain", "n01", "--reason", "x"), NOT_ALLOWED, ""),
        (("frobnicate",), USAGE, "No such command 'frobnicate'"),
        (("queue", "--colour"), USAGE, "No such option"),
        (("usage", "A", "--until", "today"), USAGE, "--until: say --from as well"),
        (("usage", "A", "--from", "2026-13-01"), USAGE, "is not a day"),
    ],
)
def test_a_failure_is_one_line_that_names_what_was_wrong(
    ada: Run, arguments: tuple[str, ...], code: int, said: str
) -> None:
    before = Workload.objects.count()
    done = ada(*arguments)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("allot: ")
    assert done.err.count("\n") == 1
    assert said in done.err
    assert Workload.objects.count() == before


def test_without_a_token_nothing_is_asked(run: Run) -> None:
    done = run("queue")
    assert done.err == "allot: not signed in: run `allot login`, or set ALLOT_URL and ALLOT_TOKEN\n"
    assert done.code == NOT_ALLOWED


def test_a_token_that_was_revoked_says_so(ada: Run, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = world.token_of(world.lab.ada)
    monkeypatch.setenv("ALLOT_TOKEN", shown)
    assert ada("whoami").code == DONE
    tokens.revoke(token=AccessToken.objects.order_by("-pk")[0], by=world.lab.ada, reason="")
    done = ada("queue")
    assert done.code == NOT_ALLOWED
    assert re.fullmatch(r"allot: .* does not accept the token: .* Run `allot login`.\n", done.err)
    assert shown not in done.err


def test_a_token_without_the_scope_reads_alone(ada: Run, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOT_TOKEN", world.token_of(world.lab.ada, "read"))
    assert ada("queue").code == DONE
    done = ada(*SUBMIT, "--", "true")
    assert (done.code, done.err) == (NOT_ALLOWED, "allot: This token has not the scope 'submit'.\n")


def test_a_portal_that_is_away_is_waited_for_by_who_follows(
    ada: Run, process: Callable[..., subprocess.Popen[str]], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = world.lab.taker.code
    with socket.create_server(("127.0.0.1", 0)) as away:
        port = away.getsockname()[1]
    monkeypatch.setenv("ALLOT_URL", f"http://127.0.0.1:{port}")
    done = ada("queue")
    assert (done.code, done.err) == (
        UNREACHABLE,
        f"allot: http://127.0.0.1:{port} can't be reached: nothing listens there\n",
    )
    going = process("logs", "-f", code)
    assert going.stderr is not None
    assert going.stdout is not None
    assert "waiting for it to come back" in going.stderr.readline()
    with relay(port, int(world.url.rsplit(":", 1)[1])):
        assert going.stderr.readline() == "allot: it is back\n"
        assert going.stdout.readline() == "epoch 1: loss 0.42\n"
        going.send_signal(signal.SIGINT)
        assert going.wait(20) == 130


class relay:  # noqa: N801 - used as `with relay(...)`
    """The portal at another port, for as long as the block lasts."""

    def __init__(self, port: int, to: int) -> None:
        self.port, self.to = port, to

    def __enter__(self) -> None:
        script = (
            "import socket,threading\n"
            "def pump(a,b):\n"
            "  try:\n"
            "    while (d:=a.recv(65536)): b.sendall(d)\n"
            "  except OSError: pass\n"
            "  b.close()\n"
            f"s=socket.create_server(('127.0.0.1',{self.port}))\n"
            "while True:\n"
            "  c,_=s.accept()\n"
            f"  u=socket.create_connection(('127.0.0.1',{self.to}))\n"
            "  for p in ((c,u),(u,c)): threading.Thread(target=pump,args=p,daemon=True).start()\n"
        )
        self.process = subprocess.Popen(["python3", "-c", script])

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait()
