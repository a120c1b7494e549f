"""Log lines: each says whose it is, is one line whatever names hold, and tells no secret."""

from __future__ import annotations

import io
import json
import logging
import logging.config
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest
import structlog
from django.http import HttpResponse
from django.test import Client, RequestFactory
from structlog.contextvars import bound_contextvars

from portal import logs
from portal.logs_requests import RequestLog
from portal.settings_operations import logging_settings
from scheduler.loop import run_pass
from scheduler.models import Pass
from tests.conftest import REPOSITORY
from tests.platform.conftest import wait_until
from tests.portal.conftest import Laboratory

ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
log = structlog.get_logger("tests.logs")


class Lines(io.StringIO):
    """What was written."""

    def lines(self) -> list[str]:
        """Line by line."""
        return self.getvalue().splitlines()

    def said(self) -> list[dict]:
        """As JSON."""
        return [json.loads(line) for line in self.lines()]


@pytest.fixture
def write(settings) -> Iterator[Callable[..., Lines]]:
    """`write(as_json=True)` sends the log there, as the settings would."""
    kept: list[logging.Handler] = []

    def begin(*, as_json: bool = True, level: str = "DEBUG") -> Lines:
        lines = Lines()
        made = deepcopy(logging_settings(level, as_json=as_json))
        formatter = logging.config.DictConfigurator(made)  # type: ignore[attr-defined]
        handler = logging.StreamHandler(lines)
        handler.setFormatter(formatter.configure_formatter(made["formatters"]["lines"]))
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(level)
        kept.append(handler)
        return lines

    before = logging.getLogger().level
    yield begin
    logging.getLogger().setLevel(before)
    for handler in kept:
        logging.getLogger().removeHandler(handler)


# --- whose a line is --------------------------------------------------------------------------------------------------


@pytest.fixture
def calm(db: None) -> Laboratory:
    """The laboratory before anybody has submitted anything."""
    return Laboratory()


def test_every_line_of_a_request_says_whose_it_is(calm, write, monkeypatch):
    from portal.views import queue

    client = Client()
    client.force_login(calm.ada, backend="django.contrib.auth.backends.ModelBackend")
    lines = write()
    seen = queue.Queue.get

    def tells(self, request, **kwargs):
        log.info("inside")
        logging.getLogger("elsewhere").warning("of a %s", "library")
        return seen(self, request, **kwargs)

    monkeypatch.setattr(queue.Queue, "get", tells)
    answer = client.get("/queue/north/", headers={"X-Request-ID": ID})
    assert answer.headers["X-Request-ID"] == ID
    said = [line for line in lines.said() if line["event"] in ("inside", "of a library", "request")]
    assert [line["event"] for line in said] == ["inside", "of a library", "request"]
    for line in said:
        assert (line["request_id"], line["person"], line["route"]) == (ID, calm.ada.pk, "queue/<slug:cluster>/")
    last = said[-1]
    assert (last["method"], last["path"], last["status"], last["client"]) == ("GET", "/queue/north/", 200, "127.0.0.1")
    assert 0 < last["ms"] < 60_000
    log.info("after")
    assert "request_id" not in lines.said()[-1]


@pytest.mark.parametrize(
    "given", ["", "short", "x" * 65, "with space in it", "new\nline-and-more", "ü" * 12, "-begins-odd"]
)
def test_an_id_that_is_none_is_replaced(db, given):
    factory = RequestFactory()
    request = factory.get("/healthz", headers={"X-Request-ID": given})
    answer = RequestLog(lambda _request: HttpResponse("x"))(request)
    assert uuid.UUID(answer.headers["X-Request-ID"])


def test_a_token_of_the_api_says_who_it_was(calm, write):
    from budgets.services import tokens

    _, shown = tokens.create(person=calm.ada, name="t", scopes=["read"], days=1)
    lines = write()
    assert Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {shown}"}).status_code == 200
    (line,) = [each for each in lines.said() if each["event"] == "request"]
    assert line["person"] == calm.ada.pk
    assert shown not in lines.getvalue()


def test_what_is_asked_all_the_time_is_quiet_and_trouble_is_loud(db, write, monkeypatch):
    from portal import health_checks

    lines = write()
    Client().get("/healthz")
    monkeypatch.setitem(health_checks.ALL, "database", lambda _now: health_checks.Found(False, "away"))
    health_checks._kept.clear()
    Client().get("/readyz?only=database")
    health_checks._kept.clear()
    Client().get("/nothing/")
    levels = {line["path"]: line["level"] for line in lines.said() if line["event"] == "request"}
    assert levels == {"/healthz": "debug", "/readyz": "warning", "/nothing/": "info"}


def test_every_line_of_a_pass_names_the_cluster_and_the_pass(transactional_db, write, monkeypatch):
    from scheduler import loop

    lab = Laboratory()
    lines = write()
    decide = loop.decide

    def tells(snapshot, policy):
        log.info("deciding")
        return decide(snapshot, policy)

    monkeypatch.setattr(loop, "decide", tells)
    first, second = (run_pass(lab.cluster.pk).stored.pk for _ in range(2))
    assert list(Pass.objects.order_by("pk").values_list("pk", flat=True)) == [first, second]
    ours = [line for line in lines.said() if line["event"] in ("deciding", "pass")]
    said = [(line["event"], line["cluster"], line["pass_id"]) for line in ours]
    assert said == [(event, "north", number) for number in (first, second) for event in ("deciding", "pass")]


