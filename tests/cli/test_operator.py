"""What operators and managers do with `allot`: nodes, windows, stops; shares, requests, simulations; signing in."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from allot import settings
from allot.failures import CONFLICT, DONE, FAILED, NOT_ALLOWED, NOT_FOUND, USAGE

from budgets.models import AccessToken, Request, Share
from budgets.queries import today
from scheduler.models import EmergencyStop, MaintenanceWindow, Node, Run, Simulation
from scheduler.services import simulating
from tests.cli.conftest import CLI, World
from tests.cli.conftest import Run as Allot

pytestmark = pytest.mark.django_db
BECAUSE = ("--reason", "the fan is loud")
SCENARIO = {
    "name": "two teams",
    "cluster": {"nodes": {"h1": 8}},
    "tree": {"A": 1, "B": 1},
    "workloads": [
        {"id": "b1", "leaf": "B", "submit": "0h", "gpus": 8, "min_runtime": "1h", "duration": "2h"},
        {"id": "a1", "leaf": "A", "submit": "10m", "gpus": 8, "min_runtime": "1h", "duration": "1h"},
    ],
}


@pytest.fixture
def ops(as_who: Callable[[str], Allot]) -> Allot:
    """Ops, an operator."""
    return as_who("ops")


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_nodes_drain_and_resume(ops: Allot) -> None:
    assert re.search(r"^n01 +r1 +healthy +\d/8  [■□]{8} ", ops("nodes").out, re.MULTILINE)
    done = ops("drain", "n01", *BECAUSE)
    assert (done.code, done.out[:22]) == (DONE, "n01 on north drains: n")
    assert Node.objects.get(name="n01").drain_reason == "the fan is loud"
    assert ops("drain", "n01", *BECAUSE).out == "n01 on north was asked to drain before.\n"
    shown = ops("nodes", "--trouble").out
    assert re.search(r"^n01 +r1 +drain\w+ .*the fan is loud", shown, re.MULTILINE)
    assert "\nn02" not in shown
    assert ops("resume", "n01", *BECAUSE, "--json").json["node"]["name"] == "n01"
    assert Node.objects.get(name="n01").drain_asked_at is None


def test_windows_are_planned_and_called_off(ops: Allot) -> None:
    begin = (datetime.now(UTC) + timedelta(days=3)).replace(hour=8, minute=0)
    times = ("--from", f"{begin:%Y-%m-%dT%H:%M}Z", "--until", f"{begin + timedelta(hours=2):%Y-%m-%dT%H:%M}Z")
    made = ops("windows", "add", "n02", *times, "--reason", "new firmware", "--json")
    window = MaintenanceWindow.objects.get()
    assert (made.json["id"], window.starts_at.minute, window.reason) == (window.pk, 0, "new firmware")
    assert re.search(rf"^ *{window.pk} .*new firmware$", ops("windows", "list", "n02").out, re.MULTILINE)
    assert ops("windows", "cancel", "n02", str(window.pk), *BECAUSE).code == DONE
    assert ops("windows", "list", "n02").out == "n02 on north has no maintenance window.\n"
    assert ops("windows", "cancel", "n02", "999", *BECAUSE).code == NOT_FOUND
    over = ops("windows", "add", "n02", "--from", "2h", "--until", "1h", *BECAUSE)
    assert (over.code, over.err.startswith("allot: --until: ")) == (USAGE, True)


def test_health_is_said(ops: Allot) -> None:
    assert ops("health", "n02", "unhealthy", *BECAUSE).out == "n02 on north is unhealthy.\n"
    assert ops("health", "n02", "unhealthy", *BECAUSE).out == "n02 on north was unhealthy before.\n"
    assert "\n  n02" not in ops("nodes").out
    assert ops("health", "n02", "odd", *BECAUSE).code == USAGE
    assert ops("health", "n99", "healthy", *BECAUSE).code == NOT_FOUND


def test_an_emergency_stop_asks_first_and_ends_everything(ops: Allot, world: World) -> None:
    going = Run.objects.filter(stop_asked_at=None).exclude(state="ended").count()
    assert going > 0
    asked = ops("stop", "--whole-cluster", *BECAUSE, stdin="n\n")
    assert asked.code == 130
    assert not EmergencyStop.objects.exists()
    assert ops("stop", *BECAUSE).code == USAGE
    one = ops("stop", "--run", world.lab.taker.code, "--yes", *BECAUSE)
    assert one.out == f"1 run told to stop: the run of {world.lab.taker.code}.\n"
    done = ops("stop", "--whole-cluster", "--yes", *BECAUSE)
    assert (
        done.out == f"{going - 1} run{'s' if going != 2 else ''} told to stop: every run on north. "
        "Nothing starts until `allot start`.\n"
    )
    assert re.search("STOPPED by ops .* the fan is loud", ops("queue").out)
    assert ops("start", "--reason", "it is out").out == "north goes on with its queue.\n"
    assert ops("start", "--reason", "it is out").out == "north was not stopped.\n"
    assert "STOPPED" not in ops("queue").out
    node = ops("stop", "--node", "n01", "--yes", *BECAUSE)
    assert (node.code, node.out.endswith("every run on n01 of north.\n")) == (DONE, True)
    assert Node.objects.get(name="n01").drain_asked_at is not None


def test_who_does_not_operate_is_told_so(as_who: Callable[[str], Allot]) -> None:
    for line in (("drain", "n01"), ("stop", "--whole-cluster", "--yes"), ("health", "n01", "down")):
        done = as_who("ada")(*line, *BECAUSE)
        assert (done.code, done.out, done.err.count("\n")) == (NOT_ALLOWED, "", 1)


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_shares_are_set_with_a_reason_and_not_over_the_whole(as_who: Callable[[str], Allot]) -> None:
    mia = as_who("mia")
    done = mia("shares", "A", "--set", "A1=60%", "--set", "A2=35%", "--reason", "spring")
    assert (done.code, done.err) == (DONE, "")
    assert [row[:3] for row in done.rows[1:]] == [
        ["A1", "60.00", "%"],
        ["A2", "35.00", "%"],
        ["unassigned", "5.00", "%"],
    ]
    now = dict(Share.objects.filter(parent__code="A", valid_until=None).values_list("node__code", "basis_points"))
    assert now == {"A1": 6_000, "A2": 3_500}
    assert mia("shares", "A", "--set", "A1=60%").err == "allot: --reason: say why, with --set\n"
    over = mia("shares", "A", "--set", "A1=90%", "--reason", "all")
    assert (over.code, over.err.startswith("allot: --set")) == (USAGE, True)
    assert mia("shares", "A", "--set", "B1=5%", "--reason", "x").err.startswith("allot: --set B1: ")
    assert as_who("ada")("shares", "A", "--set", "A1=61%", "--reason", "x").code == NOT_ALLOWED


def test_cells_are_shown_beside_shares_and_set_level_by_level(as_who: Callable[[str], Allot]) -> None:
    top = as_who("max")
    assert top("cells", "A").out.splitlines() == [
        "A has no whole nodes or racks of north to itself.",
        "Still grantable: up to 2 whole nodes or 1 rack.",
    ]
    assert top("cells", "A", "--nodes", "1").err == "allot: --reason: say why, with --nodes or --racks\n"
    over = top("cells", "A", "--nodes", "3", "--reason", "x")
    assert (over.code, over.err) == (USAGE, "allot: --nodes: north: 1 whole node short of what A would have\n")
    done = top("cells", "A", "--nodes", "2", "--reason", "spring")
    assert done.out.splitlines()[0] == "A has 2 whole nodes of north to itself: 2 nodes, 16 GPUs."
    assert "That is more than its share comes to." in done.out
    assert [row[-3:] for row in top("shares", "LAB").rows if row[0] == "A"] == [["2", "whole", "nodes"]]
    assert top("cells", "A", "--racks", "1", "--nodes", "0", "--reason", "x", "--json").json["cells"]["rack"] == 1
    assert top("cells", "A", "--racks", "0", "--reason", "over").code == DONE
    assert "CELLS" not in top("shares", "LAB").out
    assert as_who("mia")("cells", "A", "--nodes", "1", "--reason", "x").code == NOT_ALLOWED


def test_a_request_from_asking_to_its_answer(as_who: Callable[[str], Allot]) -> None:
    ask = ("request", "new", "A1", "--more", "4%", "--why", "A paper is due.", "--otherwise", "It is late.")
    done = as_who("ada")(*ask)
    row = Request.objects.get()
    assert done.out == f"Request {row.pk} (A1, 4.00 % more) is on the desk of A.\n"
    assert (row.state, row.more_basis_points, row.starts_on) == ("submitted", 400, today())
    listed = as_who("mia")("request", "list", "--mine").rows
    assert listed[1][:4] == [str(row.pk), "A1", "north", "4.00"]
    assert as_who("ada")("request", "comment", str(row.pk), "It is a good paper.").code == DONE
    shown = as_who("mia")("request", "show", str(row.pk)).out
    assert "A1 asks for 4.00 % more of A on north: submitted" in shown
    assert re.search("you may +decide it as mia", shown)
    assert "It is a good paper." in shown
    assert as_who("ada")("request", "approve", str(row.pk), "--reason", "me").code == NOT_ALLOWED
    assert as_who("mia")("request", "deny", str(row.pk)).code == USAGE
    given = as_who("mia")("request", "approve", str(row.pk), "--reason", "Go on.", "--json").json
    assert (given["state"], given["decision"] is not None) == ("applied", True)
    again = as_who("mia")("request", "approve", str(row.pk), "--reason", "Go on.")
    assert again.code in (CONFLICT, USAGE)
    assert as_who("ada")("request").out == "No request is open.\n"
    too_much = as_who("ada")("request", "new", "A1", "--more", "101%", "--why", "x", "--otherwise", "y")
    assert (too_much.code, "is not a share" in too_much.err) == (USAGE, True)


def test_a_draft_is_submitted_and_withdrawn(as_who: Callable[[str], Allot]) -> None:
    ada = as_who("ada")
    ask = ("request", "new", "A1", "--more", "1%", "--why", "x", "--otherwise", "y", "--from", "tomorrow", "--draft")
    number = str(ada(*ask, "--json").json["number"])
    assert ada("request", "list", "--state", "draft", "--json").json[0]["number"] == int(number)
    assert ada("request", "submit", number).out.endswith("is on the desk of A.\n")
    assert ada("request", "withdraw", number).out.endswith("is withdrawn.\n")
    assert ada("request", "show", "9999").code == NOT_FOUND


# --- simulations ------------------------------------------------------------------------------------------------------


def workers(number: int) -> None:
    """Do what the workers of simulations do."""
    simulating.prepare(number)
    for pk in Simulation.objects.get(pk=number).parts.values_list("pk", flat=True):
        simulating.run_part(pk)


def test_a_scenario_is_simulated_with_its_variants_side_by_side(as_who: Callable[[str], Allot], tmp_path: Path) -> None:
    ada, file = as_who("ada"), tmp_path / "two.json"
    file.write_text(json.dumps(SCENARIO))
    asked = ada("simulate", str(file), "--variant", "first come: scheduler=fifo", "--title", "who waits", "--no-wait")
    row = Simulation.objects.get(title="who waits")
    assert asked.out == f"Simulation {row.pk} is asked for: allot simulations {row.pk}\n"
    worker = threading.Thread(target=lambda: (time.sleep(0.3), workers(row.pk)))
    worker.start()
    done = ada("simulations", str(row.pk))
    worker.join()
    assert done.code == DONE
    assert re.search(r"^ +as it is +first come$", done.out, re.MULTILINE)
    assert re.search(r"^impact +\d+\.\d % +\d+\.\d %$", done.out, re.MULTILINE)
    assert re.search(r"^workloads started +2 +2$", done.out, re.MULTILINE)
    assert ada("simulations").rows[1][1:3] == ["finished", "100"]
    assert [part["name"] for part in ada("simulations", str(row.pk), "--json").json["parts"]] == [
        "as it is",
        "first come",
    ]


def test_a_sweep_is_a_row_for_each_value(as_who: Callable[[str], Allot]) -> None:
    ada = as_who("ada")
    asked = ada("simulate", "-", "--sweep", "lookback_s=1d,7d", "--json", "--no-wait", stdin=json.dumps(SCENARIO))
    number = asked.json["number"]
    workers(number)
    done = ada("simulations", str(number))
    assert len([line for line in done.out.splitlines() if "%" in line]) == 2
    assert done.code == DONE


def test_what_failed_is_said_and_fails(as_who: Callable[[str], Allot]) -> None:
    ada = as_who("ada")
    number = ada("simulate", "-", "--no-wait", "--json", stdin=json.dumps(SCENARIO)).json["number"]
    assert ada("simulations", str(number), "--cancel").out == f"Simulation {number} is cancelled.\n"
    assert ada("simulations", str(number)).code == FAILED
    assert ada("simulations", "9999").code == NOT_FOUND


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say exactly one of FILE, --history and --what-if"),
        (("missing.json",), "No such file"),
        (("-", "--variant", "x"), "say NAME:KNOB=VALUE"),
        (("-", "--sweep", "reservations"), "say KNOB=VALUE,VALUE"),
        (("-", "--sweep", "colour=1"), "--sweep"),
        (("--what-if", "A"), "takes --share"),
        (("-", "--variant", "x: colour=1"), "colour"),
    ],
)
def test_a_simulation_that_cannot_be_asked_is_one_line(
    as_who: Callable[[str], Allot], arguments: tuple[str, ...], said: str
) -> None:
    done = as_who("ada")("simulate", *arguments, "--no-wait", stdin=json.dumps(SCENARIO))
    assert (done.code, done.out, done.err.count("\n")) == (USAGE, "", 1)
    assert said in done.err


# --- signing in -------------------------------------------------------------------------------------------------------


def test_signing_in_keeps_the_token_and_signing_out_forgets_it(run: Allot, world: World, home: Path) -> None:
    shown = world.token_of(world.lab.ada)
    done = run("login", "--url", world.url, stdin=f"{shown}\n")
    assert done.out.startswith(f"Signed in to {world.url} as ada, for read, submit, operate, decide, until ")
    assert shown not in done.out + done.err
    assert (settings.config_path().stat().st_mode & 0o777) == 0o600
    assert run("whoami", "--json").json["username"] == "ada"
    assert run("use", "--leaf", "A1", "--cluster", "north").out == "cluster: north, project: A1\n"
    assert run("use", "--leaf", "B1").err.startswith("allot: --leaf: you can't submit to 'B1'; you can to A1")
    assert run("use", "--cluster", "").out == "cluster: (the only one), project: A1\n"
    assert run("logout", "--revoke").out == f"Signed out of {world.url}, and the token is revoked.\n"
    assert not AccessToken.objects.get(prefix=shown[:12]).is_alive(datetime.now(UTC))
    assert run("queue").err == f"allot: no token for {world.url}: run `allot login`, or set ALLOT_TOKEN\n"
    assert run("logout").out == "You were not signed in.\n"


def test_a_token_that_the_portal_does_not_know_is_not_kept(run: Allot, world: World, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("allot_" + "x" * 43)
    done = run("login", "--url", world.url, "--token-file", str(tmp_path / "token"))
    assert (done.code, done.out) == (NOT_ALLOWED, "")
    assert not settings.config_path().exists()
    assert run("login", "--url", world.url, stdin="not a token\n").code == USAGE
    assert run("login", stdin="").err == "allot: --url: say the portal's address\n"
    assert run("login", "--url", "http://gpu.example.org", stdin="x\n").err.count("is not encrypted") == 1


def test_on_a_terminal_the_token_is_not_shown_and_tables_have_colours(
    home: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setenv("PYTHONPATH", str(CLI))
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = terminal(["login"], [("Address", world.url), ("Token", world.tokens["ada"])])
    assert f"Signed in to {world.url} as ada" in shown
    assert world.tokens["ada"] not in shown
    assert "\x1b[1m" in terminal(["queue"], [])
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in terminal(["queue"], [])


def terminal(arguments: list[str], typed: list[tuple[str, str]]) -> str:
    """What `allot` shows on a terminal of its own to somebody who types answers."""
    child, master = pty.fork()
    if child == 0:
        os.execve(sys.executable, [sys.executable, "-m", "allot", *arguments], os.environ)
    shown = ""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not select.select([master], [], [], 0.2)[0]:
            continue
        try:
            data = os.read(master, 65_536)
        except OSError:
            break
        if not data:
            break
        shown += data.decode()
        if typed and typed[0][0] in shown.rsplit("\n", 1)[-1]:
            time.sleep(0.1)
            os.write(master, f"{typed.pop(0)[1]}\n".encode())
    os.waitpid(child, 0)
    os.close(master)
    return shown
