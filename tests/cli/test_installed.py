"""`pip install ./cli` gives a program that needs nothing of the portal, and shells that complete it."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
from allot import __version__, main

from tests.cli.conftest import CLI

OLDEST = (3, 9)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment in which only `./cli`, and what it needs, is installed."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(CLI, folder / "cli", ignore=shutil.ignore_patterns("__pycache__"))
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    # Without a network: what builds it and what it needs are those that are here.
    pip, alone = (sys.executable, "-m", "pip", "--disable-pip-version-check"), ("--quiet", "--no-index", "--no-deps")
    run(*pip, "wheel", *alone, "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    [wheel] = folder.glob("allot-*.whl")
    run(*pip, "--python", str(python), "install", *alone, str(wheel))
    here = Path(sysconfig.get_path("purelib"))
    [there] = (folder / "venv" / "lib").glob("python*/site-packages")
    shutil.copytree(here / "click", there / "click")
    return folder / "venv" / "bin"


def run(*argv: str) -> None:
    """A program that has to succeed."""
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_console_script_runs_alone(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [installed / "allot", "--version"], check=True, capture_output=True, text=True, cwd=tmp_path, env={}
    )
    assert done.stdout == f"allot {__version__}\n"
    helped = subprocess.run([installed / "allot"], check=True, capture_output=True, text=True, cwd=tmp_path, env={})
    assert helped.stdout.startswith("Usage: allot [OPTIONS] [COMMAND] [ARGS]...")
    asked = subprocess.run(
        [installed / "allot", "queue"], check=False, capture_output=True, text=True, env={"HOME": str(tmp_path)}
    )
    assert (asked.returncode, asked.stderr.count("\n")) == (4, 1)


def test_the_package_says_what_it_needs_and_no_more() -> None:
    said = tomllib.loads((CLI / "pyproject.toml").read_text())["project"]
    assert [re.match(r"\w+", each)[0] for each in said["dependencies"]] == ["click"]  # type: ignore[index]
    imported = {
        name.split(".")[0]
        for path in CLI.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported - set(sys.stdlib_module_names) == {"allot", "click"}


def test_it_is_written_for_the_oldest_python_that_it_promises() -> None:
    said = tomllib.loads((CLI / "pyproject.toml").read_text())["project"]["requires-python"]
    assert said == f">={'.'.join(map(str, OLDEST))}"
    for path in CLI.rglob("*.py"):
        ast.parse(path.read_text(), feature_version=OLDEST)


def test_its_types_hold() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", "/dev/null", "--python-version", "3.10"),
            *("--check-untyped-defs", "--disallow-untyped-defs", "--warn-unused-ignores", str(CLI / "allot")),
        ],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(CLI)},
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_given_what_completes_it(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_ALLOT_COMPLETE={shell}_complete" in script
    program = shutil.which(shell)
    if program is not None and shell != "fish":
        subprocess.run([program, "-n"], input=script, check=True, text=True)


def test_bash_completes_commands_and_options(installed: Path, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("NO bash here")
    script = (
        'eval "$(allot completion bash)"; COMP_WORDS=(allot "$1" "$2"); COMP_CWORD=$3; '
        '_allot_completion allot; printf "%s\\n" "${COMPREPLY[@]}"'
    )

    def offered(*words: str) -> list[str]:
        done = subprocess.run(
            [bash, "-c", script, "bash", *words],
            check=True,
            capture_output=True,
            text=True,
            env={"PATH": f"{installed}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        )
        return done.stdout.split()

    assert offered("wh", "", "1") == ["whoami", "why"]
    assert offered("completion", "", "2") == ["bash", "zsh", "fish"]
    assert "--min-runtime" in offered("submit", "--mi", "2")
    # Nobody is signed in: a tab offers nothing, and says nothing.
    assert offered("why", "A1", "2") == []