# --- one line, and no secret ------------------------------------------------------------------------------------------

FORGED = "A1\n2026-01-01T00:00:00Z [info     ] request person=1 status=200\r\x1b[2K\u2028\u202egnp"


@pytest.mark.parametrize("as_json", [True, False])
def test_nobody_forges_a_line(write, as_json):
    lines = write(as_json=as_json)
    log.info("submitted", name=FORGED, more={"deep": [FORGED]})
    log.warning(FORGED)
    logging.getLogger("elsewhere").info("Not Found: %s", FORGED)
    assert len(lines.lines()) == 3
    assert lines.getvalue().count("\n") == 3
    assert not any(bad in lines.getvalue() for bad in ("\r", "\x1b", "\u2028", "\u202e"))


@pytest.mark.parametrize("as_json", [True, False])
def test_an_exception_cannot_begin_a_line(write, as_json):
    lines = write(as_json=as_json)
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("broke")
        logging.getLogger("elsewhere").exception("broke too")
    first, *others = lines.lines()
    if as_json:
        assert len(others) == 1
        assert "ValueError: A1" in lines.said()[0]["exception"]
    else:
        assert "broke" in first
        assert all(line.startswith("  | ") or "broke too" in line for line in others)


SECRETS = ("allot_live_kK3x91mZq", "s3cr3t-pass", "Zm9vOmJhcg==", "hunter22", "abcdef-token")


@pytest.mark.parametrize("as_json", [True, False])
def test_no_line_tells_a_secret(write, as_json):
    lines = write(as_json=as_json)
    log.info(
        "a", token=SECRETS[4], password="hunter22", api_key="hunter22", headers={"Authorization": "Basic Zm9vOmJhcg=="}
    )
    log.info("b", url="redis://:s3cr3t-pass@10.0.0.1:6379/0", text=f"shown {SECRETS[0]} by a program")
    logging.getLogger("elsewhere").warning("GET /x?token=%s failed for Bearer %s", SECRETS[4], "Zm9vOmJhcg==")
    try:
        raise ConnectionError("postgres://allotment:s3cr3t-pass@db.example.org/allotment is away; password='hunter22'")
    except ConnectionError:
        log.exception("broke")
    assert [secret for secret in SECRETS if secret in lines.getvalue()] == []
    assert lines.getvalue().count("[hidden]") >= 9
    assert "db.example.org/allotment is away" in lines.getvalue()


def test_what_only_sounds_like_a_secret_is_shown(write):
    lines = write()
    shown = {"tokens": 5, "secret_count": 2, "cookies_need_https": True, "key": "request:7", "join_token_id": 4}
    log.info("x", **shown)
    (line,) = lines.said()
    assert {name: line[name] for name in shown} == shown


def test_a_value_without_end_is_cut(write):
    lines = write()
    log.info("x", text="y" * 100_000)
    assert len(lines.lines()[0]) < logs.LONGEST + 500


# --- tasks ------------------------------------------------------------------------------------------------------------

WORKER = (
    *("celery", "-A", "portal.celery", "worker", "--loglevel", "DEBUG", "--concurrency", "1"),
    *("--without-gossip", "--without-mingle"),
)


@pytest.mark.long
def test_a_task_carries_the_id_of_the_request_that_caused_it(process_environment, tmp_path):
    lab = Laboratory()
    output = tmp_path / "worker.log"
    environment = {**process_environment, "ALLOTMENT_LOG_JSON": "true", "ALLOTMENT_LOG_LEVEL": "DEBUG"}
    with output.open("w") as file:
        worker = subprocess.Popen(
            [sys.executable, "-m", *WORKER], env=environment, stdout=file, stderr=file, cwd=REPOSITORY
        )
    try:
        request = RequestFactory().get("/", headers={"X-Request-ID": ID})

        def said() -> list[dict]:
            lines = [json.loads(line) for line in output.read_text().splitlines() if line.startswith("{")]
            passes = [line for line in lines if line.get("task") == "scheduler.tasks.look_at" and "pass_id" in line]
            return [line for line in passes if "request_id" in line]  # a submission of the test's own has none

        def ask() -> bool:
            RequestLog(lambda _request: HttpResponse(lab.submit("A1", 1, owner=lab.ada).code))(request)
            time.sleep(1)
            return bool(said())

        assert wait_until(ask, within_s=60), output.read_text()[-3_000:]
        assert {line["request_id"] for line in said()} == {ID}
        assert all(line["task_id"] and line["cluster"] == "north" for line in said())
    finally:
        worker.terminate()
        worker.wait(20)


def test_what_a_task_was_bound_to_is_gone_after_it():
    from celery import Celery
    from celery.signals import task_postrun, task_prerun

    app = Celery("x", set_as_current=False)

    def nothing() -> None:
        """Do it."""

    task = app.task(nothing, name="x.y")
    with bound_contextvars(left="over"):
        task.push_request(id="1", headers={"request_id": ID})
        task_prerun.send(sender=task, task_id="1", task=task)
        assert structlog.contextvars.get_contextvars() == {"task": "x.y", "task_id": "1", "request_id": ID}
        assert logs.request_id() == ID
        task_postrun.send(sender=task, task_id="1", task=task, state="SUCCESS")
        assert structlog.contextvars.get_contextvars() == {}
        task.pop_request()
