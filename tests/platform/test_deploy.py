"""What deploy/ holds: systemd reads the units, what they start is there, and Django finds its settings safe."""

from __future__ import annotations

import configparser
import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.executors.agent_config import read_config
from tests.conftest import REPOSITORY

UNITS = sorted((REPOSITORY / "deploy" / "systemd").glob("*.service"))


def started_by(unit: Path) -> list[str]:
    """The words of its ExecStart."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(unit)
    return parser["Service"]["ExecStart"].split()


def test_there_is_a_unit_for_each_service_and_the_agent() -> None:
    found = [unit.stem.removeprefix("allotment-") for unit in UNITS]
    assert found == ["agent", "beat", "simulations", "slurm", "ticks", "web", "worker"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_what_a_unit_starts_answers_to_its_name(unit: Path) -> None:
    words = started_by(unit)
    module = words[words.index("-m") + 1]
    done = subprocess.run(
        [REPOSITORY / ".venv/bin/python", "-c", f"import importlib.util as u; exit(u.find_spec({module!r}) is None)"],
        check=False,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_nothing_wrong_with_a_unit(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    text = unit.read_text().replace("/opt/allotment/.venv/bin/python", "/usr/bin/env")
    (tmp_path / unit.name).write_text(text.replace("/usr/bin/python3", "/usr/bin/env"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)],
        check=False,
        capture_output=True,
        text=True,
    )
    known = ("DelegateSubgroup", "postgresql.service", "allotment-web.service")  # younger than this systemd; elsewhere
    assert [line for line in done.stderr.splitlines() if unit.name in line and not any(k in line for k in known)] == []


def shipped_settings(folder: Path) -> dict[str, str]:
    """deploy/portal.env.example as it is shipped, its secrets in a folder of the test's."""
    lines = (REPOSITORY / "deploy" / "portal.env.example").read_text().splitlines()
    said = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    for name, value in said.items():
        if value.startswith("/etc/allotment/"):
            path = folder / Path(value).name
            path.write_text(f"{secrets.token_urlsafe(48)}\n")
            said[name] = str(path)
    return said


def test_django_finds_nothing_wrong_with_the_production_settings(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], **shipped_settings(tmp_path)}
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        check=False, capture_output=True, text=True, env=environment, cwd=REPOSITORY,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (
        0, "System check identified no issues (1 silenced).\n",
    )  # fmt: skip


def test_what_is_silenced_has_a_reason_beside_it() -> None:
    lines = (REPOSITORY / "portal" / "settings.py").read_text().splitlines()
    (line,) = [each for each in lines if "SILENCED_SYSTEM_CHECKS" in each]
    assert line.startswith('SILENCED_SYSTEM_CHECKS = ["security.W021"]  # ')


def test_every_shipped_setting_is_documented(tmp_path: Path) -> None:
    documented = (REPOSITORY / "docs" / "settings.md").read_text()
    names = {name.removesuffix("_FILE") for name in shipped_settings(tmp_path)}
    assert [name for name in sorted(names) if f"`{name}`" not in documented] == []


def test_the_guides_example_of_an_agents_file_is_one(tmp_path: Path) -> None:
    guide = (REPOSITORY / "docs" / "operator.md").read_text()
    example = guide.split("```json\n")[1].split("```")[0]
    said = json.loads(example) | {"gpus": 0}  # the machine of the test has none
    (tmp_path / "agent.json").write_text(json.dumps(said))
    assert read_config(["--config", str(tmp_path / "agent.json")]).portal == "https://allotment.example.org"
