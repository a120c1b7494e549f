"""What goes on for as long as a workload does, over restarts of the portal; and what each failure says."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Callable

import pytest
from allot.failures import DONE, FAILED, NOT_ALLOWED, NOT_FOUND, UNREACHABLE, USAGE

from budgets.models import AccessToken
from budgets.services import tokens
from scheduler.models import LogChunk, Rank, Workload
from scheduler.services import workloads
from tests.cli.conftest import PATIENCE_S, SUBMIT, Run, World, submitted

pytestmark = pytest.mark.django_db


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
        assert going.wait(PATIENCE_S) == FAILED
        assert "was cancelled" in going.communicate()[1]
        return
    printed(row.code, "first\n")
    assert going.stdout.readline() == "first\n"
    printed(row.code, "naïve last\n")
    assert going.stdout.readline() == "naïve last\n"
    workloads.cancel(workload=row, by=world.lab.ada, reason="enough")
    world.lab.step(ago=-10)
    assert going.wait(PATIENCE_S) == FAILED
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
    assert (late.code, late.err) == (FAILED, f"allot: {world.lab.waits.code} is not over after 0 s\n")
    workloads.cancel(workload=row, by=world.lab.ada, reason="")
    done = ada("wait", row.code)
    assert (done.code, done.err) == (FAILED, f"allot: {row.code} was cancelled\n")
    both = ada("wait", world.lab.holder.code, row.code, "--json")
    assert (both.code, [each["state"] for each in both.json]) == (FAILED, ["finished", "cancelled"])
    assert ada("wait", world.lab.holder.code).code == DONE
    assert ada("wait", world.lab.taker.code, "--until", "running").code == DONE


def test_ctrl_c_is_quiet_and_a_reader_that_left_is_no_error(
    ada: Run, process: Callable[..., subprocess.Popen[str]], world: World
) -> None:
    going = process("logs", "-f", world.lab.taker.code)
    assert going.stdout is not None
    assert going.stdout.readline() == "epoch 1: loss 0.42\n"
    going.send_signal(signal.SIGINT)
    assert going.wait(PATIENCE_S) == 130
    assert going.communicate()[1].strip() == ""
    left = process("list", "--everybody", "--json")
    assert left.stdout is not None
    left.stdout.close()
    assert left.wait(PATIENCE_S) in (0, 141)
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
        assert going.wait(PATIENCE_S) == 130


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


def test_following_goes_on_from_one_run_to_the_next(
    as_who: Callable[[str], Run], process: Callable[..., subprocess.Popen[str]], world: World
) -> None:
    as_who("ben")
    row = world.lab.taken
    printed(row.code, "first run\n")
    going = process("logs", "-f", row.code)
    assert going.stdout is not None
    assert going.stderr is not None
    assert going.stdout.readline() == "first run\n"
    assert going.stderr.readline().startswith(f"allot: {row.code} is queued. ")
    # Everything else ends, so that it runs again.
    for other in Workload.objects.filter(state__in=Workload.OPEN_STATES).exclude(pk=row.pk):
        workloads.cancel(workload=other, by=world.lab.max, reason="")
    world.lab.step(ago=-10)
    world.lab.step(ago=-11)
    printed(row.code, "second run\n")
    assert going.stderr.readline() == f"allot: {row.code} runs again (run 2)\n"
    assert going.stdout.readline() == "second run\n"
    going.send_signal(signal.SIGINT)
    assert going.wait(PATIENCE_S) == 130
