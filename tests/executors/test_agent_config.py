"""What an agent is told: from a file and a command line, and one line where something is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.executors.agent_config import Config, copy_programs, read_config
from tests.conftest import REPOSITORY

GOOD = {"portal": "http://127.0.0.1:9", "cluster": "bench", "node": "n1", "state": "/nowhere/n1"}


def run_agent(*argv: str) -> tuple[int, str]:
    """The agent, which must refuse: its status and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "scheduler.executors.agent", *argv],
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
        cwd=REPOSITORY,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "n1.json"
    path.write_text(json.dumps({**GOOD, "gpus": 4, "pretend": True, "heartbeat_s": 2}))
    assert read_config(["--config", str(path), "--gpus", "8", "--tie"]) == Config(
        **GOOD, gpus=8, pretend=True, heartbeat_s=2, tie=True
    )


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ({"portal": None}, "portal: is missing"),
        ({"portal": "ftp://x"}, "portal: 'ftp://x' is not an address such as https://allotment.example.org"),
        ({"gpus": -2}, "gpus: -2 is not -1 to 4096"),
        ({"memory_limit": "none"}, "memory_limit: 'none' is not auto or rlimit"),
        ({"wake_address": "here"}, "wake_address: 'here' is no address of this machine"),
        ({"health_command": "check"}, "{path}: health_command: is not a list of texts"),
        ({"gpus": 1}, "gpus: there is no /dev/nvidia0; --pretend invents them"),
        ({"gpus": 1, "cores": 1}, "cores: a node offers GPUs or cores, not both"),
        ({"heartbeat_s": 0}, "heartbeat_s: 0 is not 1 to 3600"),
        ({"uids": "0-100"}, "uids: '0-100' is not FIRST-LAST from 1000 on, without 65534"),
        ({"uids": "60000-70000"}, "uids: '60000-70000' is not FIRST-LAST from 1000 on, without 65534"),
        ({"uids": "many"}, "uids: 'many' is not FIRST-LAST from 1000 on, without 65534"),
        ({"colour": "blue"}, "{path}: colour: is not a known field"),
        ({"gpus": "4"}, "{path}: gpus: is not a whole number"),
    ],
)
def test_a_bad_file_is_one_line_and_status_2(tmp_path: Path, said: dict[str, object], line: str) -> None:
    path = tmp_path / "n1.json"
    content = {**GOOD, "state": str(tmp_path / "n1"), **said}
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))
    assert run_agent("--config", str(path)) == (2, f"agent: {line.format(path=path)}\n")
    assert not (tmp_path / "n1").exists()


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--gpus", "many"], "argument --gpus: invalid int value: 'many'"),
        (["--colour", "blue"], "unrecognized arguments: --colour blue"),
        (["--config", "/no/such/file"], "/no/such/file: is missing, or no JSON"),
        (["--config", "/"], "/: Is a directory"),
    ],
)
def test_a_bad_option_is_one_line_and_status_2(argv: list[str], line: str) -> None:
    assert run_agent(*argv) == (2, f"agent: {line}\n")


def test_a_state_folder_that_cannot_be_is_named() -> None:
    options = [word for name, value in GOOD.items() for word in (f"--{name}", value)]
    assert run_agent(*options, "--state", "/dev/null/n1") == (2, "agent: /dev/null/n1: Not a directory\n")


def test_programs_are_copied_to_run_by_name_wherever_python_lies(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "say_hello.py").write_text("#!/no/such/python\nimport sys\nprint('hello', *sys.argv[1:])\n")
    (source / "__init__.py").write_text("")
    copy_programs(source, target)
    assert [path.name for path in target.iterdir()] == ["say-hello"]
    done = subprocess.run([target / "say-hello", "you"], check=True, capture_output=True, text=True)
    assert done.stdout == "hello you\n"
