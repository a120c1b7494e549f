"""`/metrics`: figures equal to the rows, from every process alike, for those whom the operators have named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import Sum
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from budgets.models import BudgetNode
from budgets.services import webhook_settings
from portal import health_database, metrics, metrics_facts, metrics_http, metrics_shared
from scheduler.engine import CellCounts
from scheduler.models import Node, Pass, Run, Workload
from scheduler.services import cells, nodes
from tests.conftest import REPOSITORY

TOKEN = "a-token-that-nobody-guesses"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """No answer of an earlier test is given again."""
    metrics.forget()
    yield
    metrics.forget()


def scraped(client: Client | None = None, **headers: str) -> Samples:
    """Every sample by its name and labels, read as Prometheus reads them."""
    metrics.forget()
    answer = (client or Client()).get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.content
    families = list(text_string_to_metric_families(answer.content.decode()))
    assert len({family.name for family in families}) == len(families)
    samples = [sample for family in families for sample in family.samples]
    found = {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


def of(found: Samples, name: str, **labels: str) -> float:
    """One sample."""
    return found[f"allotment_{name}", tuple(sorted(labels.items()))]


def all_of(found: Samples, name: str) -> dict[tuple[str, ...], float]:
    """Every sample of a family by the values of its labels, those that are 0 left out."""
    ours = {labels: value for (each, labels), value in found.items() if each == f"allotment_{name}"}
    return {tuple(value for _, value in labels): value for labels, value in ours.items() if value}


# --- facts ------------------------------------------------------------------------------------------------------------


def test_figures_equal_the_rows(lab):
    """A1 holds one node, and with A2 6 of the 8 GPUs of the other one; one of A1 waits, and one of B1."""
    found = scraped()
    open_rows = Workload.objects.filter(state__in=Workload.OPEN_STATES)
    counted: dict[tuple[str, ...], float] = {}
    for kind, state in open_rows.values_list("workload_class", "state"):
        counted[kind, "north", state] = counted.get((kind, "north", state), 0) + 1
    assert all_of(found, "workloads") == counted
    waiting = open_rows.filter(state="queued")
    assert sum(all_of(found, "queue_devices").values()) == sum(row.size_milli for row in waiting) / 1_000 == 16
    oldest = max(timezone.now() - row.submitted_at for row in waiting).total_seconds()
    assert max(all_of(found, "queue_oldest_seconds").values()) == pytest.approx(oldest, abs=60)
    assert (
        of(found, "devices", cluster="north", state="healthy"),
        of(found, "devices", cluster="north", state="down"),
    ) == (16, 0)
    assert all_of(found, "devices_held") == {("north", "healthy"): 14}
    assert of(found, "occupancy_ratio", cluster="north") == 14 / 16
    assert all_of(found, "nodes") == {("north", "healthy"): 2}
    running: dict[tuple[str, ...], float] = {}
    held: dict[tuple[str, ...], float] = {}
    for state, funded, size in Run.objects.exclude(state="ended").values_list("state", "funded", "size_milli"):
        key = ("north", str(funded).lower())
        running[*key, state] = running.get((*key, state), 0) + 1
        held[key] = held.get(key, 0) + size / 1_000
    assert all_of(found, "runs") == running
    assert all_of(found, "run_devices") == held == {("north", "true"): 12, ("north", "false"): 2}
    ended = Run.objects.filter(ended_at__gte=timezone.now() - timedelta(hours=1))
    assert sum(all_of(found, "runs_ended_last_hour").values()) == ended.count() == 2
    started = Workload.objects.filter(first_started_at__isnull=False)
    assert sum(all_of(found, "starts_last_day").values()) == started.count() == 5
    waits = sorted(
        (row.first_started_at - row.submitted_at).total_seconds() for row in started.filter(workload_class="large")
    )
    assert of(found, "wait_last_day_seconds", **{"cluster": "north", "class": "large", "quantile": "1"}) == waits[-1]
    last = Pass.objects.latest("pk")
    assert of(found, "last_pass_timestamp_seconds", cluster="north") == last.at.timestamp()
    assert of(found, "last_pass_age_seconds", cluster="north") == pytest.approx(60, abs=55)
    assert of(found, "last_pass_duration_seconds", cluster="north", phase="decide") == last.decide_ms / 1_000
    assert of(found, "pass_interval_seconds", cluster="north") == 10
    assert of(found, "cluster_info", cluster="north", unit="gpu", executor="simulated") == 1
    parts = {*metrics_facts.PARTS, "processes"}
    assert all_of(found, "scrape_success") == {(part,): 1 for part in parts}


def test_nodes_repairs_and_silence_are_counted(lab):
    sick, quiet = Node.objects.order_by("name")
    cells.set_cells(node=lab.node["A"], cluster=lab.cluster, cells=CellCounts(node=2), by=None, reason="as agreed")
    nodes.ask_drain(node=sick, reason="fan", by=lab.ops)
    Node.objects.filter(pk=sick.pk).update(health="unhealthy")
    Node.objects.filter(pk=quiet.pk).update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    found = scraped()
    assert all_of(found, "nodes") == {("north", "healthy"): 1, ("north", "unhealthy"): 1}
    assert of(found, "nodes_draining", cluster="north") == 1
    assert all_of(found, "cells_granted") == {("north", "node"): 2}
    assert all_of(found, "cells_missing") == {("north", "node"): 1}
    on = dict(Node.objects.annotate(held=Sum("devices__held_milli")).values_list("pk", "held"))
    assert all_of(found, "devices_held") == {
        ("north", "draining"): on[sick.pk] / 1_000, ("north", "healthy"): on[quiet.pk] / 1_000,
    }  # fmt: skip
    assert of(found, "occupancy_ratio", cluster="north") == 14 / (8 + on[sick.pk] / 1_000)
    assert of(found, "heartbeat_age_seconds", cluster="north", quantile="1") == pytest.approx(300, abs=30)
    assert of(found, "nodes_silent", cluster="north") >= 1


def test_delivery_is_that_of_the_books_for_the_budgets_nearest_the_root(lab, settings):
    from scheduler.queries import usage

    found = scraped()
    end = timezone.now().replace(minute=0, second=0, microsecond=0)
    books = usage.totals([lab.node["B1"]], lab.cluster, end - timedelta(days=1), end)[lab.node["B1"].pk]
    assert of(found, "budget_delivered_devices", cluster="north", budget="B1") == books.charged_milli_s / 86_400_000
    assert of(found, "budget_owed_devices", cluster="north", budget="B1") == books.owed_milli_s / 86_400_000
    assert of(found, "budget_delivery_ratio", cluster="north", budget="B1") == books.delivery
    assert of(found, "budgets_left_out") == 0
    settings.METRICS_BUDGETS = 3
    found = scraped()
    assert {labels[0] for labels in all_of(found, "budget_entitled_devices")} == {"LAB", "A", "B"}
    assert of(found, "budgets_left_out") == BudgetNode.objects.count() - 3 == 3


def test_what_waits_to_be_told_is_counted(calm, settings):
    settings.WEBHOOK_NETWORKS = settings.METRICS_NETWORKS  # this machine
    row = webhook_settings.create(by=calm.ada, url="http://127.0.0.1:9/")
    webhook_settings.ping(webhook=row, now=timezone.now() - timedelta(minutes=10))
    found = scraped()
    assert of(found, "webhook_deliveries_waiting") == 1
    assert of(found, "webhook_oldest_waiting_seconds") == pytest.approx(600, abs=30)
    assert all_of(found, "webhooks") == {("person", "on"): 1}
    webhook_settings.turn_off(webhook=row)
    assert all_of(scraped(), "webhooks") == {("person", "off"): 1}


def test_a_cluster_without_anything_says_0(calm):
    found = scraped()
    assert of(found, "workloads", **{"cluster": "north", "state": "queued", "class": "debug"}) == 0
    assert ("allotment_last_pass_age_seconds", (("cluster", "north"),)) not in found


# --- their cost -------------------------------------------------------------------------------------------------------


def test_queries_do_not_grow_with_rows_and_an_answer_is_given_again(calm):
    with CaptureQueriesContext(connection) as few:
        scraped()
    for number in range(6):
        calm.submit("A2", 1, minutes=0, name=f"w{number}")
    with CaptureQueriesContext(connection) as many:
        scraped()
    assert len(many) == len(few) <= 30
    with CaptureQueriesContext(connection) as again:
        Client().get("/metrics")
        Client().get("/metrics")
    assert len(again) == 0


def test_a_part_that_takes_too_long_is_left_out_and_said(calm, monkeypatch):
    monkeypatch.setattr(metrics_facts, "TIMEOUT_MS", 50)

    def slow(asked):
        asked.rows("SELECT pg_sleep(2)")
        return []

    monkeypatch.setitem(metrics_facts.PARTS, "waits", slow)
    found = scraped()
    assert of(found, "scrape_success", part="waits") == 0
    assert of(found, "scrape_duration_seconds", part="waits") < 1
    assert of(found, "scrape_success", part="queue") == 1
    assert of(found, "nodes", cluster="north", health="healthy") == 2


def test_without_a_database_the_rest_is_said_at_once(monkeypatch):
    monkeypatch.setattr(metrics_facts, "answers", lambda: False)
    found = scraped()
    assert of(found, "scrape_success", part="queue") == 0
    assert not any(name == "allotment_workloads" for name, _ in found)


def test_a_database_that_is_away_is_noticed_within_seconds(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "HOST", "/not/there")
    assert health_database.took_s() is None


# --- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("networks", "proxy", "came", "status"),
    [
        (["127.0.0.0/8"], False, {}, 200),
        ([], False, {}, 403),
        (["127.0.0.0/8"], False, {"REMOTE_ADDR": "203.0.113.9"}, 403),
        (["127.0.0.0/8"], False, {"HTTP_X_FORWARDED_FOR": "203.0.113.9"}, 403),
        (["127.0.0.0/8"], False, {"HTTP_X_FORWARDED_FOR": "127.0.0.1"}, 403),  # nobody said that there is a proxy
        (["127.0.0.0/8"], True, {"HTTP_X_FORWARDED_FOR": "127.0.0.1, 203.0.113.9"}, 403),  # the proxy adds the last
        (["10.20.0.0/16"], True, {"HTTP_X_FORWARDED_FOR": "10.20.0.5"}, 200),
        (["10.20.0.0/16"], True, {"HTTP_X_FORWARDED_FOR": "not an address"}, 403),
        ([], False, {"HTTP_AUTHORIZATION": f"Bearer {TOKEN}", "REMOTE_ADDR": "203.0.113.9"}, 200),
        ([], False, {"HTTP_AUTHORIZATION": f"Bearer {TOKEN}x"}, 403),
        ([], False, {"HTTP_AUTHORIZATION": f"Basic {TOKEN}"}, 403),
        ([], False, {"HTTP_AUTHORIZATION": "Bearer "}, 403),
    ],
)
def test_who_may_scrape(db, settings, networks, proxy, came, status):
    from ipaddress import ip_network

    settings.METRICS_NETWORKS = [ip_network(each) for each in networks]
    settings.METRICS_TOKEN, settings.IS_BEHIND_PROXY = TOKEN, proxy
    answer = Client().get("/metrics", **came)
    assert answer.status_code == status
    assert (b"allotment_" in answer.content) == (status == 200)


def test_no_token_in_the_settings_lets_nobody_in(db, settings):
    settings.METRICS_NETWORKS, settings.METRICS_TOKEN = [], ""
    for shown in ("Bearer ", "Bearer", "Bearer None"):
        assert Client().get("/metrics", headers={"Authorization": shown}).status_code == 403


def test_a_scraper_may_come_by_any_address(db):
    assert Client().get("/metrics", headers={"Host": "10.20.0.9:8000"}).status_code == 200
    assert Client().get("/login/", headers={"Host": "10.20.0.9:8000"}).status_code == 400


# --- counted by processes ---------------------------------------------------------------------------------------------

COUNTS = """
import os, sys
import django
django.setup()
from portal import metrics, metrics_http, metrics_shared
metrics_shared.soon = lambda: None
for _ in range(int(sys.argv[1])):
    metrics_http.observe("queue/<slug:cluster>/", "GET", 200, 0.04)
