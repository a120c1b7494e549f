"""What tests of faults share: the worlds of other tests, web servers as they are run, databases of their own."""

from __future__ import annotations

import http.client
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings

from tests.conftest import environment_of_processes
from tests.executors.conftest import owners, site  # noqa: F401
from tests.platform.conftest import free_port
from tests.portal.conftest import as_person, calm, lab  # noqa: F401
from tests.processes import running
from tests.scheduler.conftest import make_world, person  # noqa: F401

PATIENCE_S = 60


def wait_until(what: str, holds: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait for something to become true."""
    until_s = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < until_s, f"waited {patience_s} s for {what}"
        time.sleep(0.05)


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    status: int
    headers: dict[str, str]
    text: str


@dataclass(frozen=True)
class Web:
    """The portal's web server, as it is run, and somebody who is signed in."""

    port: int

    def get(self, path: str, cookie: str = "", timeout_s: float = 20) -> Answer | None:
        """What it answers; None where it does not."""
        return self.ask("GET", path, cookie=cookie, timeout_s=timeout_s)

    def ask(
        self, method: str, path: str, body: bytes = b"", timeout_s: float = 20, cookie: str = "", **headers: str
    ) -> Answer | None:
        """What it answers; None where it does not."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {"Cookie": cookie} if cookie else {}
        try:
            connection.request(method, path, body=body or None, headers=named)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read().decode(errors="replace"))
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def status_of(self, path: str) -> int:
        """0 where it does not answer."""
        answer = self.get(path)
        return 0 if answer is None else answer.status


@contextmanager
def web_server(environment: dict[str, str], log: str = "/dev/null") -> Iterator[Web]:
    """gunicorn with the portal's own settings."""
    web = Web(free_port())
    argv = [sys.executable, "-m", "gunicorn", "--config", "python:portal.web_server", "--bind", f"127.0.0.1:{web.port}"]
    with running(argv, environment | {"ALLOTMENT_URL": f"http://127.0.0.1:{web.port}"}, log):
        wait_until("the web server", lambda: web.status_of("/login/"))
        yield web


@pytest.fixture(scope="module")
def web(django_db_setup: None) -> Iterator[Web]:
    """The web server on the tests' database."""
    with web_server(environment_of_processes()) as started:
        yield started


@pytest.fixture
def own_database(private_servers: None) -> Iterator[str]:
    """The address of an empty database beside that of the tests."""
    url = urlsplit(os.environ["DATABASE_URL"])
    name = f"faults_{os.getpid()}"

    def administer(statement: str) -> None:
        options = settings.DATABASES["default"]
        with psycopg.connect(
            host=options["HOST"],
            port=options["PORT"] or None,
            user=options["USER"],
            password=options["PASSWORD"],
            dbname="postgres",
            autocommit=True,
        ) as connection:
            connection.execute(statement)

    administer(f"CREATE DATABASE {name}")
    try:
        yield url._replace(path=f"/{name}").geturl()
    finally:
        administer(f"DROP DATABASE {name} WITH (FORCE)")
