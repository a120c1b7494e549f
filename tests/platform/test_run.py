"""`./run` starts, keeps running, stops, and leaves nothing behind. The tests follow one installation's life."""

import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from portal.supervisor.place import is_root
from tests.platform.conftest import GONE_WITHIN_S, Installation, survivors, wait_until

SECOND_START_WITHIN_S = 45
"""Some ten seconds on an idle machine; tests share theirs with others."""
STRANGER_UID = 54321


def owner(pid: int) -> int:
    """The uid that a process runs as."""
    return Path(f"/proc/{pid}").stat().st_uid


def reach_as(uid: int, path: Path) -> str:
    """What somebody of that uid gets on connecting to a unix socket: "connected", or the error's name."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(str(path))
            os.write(writing, b"connected")
        except OSError as error:
            os.write(writing, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(child, 0)
    return text


@pytest.fixture
def running(installation: Installation) -> Installation:
    """The installation, running."""
    if installation.front is None or installation.front.poll() is not None:
        installation.start()
    return installation


def listeners() -> set[tuple[str, int]]:
    """Every address and port that something of this network namespace listens on, as the kernel writes them."""
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return {
        (address, int(port, 16))
        for row in rows
        for local, state in [(row.split()[1], row.split()[3])]
        for address, port in [local.split(":")]
        if state == "0A"
    }


def test_setup_only_ends_when_everything_is_in_place(installation: Installation) -> None:
    done = installation.run("--setup-only")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"Everything is set up in {installation.data}."
    assert installation.processes() == {}
    assert (installation.data / "static" / "staticfiles.json").is_file()


def test_a_second_start_takes_seconds(installation: Installation) -> None:
    assert installation.start() < SECOND_START_WITHIN_S


def test_it_listens_on_the_loopback_address_alone(running: Installation) -> None:
    assert {address for address, port in listeners() if port == running.port} == {"0100007F"}
    assert running.status_of("/login/") is not None


def test_secrets_and_sockets_are_closed_to_others(running: Installation) -> None:
    secrets = sorted(path for path in (running.data / "secrets").iterdir())
    drawn = ["agent_token", "broker_password", "database_password", "sealing_keys", "secret_key"]
    assert [path.name for path in secrets] == drawn
    files = [*secrets, running.data / "running.json"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    sockets = Path(f"/proc/{running.find('postgres', '-D')}/cmdline").read_bytes().split(b"\0")
    folder = Path(sockets[sockets.index(b"-k") + 1].decode())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_passwords_are_on_no_command_line(running: Installation) -> None:
    secrets = [path.read_bytes() for path in (running.data / "secrets").iterdir()]
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in running.processes()]
    assert [line for line in lines for secret in secrets if secret in line] == []


@pytest.mark.skipif(not is_root(), reason="only root can be somebody else")
def test_as_root_the_servers_run_as_somebody_else_whom_a_stranger_cannot_reach(running: Installation) -> None:
    for program in ("postgres", "valkey-server"):
        assert owner(running.find(program)) not in (0, STRANGER_UID)
    line = Path(f"/proc/{running.find('postgres', '-D')}/cmdline").read_bytes().split(b"\0")
    folder = Path(line[line.index(b"-k") + 1].decode())
    for name in (".s.PGSQL.5432", "valkey.sock"):
        assert reach_as(0, folder / name) == "connected"
        assert reach_as(STRANGER_UID, folder / name) == "PermissionError"


def test_a_second_run_in_the_same_folder_is_refused(running: Installation) -> None:
    done = Installation(running.data).run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"run: data folder {running.data} is in use by process {running.front.pid}; choose another with --data\n"
    )


def test_a_port_in_use_is_refused(running: Installation, tmp_path: Path) -> None:
    done = Installation(tmp_path / "data", port=running.port).run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"run: port {running.port}: Address already in use; choose another with --port\n"
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "words", [("gunicorn", "portal.web_server"), ("celery", "beat"), ("valkey-server",), ("postgres", "-D")]
)
def test_what_is_killed_is_started_again(running: Installation, words: tuple[str, ...]) -> None:
    victim = running.find(*words)
    os.kill(victim, signal.SIGKILL)
    assert wait_until(lambda: victim not in running.processes(), within_s=5)
    assert wait_until(lambda: any_process(running, words), within_s=10)
    assert wait_until(lambda: running.status_of("/login/") is not None, within_s=20)
    assert "starting it again in" in running.output()


def any_process(running: Installation, words: tuple[str, ...]) -> bool:
    """Whether there is such a process now."""
    try:
        return bool(running.find(*words))
    except AssertionError:
        return False


def test_ctrl_c_stops_everything_and_the_data_stay(running: Installation) -> None:
    before = running.processes()
    assert running.stop() == 0
    assert survivors(before) == {}
    assert "Traceback" not in running.output()
    assert not (running.data / "running.json").exists()


@pytest.mark.parametrize("who", ["front", "keeper", "both"])
def test_kill_9_leaves_no_process_behind(running: Installation, who: str) -> None:
    front = running.front.pid
    keeper = keeper_of(running)
    before = running.processes()
    assert len(before) >= 10
    for pid in {"front": [front], "keeper": [keeper], "both": [front, keeper]}[who]:
        os.kill(pid, signal.SIGKILL)
    running.front.wait(GONE_WITHIN_S)
    assert wait_until(lambda: not survivors(before), within_s=GONE_WITHIN_S), survivors(before)
    assert wait_until(lambda: not running.processes(), within_s=GONE_WITHIN_S), running.processes()  # just forked then


def keeper_of(running: Installation) -> int:
    """The front's only child."""
    children = Path(f"/proc/{running.front.pid}/task/{running.front.pid}/children").read_text().split()
    assert len(children) == 1
    return int(children[0])


def test_after_a_kill_it_starts_again(installation: Installation) -> None:
    installation.start()
    assert installation.status_of("/login/") is not None
    assert installation.stop() == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--port", "0"), "run: argument --port: '0' is not a port; use a whole number from 1 to 65535"),
        (("--port", "many"), "run: argument --port: 'many' is not a port; use a whole number from 1 to 65535"),
        (("--colour",), "run: unrecognized arguments: --colour"),
        (("--data", "/dev/null/here"), "run: data folder /dev/null/here: Not a directory"),
    ],
)
def test_a_bad_option_is_one_line_and_status_2(installation: Installation, options: tuple[str, ...], said: str) -> None:
    done = installation.run(*options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(said)