assert metrics_shared.add() > 0
assert metrics_shared.add() == 0
if len(sys.argv) > 2:
    child = os.fork()
    if child == 0:
        metrics_http.observe("queue/<slug:cluster>/", "GET", 503, 7.0)
        assert metrics_shared.add() > 0
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("counted", flush=True)
os.kill(os.getpid(), 9)
"""


def test_what_every_process_counted_is_added_up_and_outlives_it(process_environment):
    metrics_shared.broker().delete(metrics_shared.key())
    for arguments in (["3"], ["4", "fork"]):
        done = subprocess.run(
            [sys.executable, "-c", COUNTS, *arguments],
            check=False, capture_output=True, text=True, env=process_environment, cwd=REPOSITORY,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (-9, "counted\n"), done.stderr
    found = scraped()
    route = {"route": "/queue/<slug:cluster>/"}
    assert of(found, "http_requests_total", **route, method="GET", status="200") == 7
    assert of(found, "http_requests_total", **route, method="GET", status="503") == 1
    assert of(found, "http_request_duration_seconds_count", **route) == 8
    assert of(found, "http_request_duration_seconds_bucket", **route, le="0.1") == 7
    assert of(found, "http_request_duration_seconds_bucket", **route, le="10.0") == 8
    assert of(found, "http_request_duration_seconds_sum", **route) == pytest.approx(7.28)


def test_labels_stay_few_whatever_is_asked_for(db, private_servers):
    client = Client()
    for number in range(30):
        client.get(f"/nothing/{number}/")
        client.get(f"/login/?next=/{number}")
    client.generic("BREW", "/login/")
    samples = [s for family in metrics_http.REQUESTS.collect() for s in family.samples if s.name.endswith("_total")]
    labels = {tuple(sample.labels.values()) for sample in samples}
    assert {label[:2] for label in labels if label[0] == "none"} == {("none", "GET")}
    assert ("/login/", "other", "405") in labels
    assert not any("nothing" in str(label) for label in labels)


def test_the_broker_being_away_costs_little_and_loses_nothing(db, settings):
    metrics_http.observe("queue/", "GET", 200, 0.01)
    own = settings.REDIS_URL
    settings.REDIS_URL = "unix:///not/there.sock?db=0"
    assert metrics_shared.add() is None
    assert of(scraped(), "scrape_success", part="processes") == 0
    settings.REDIS_URL = own
    counted = json.dumps(
        ["allotment_http_requests_total", [["method", "GET"], ["route", "/queue/"], ["status", "200"]]]
    )
    metrics_shared.add()
    assert float(metrics_shared.broker().hget(metrics_shared.key(), counted)) >= 1
