"""The guide's installation, from a clean clone: its commands, its settings and its units, started without systemd."""

from __future__ import annotations

import configparser
import http.client
import json
import secrets
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection

from tests.conftest import REPOSITORY
from tests.platform.conftest import free_port, fresh_environment, wait_until

pytestmark = pytest.mark.long
TOKEN = secrets.token_urlsafe(32)
SERVICES = ("web", "worker", "ticks", "simulations", "beat")


def unit(clone: Path, service: str) -> configparser.SectionProxy:
    """The [Service] of a unit, as it is shipped."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(clone / "deploy" / "systemd" / f"allotment-{service}.service")
    return parser["Service"]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """/opt/allotment: what git has, with the packages that are here (installing them: test_installation.py)."""
    folder = tmp_path / "opt"
    subprocess.run(["git", "clone", "-q", "--local", str(REPOSITORY), str(folder)], check=True)
    (folder / ".venv").symlink_to(REPOSITORY / ".venv")
    return folder


@pytest.fixture
def empty_database(process_environment: dict[str, str]) -> Iterator[str]:
    """As `createdb` makes it; its address."""
    with connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS clean")
        cursor.execute("CREATE DATABASE clean")
    yield urlsplit(process_environment["DATABASE_URL"])._replace(path="/clean").geturl()
    with connection.cursor() as cursor:
        cursor.execute("DROP DATABASE clean WITH (FORCE)")


@pytest.fixture
def environment(
    clone: Path, empty_database: str, process_environment: dict[str, str], tmp_path: Path
) -> dict[str, str]:
    """What the units give their processes: deploy/portal.env.example, edited as the guide says."""
    lines = (clone / "deploy" / "portal.env.example").read_text().splitlines()
    said = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    for name, value in list(said.items()):
        if value.startswith("/etc/allotment/"):
            path = tmp_path / Path(value).name
            path.write_text(TOKEN if "metrics" in value else secrets.token_urlsafe(48))
            said[name] = str(path)
    said |= {
        "DATABASE_URL": empty_database,
        "REDIS_URL": process_environment["REDIS_URL"],
        "ALLOTMENT_DATA_DIR": str(tmp_path / "data"),
    }
    kept = {name: value for name, value in fresh_environment().items() if name in ("PATH", "HOME", "LANG")}
    return {**kept, **said}


def test_the_installation_of_the_guide_comes_up(clone: Path, environment: dict[str, str], tmp_path: Path) -> None:
    assert subprocess.run(
        ["git", "status", "--porcelain"], check=True, capture_output=True, text=True, cwd=clone
    ).stdout in ("", "?? .venv\n")
    port = free_port()
    python = str(clone / ".venv" / "bin" / "python")
    processes = []

    def start(service: str) -> None:
        said = unit(clone, service)
        own = dict(line.split("=", 1) for line in [said["Environment"]]) if "Environment" in said else {}
        for key in ("ExecStartPre", "ExecStart"):
            if key not in said:
                continue
            words = [word.replace("/opt/allotment/.venv/bin/python", python) for word in shlex.split(said[key])]
            words = [word.replace("127.0.0.1:8000", f"127.0.0.1:{port}") for word in words]
            if key == "ExecStartPre":
                subprocess.run(words, check=True, env={**environment, **own}, cwd=clone, capture_output=True)
                continue
            with (tmp_path / f"{service}.log").open("w") as log:
                processes.append(subprocess.Popen(words, env={**environment, **own}, cwd=clone, stdout=log, stderr=log))

    def ready() -> dict | None:
        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            names = "database,migrations,broker,beat,worker,simulations,passes"
            plain.request("GET", f"/readyz?only={names}", headers={"Authorization": f"Bearer {TOKEN}"})
            return json.loads(plain.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            plain.close()

    try:
        for service in SERVICES:
            start(service)
        works = wait_until(lambda: (ready() or {}).get("ready"), within_s=90)
        assert works, (ready(), [(tmp_path / f"{each}.log").read_text()[-1_500:] for each in SERVICES])
        made = subprocess.run(
            [python, "manage.py", "shell", "--no-imports", "-c", FIRST_CLUSTER],
            check=False, capture_output=True, text=True, env=environment, cwd=clone,
        )  # fmt: skip
        assert (made.returncode, made.stdout) == (0, "north\n"), made.stderr
        assert wait_until(lambda: _has_passes(ready()), within_s=30), ready()
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


def _has_passes(said: dict | None) -> bool:
    checks = (said or {}).get("checks", {})
    return bool(checks) and checks["passes"]["ok"] and "north" in checks["passes"].get("figures", {})


FIRST_CLUSTER = """
from budgets.services import tree
from scheduler.services import clusters
tree.create_root(code="LAB", name="Laboratory")
print(clusters.create(name="north"))
"""
