"""The settings: from the environment, and from none at all."""

import subprocess
import sys

import pytest
from django.db import connection

from tests.conftest import REPOSITORY


def manage(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run manage.py with that environment and nothing else."""
    return subprocess.run(
        (sys.executable, str(REPOSITORY / "manage.py"), *arguments),
        check=False,
        capture_output=True,
        text=True,
        env=environment or {},
        timeout=60,
    )


def test_a_command_that_needs_no_database_runs_with_no_environment() -> None:
    done = manage("check")
    assert (done.returncode, done.stderr) == (0, "System check identified no issues (0 silenced).\n") or (
        done.returncode,
        done.stdout,
    ) == (0, "System check identified no issues (0 silenced).\n")


def test_a_command_that_needs_a_database_says_so_in_one_line() -> None:
    done = manage("showmigrations")
    assert done.returncode == 2
    assert done.stderr.startswith("manage.py: this needs a database: set DATABASE_URL")
    assert done.stderr.count("\n") == 1


@pytest.mark.django_db
def test_the_test_database_is_postgresql() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database(), inet_server_addr() IS NULL")
        assert cursor.fetchone() == ("test_allotment", True)
