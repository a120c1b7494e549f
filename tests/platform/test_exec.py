"""`python -m portal.supervisor exec`: a command with the private databases."""

import subprocess
import sys

from tests.conftest import REPOSITORY
from tests.platform.conftest import Installation, fresh_environment

ASK = """
import django
django.setup()
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("SELECT 7")
    print(*cursor.fetchone())
"""


def lend(installation: Installation, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the databases of that installation."""
    return subprocess.run(
        (sys.executable, "-m", "portal.supervisor", "exec", "--data", str(installation.data), "--", *command),
        check=False,
        capture_output=True,
        text=True,
        env=fresh_environment(),
        cwd=REPOSITORY,
        timeout=60,
    )


def test_databases_are_started_for_as_long_as_the_command_takes(installation: Installation) -> None:
    done = lend(installation, sys.executable, "-c", ASK)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
    assert installation.processes() == {}


def test_the_status_of_the_command_is_passed_on(installation: Installation) -> None:
    assert lend(installation, "sh", "-c", "exit 7").returncode == 7


def test_a_command_that_is_not_there_is_one_line(installation: Installation) -> None:
    done = lend(installation, "no-such-command")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "exec: no-such-command: No such file or directory\n")


def test_those_of_a_running_installation_are_used(installation: Installation) -> None:
    installation.start()
    server = installation.find("postgres", "-D")
    asked = "import os; print(os.environ['DATABASE_URL'])"
    done = lend(installation, sys.executable, "-c", asked)
    assert done.returncode == 0
    assert installation.processes()[server]
    assert lend(installation, sys.executable, "-c", ASK).stdout == "7\n"
    assert installation.stop() == 0


def test_databases_that_the_environment_names_are_used_and_none_is_started(installation: Installation) -> None:
    named = {
        "DATABASE_URL": "postgres://somebody@db.example.org/allotment",
        "REDIS_URL": "redis://broker.example.org/0",
    }
    done = subprocess.run(
        (sys.executable, "-m", "portal.supervisor", "exec", "--data", str(installation.data), "--", "env"),
        check=False,
        capture_output=True,
        text=True,
        env={**fresh_environment(), **named},
        cwd=REPOSITORY,
        timeout=60,
    )
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert {name: seen[name] for name in named} == named
