"""`/healthz` and `/readyz`: a word for strangers, details for operators, and right about what is broken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from budgets.models import Cluster
from portal import health_checks, health_signs, outages
from portal.health_checks import ALL, CHECKS, look
from scheduler.engine import CellCounts
from scheduler.models import Node, Pass, SlurmLink
from scheduler.services import cells, policies
from tests.portal.conftest import Laboratory

STRANGER = {"REMOTE_ADDR": "203.0.113.9"}


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """Nothing that was found before is found again; no sign of life was given."""
    health_checks._kept.clear()
    health_signs._last.clear()
    yield
    health_checks._kept.clear()


@pytest.fixture
def calm(transactional_db: None) -> Laboratory:
    """The laboratory before anybody has submitted anything."""
    return Laboratory()


@pytest.fixture
def alive(calm: Laboratory) -> Laboratory:
    """Everything works: the clock beats, the worker ticks, the cluster has its passes."""
    calm.step()
    for service in health_signs.SERVICES:
        health_signs.give(service)
    return calm


def as_somebody(person) -> Client:
    client = Client(**STRANGER)
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    return client


def wrong(names=tuple(CHECKS), now: datetime | None = None) -> dict[str, str]:
    """What is not well, in words."""
    health_checks._kept.clear()
    return {name: each.words for name, each in look(names, now).found.items() if not each.is_well}


# --- who is told what -------------------------------------------------------------------------------------------------


def test_a_stranger_is_told_a_word(alive):
    stranger = Client(**STRANGER)
    assert (stranger.get("/healthz").content, stranger.get("/readyz").content) == (b"alive\n", b"ready\n")
    Pass.objects.update(at=timezone.now() - timedelta(hours=1))
    health_checks._kept.clear()
    answer = stranger.get("/readyz")
    assert (answer.status_code, answer.content) == (503, b"not ready\n")
    assert (answer.headers["Content-Type"], "no-store" in answer.headers["Cache-Control"]) == ("text/plain", True)
    for person in (alive.ada, alive.max):
        assert as_somebody(person).get("/readyz").content == b"not ready\n"


def test_operators_and_scrapers_are_told_everything(alive, settings):
    settings.METRICS_NETWORKS, settings.METRICS_TOKEN = [], "a-token-that-nobody-guesses"
    shown = Client(**STRANGER).get("/readyz", headers={"Authorization": f"Bearer {settings.METRICS_TOKEN}"}).json()
    assert shown["ready"] is True
    assert {name: each["ok"] for name, each in shown["checks"].items()} == dict.fromkeys(CHECKS, True)
    assert shown["checks"]["passes"]["figures"]["north"]["limit_s"] == 60
    assert shown["checks"]["database"]["figures"]["answered_in_ms"] > 0
    by_operator = as_somebody(alive.ops).get("/readyz?only=beat,ticks,worker,simulations").json()
    assert list(by_operator["checks"]) == ["beat", "ticks", "worker", "simulations"]


def test_a_part_can_be_asked_for_and_nothing_else(alive):
    Pass.objects.update(at=timezone.now() - timedelta(hours=1))
    assert Client().get("/readyz?only=database,migrations").status_code == 200
    assert Client().get("/readyz").status_code == 503
    assert Client().get("/readyz?only=secrets").status_code == 400
    assert Client().post("/readyz").status_code == 405


def test_probes_come_by_any_address(db):
    assert Client().get("/healthz", headers={"Host": "10.0.0.7:8000"}).status_code == 200


def test_probes_are_answered_while_pages_are_not(alive, monkeypatch):
    monkeypatch.setattr(outages.watch, "trouble", lambda: outages.Trouble.AWAY)
    assert Client().get("/login/").status_code == 503
    assert Client().get("/healthz").content == b"alive\n"
    assert Client(**STRANGER).get("/readyz").content == b"ready\n"
    assert Client().get("/readyz").json()["ready"] is True
    assert b"allotment_scrape_success" in Client().get("/metrics").content
    assert as_somebody(alive.ops).get("/readyz").status_code == 503  # who an operator is cannot be asked


def test_being_alive_asks_nothing(db, django_assert_num_queries, settings):
    settings.REDIS_URL = "unix:///not/there.sock?db=0"
    with django_assert_num_queries(0):
        assert Client().get("/healthz").status_code == 200


# --- what is found ----------------------------------------------------------------------------------------------------


def test_all_is_well_where_all_is(alive):
    assert wrong(tuple(ALL)) == {}


def test_each_sign_of_life_that_is_missing_or_old_is_named(calm):
    client = health_signs.broker()
    client.delete(health_signs.KEY)
    calm.step()
    assert set(wrong(tuple(ALL))) == {"beat", "ticks", "worker", "simulations"}
    cells.set_cells(node=calm.node["A"], cluster=calm.cluster, cells=CellCounts(node=2), by=None, reason="as agreed")
    assert wrong(["cells"]) == {}
    Node.objects.filter(pk=Node.objects.order_by("name").first().pk).update(health="down")
    said = "north: 1 whole node of what is granted to A can't be had today: nodes are unfit"
    assert wrong(["cells"]) == {"cells": said}
    health_signs.give(health_signs.BEAT)
    health_signs.give(health_signs.TICKS)
    client.hset(health_signs.KEY, health_signs.WORKER, f"{time.time() - 100:.3f}")
    found = wrong()
    assert set(found) == {"worker"}
    assert found["worker"].startswith("its last sign of life was 100.")


def test_a_broker_that_is_away_takes_its_signs_along(alive, settings):
    settings.REDIS_URL = "unix:///not/there.sock?db=0"
    found = wrong()
    assert set(found) == {"broker", "beat", "ticks", "worker"}
    assert found["broker"].startswith("the broker does not answer")


def test_a_database_that_is_away_is_said_within_seconds(alive, monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "HOST", "/not/there")
    began = time.monotonic()
    found = wrong()
    assert time.monotonic() - began < 5
    assert set(found) == {"database", "migrations", "passes"}
    health_checks._kept.clear()
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["broker"]["ok"]) == (503, True)


def test_a_migration_that_was_not_applied_is_named(alive):
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE app = 'budgets' AND name = '0030_webhooks' RETURNING applied"
        )
        (applied,) = cursor.fetchone()
        try:
            health_checks._kept.clear()
            found = look(["migrations"]).found["migrations"]
        finally:
            cursor.execute(
                "INSERT INTO django_migrations (app, name, applied) VALUES ('budgets', '0030_webhooks', %s)", [applied]
            )
    assert (found.is_well, found.figures["missing"]) == (False, ["budgets.0030_webhooks"])
    assert "manage.py prepare" in found.words


def test_a_cluster_whose_pass_is_late_is_named_by_its_own_pace(alive):
    last = Pass.objects.latest("pk").at
    assert wrong(["passes"], last + timedelta(seconds=60)) == {}
    assert wrong(["passes"], last + timedelta(seconds=61)) == {"passes": "no pass in time: north"}
    policies.change(cluster=alive.cluster, knobs={"pass_every_s": 120}, reason="slow")
    assert wrong(["passes"], last + timedelta(seconds=480)) == {}
    assert set(wrong(["passes"], last + timedelta(seconds=481))) == {"passes"}


def test_where_no_pass_is_made_none_is_late(alive):
    Cluster.objects.create(name="advised", executor=Cluster.Executor.ADVISED)
    away = Cluster.objects.create(name="away", executor=Cluster.Executor.SLURM)
    SlurmLink.objects.create(cluster=away, token="t", failing_since=datetime(2026, 1, 1, tzinfo=UTC))
    assert wrong(["passes"]) == {}
    assert "not reached" in look(["passes"]).found["passes"].figures["away"]["note"]
    Cluster.objects.create(name="fresh")
    assert wrong(["passes"]) == {"passes": "no pass in time: fresh"}


def test_whoever_asks_without_end_costs_little(alive, monkeypatch):
    calls = []
    monkeypatch.setitem(ALL, "database", lambda now: calls.append(now) or health_checks.Found(True, ""))
    for _ in range(50):
        Client().get("/readyz?only=database")
    assert len(calls) <= 5


@pytest.mark.long
def test_the_clock_and_the_workers_give_signs(process_environment, tmp_path):
    """Real ones: beat sends ticks, the worker does them, the worker of simulations has nothing to do."""
    import subprocess
    import sys

    from tests.conftest import REPOSITORY
    from tests.platform.conftest import wait_until

    Laboratory()
    health_signs.broker().delete(health_signs.KEY)
    worker = ("worker", "--concurrency", "1", "--without-gossip", "--without-mingle")
    commands = {
        "beat": ("beat", "-S", "portal.steady.SteadyScheduler"),
        "worker": (*worker, "--hostname", "tasks@test"),
        "simulations": (*worker, "--queues", "simulations", "--hostname", "simulations@test"),
    }
    processes = []
    try:
        for name, words in commands.items():
            with (tmp_path / name).open("w") as file:
                argv = [sys.executable, "-m", "celery", "-A", "portal.celery", *words, "--loglevel", "INFO"]
                processes.append(
                    subprocess.Popen(argv, env=process_environment, stdout=file, stderr=file, cwd=REPOSITORY)
                )
        assert wait_until(lambda: wrong(tuple(ALL)) == {}, within_s=90), (
            wrong(tuple(ALL)), [(tmp_path / name).read_text()[-2_000:] for name in commands],
        )  # fmt: skip
        processes[0].kill()
        assert wait_until(lambda: "beat" in wrong(), within_s=40)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(20)
