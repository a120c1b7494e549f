"""A migration is killed in its middle, and two are made at once: the next one ends it; nobody is served meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import psycopg
import pytest

from tests.conftest import REPOSITORY
from tests.faults.conftest import Web, wait_until, web_server

MIGRATE = [sys.executable, "manage.py", "migrate", "--verbosity", "1"]
SAID = "The portal's database is being brought up to date"
ROUNDS = 3


KILLED_AFTER_ITS_COMMIT = """
import os, signal
import django
django.setup()
from django.core.management import call_command
from django.db.backends.postgresql.schema import DatabaseSchemaEditor
leave = DatabaseSchemaEditor.__exit__
def leave_and_die(self, *what):
    leave(self, *what)
    with self.connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('budgets_person')")
        if cursor.fetchone()[0]:
            os.kill(os.getpid(), signal.SIGKILL)
DatabaseSchemaEditor.__exit__ = leave_and_die
call_command("migrate", verbosity=0)
"""


def environment_of(database_url: str) -> dict[str, str]:
    """For a process on that database."""
    return {
        **os.environ,
        "DATABASE_URL": database_url,
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "ALLOTMENT_DEBUG": "true",
        "PYTHONPATH": str(REPOSITORY),
    }


def migrate(environment: dict[str, str]) -> subprocess.Popen[str]:
    """Begin to."""
    return subprocess.Popen(
        MIGRATE, env=environment, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def applied(database_url: str) -> int:
    """How many migrations are in the books."""
    with psycopg.connect(database_url) as connection:
        if connection.execute("SELECT to_regclass('django_migrations')").fetchone() == (None,):
            return 0
        return connection.execute("SELECT count(*) FROM django_migrations").fetchone()[0]


def is_refused(web: Web) -> bool:
    """Whether pages, API and agents are told that the tables are not there yet."""
    page, api, agent = (web.get(path) for path in ("/queue/", "/api/v1/clusters/", "/api/v1/agent/listening"))
    problem = json.loads(api.text)
    return (
        {answer.status for answer in (page, api, agent)} == {503}
        and SAID in page.text.replace("&#x27;", "'")
        and problem["detail"].startswith(SAID)
        and problem["status"] == 503
        and int(page.headers["Retry-After"]) > 0
    )


@pytest.mark.long
def test_a_migration_killed_in_its_middle_is_ended_by_the_next(own_database: str) -> None:
    environment = environment_of(own_database)
    with web_server(environment) as web:
        assert is_refused(web)  # nothing is there
        for number in range(ROUNDS):
            wanted = applied(own_database)
            process = migrate(environment)
            wait_until("a migration", lambda wanted=wanted: applied(own_database) > wanted)
            time.sleep(0.02 * number)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        assert is_refused(web)  # half of it is there
        first, second = migrate(environment), migrate(environment)
        said = [process.communicate(timeout=120)[0] for process in (first, second)]
        assert [first.returncode, second.returncode] == [0, 0], said
        assert sorted("Another migration is under way" in text for text in said) == [False, True]
        assert sorted("No migrations to apply" in text for text in said) == [False, True]
        wait_until("the portal", lambda: web.status_of("/queue/") == 302)  # to the log-in, and without a restart
        assert web.status_of("/login/") == 200
        check = [sys.executable, "manage.py", "migrate", "--check"]
        assert subprocess.run(check, env=environment, cwd=REPOSITORY, check=False).returncode == 0


def test_a_migration_is_in_the_books_once_its_tables_are_there(own_database: str) -> None:
    """Whoever is killed right after a commit has left nothing that is there and not written down."""
    environment = environment_of(own_database)
    command = [sys.executable, "-c", KILLED_AFTER_ITS_COMMIT]
    killed = subprocess.run(command, env=environment, cwd=REPOSITORY, check=False)
    assert killed.returncode == -signal.SIGKILL
    with psycopg.connect(own_database) as connection:
        [(made,)] = connection.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'budgets_person'").fetchall()
        names = {name for (name,) in connection.execute("SELECT name FROM django_migrations WHERE app = 'budgets'")}
    assert made == 1
    assert "0001_initial" in names  # and all others for which the one stands
