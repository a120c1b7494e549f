"""One laboratory with work in every state behind a live server for each file, and `allot` as each of its people."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from allot import client
from allot.failures import DONE
from allot.main import main
from django.core.management import call_command
from django.db import connections
from pytest_django.live_server_helper import LiveServer
from pytest_django.plugin import DjangoDbBlocker

from budgets.models import Person
from budgets.services import tokens
from scheduler.models import Workload
from tests.conftest import REPOSITORY
from tests.portal.conftest import Laboratory, busy

CLI = REPOSITORY / "cli"
PATIENCE_S = 60
SUBMIT = ("submit", "-g", "2", "--min-runtime", "30m")
SCOPES = ("read", "submit", "operate", "decide")


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed for programs."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The words of each line."""
        return [line.split() for line in self.out.splitlines()]


class World:
    """The laboratory behind a live server, and a token of each of its people."""

    def __init__(self, lab: Laboratory, url: str) -> None:
        self.lab, self.url = lab, url
        self.tokens = {
            name: tokens.create(person=getattr(lab, name), name="laptop", scopes=SCOPES, days=7)[1]
            for name in ("ada", "ben", "mia", "max", "ops", "nil")
        }

    def token_of(self, person: Person, *scopes: str) -> str:
        """One more token."""
        return tokens.create(person=person, name="another", scopes=scopes or SCOPES, days=7)[1]


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    """One for all tests of a file, marked `django_db`: each looks at its own workloads, or at what nobody changes."""
    with django_db_blocker.unblock():
        server = LiveServer("localhost")
        server._live_server_modified_settings.enable()
        try:
            yield World(busy(), f"http://127.0.0.1:{server.thread.port}")
        finally:
            server._live_server_modified_settings.disable()
            server.stop()
            for connection in connections.all():
                connection.close()
            call_command("flush", verbosity=0, interactive=False, allow_cascade=False)


@pytest.fixture
def _django_db_helper(world: World) -> None:
    """In place of pytest-django's: tests marked `django_db` see what the server sees, and nothing is taken back."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's empty home: no portal is known in it, nor in the environment."""
    for name in [*os.environ]:
        if name.startswith(("ALLOT_", "XDG_", "_ALLOT")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in {"HOME": tmp_path, "COLUMNS": 120, "TZ": "UTC", "NO_COLOR": 1}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(client, "WAITS_S", (0.02, 0.05, 0.1))
    return tmp_path


Run = Callable[..., Done]


@pytest.fixture
def run(home: Path) -> Run:
    """`run("queue", "--json", stdin="")` is one `allot` of whoever the environment says, in this process."""

    def one(*arguments: str, stdin: str = "") -> Done:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        before = sys.stdin
        sys.stdin = io.StringIO(stdin)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(arguments)
        finally:
            sys.stdin = before
        return Done(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]

    return one


@pytest.fixture
def as_who(world: World, run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Run]:
    """`as_who("ada")` gives `run` with her token in the environment."""

    def sign_in(name: str) -> Run:
        monkeypatch.setenv("ALLOT_URL", world.url)
        monkeypatch.setenv("ALLOT_TOKEN", world.tokens[name])
        return run

    return sign_in


@pytest.fixture
def ada(as_who: Callable[[str], Run]) -> Run:
    """Ada, a member of A1."""
    return as_who("ada")


@pytest.fixture
def process(home: Path) -> Callable[..., subprocess.Popen[str]]:
    """`process("logs", "-f", "A1-0001")` is an `allot` of its own, with the environment of the test."""

    def start(*arguments: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "allot", *arguments],
            env={**os.environ, "PYTHONPATH": str(CLI)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            **more,
        )

    return start


def newest() -> Workload:
    """What was submitted last."""
    return Workload.objects.order_by("-pk")[0]


def submitted(run: Run, *more: str) -> Workload:
    """A workload of hers, as the command line submits it."""
    done = run(*SUBMIT, *more, "--", "python", "train.py")
    assert (done.code, done.err) == (DONE, "")
    return newest()
