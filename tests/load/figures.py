"""What `/metrics` and `/readyz` cost a laboratory of that size."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import connection
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from budgets.models import BudgetNode
from portal import health_checks, metrics
from scheduler.models import Workload
from tests.load.walk import QUERIES_MAX, TIME_MAX_MS, database_busy_s, slowness

SERIES_MAX = 4_500
"""Of these up to 12 for each route, once somebody has been there."""
TRIES = 5


def busy_ms(work: Callable[[], object]) -> float:
    """Processor time, of us and of the database, the least of some tries: what else runs is no fault of it."""
    found = []
    for _ in range(TRIES):
        began_s = time.thread_time() + database_busy_s()
        work()
        found.append(1_000 * (time.thread_time() + database_busy_s() - began_s))
        if found[-1] > TIME_MAX_MS:
            found[-1] /= slowness()
    return min(found)


def scrape() -> str:
    """A fresh answer."""
    metrics.forget()
    return metrics.exposition().decode()


def look() -> health_checks.Health:
    """A fresh look at what readiness asks the database."""
    health_checks._kept.clear()
    return health_checks.look(["database", "migrations", "passes"])


def too_much() -> list[str]:
    """What is beyond its bound, or wrong, in words."""
    with CaptureQueriesContext(connection) as queries:
        said = scrape()
    families = {each.name: each.samples for each in text_string_to_metric_families(said)}
    series = sum(map(len, families.values()))
    queued = sum(
        each.value
        for each in families["allotment_workloads"]
        if each.labels["cluster"] == "north" and each.labels["state"] == "queued"
    )
    rows = Workload.objects.filter(cluster__name="north", state="queued").count()
    left_out = families["allotment_budgets_left_out"][0].value
    scraped_ms, ready_ms = busy_ms(scrape), busy_ms(look)
    asked = sum(not query["sql"].startswith(("BEGIN", "COMMIT")) for query in queries.captured_queries)
    print(f"/metrics: {scraped_ms:.0f} ms, {asked} statements, {series} series; /readyz: {ready_ms:.0f} ms")
    bounds = (
        ("/metrics: parts that were not read", sum(not each.value for each in families["allotment_scrape_success"]), 0),
        ("/metrics: ms", scraped_ms, TIME_MAX_MS),
        ("/metrics: queries", asked, QUERIES_MAX),
        ("/metrics: series", series, SERIES_MAX),
        ("/metrics: queued beside the rows", abs(queued - rows), 0),
        (
            "/metrics: budgets left out beside the rows",
            abs(left_out - BudgetNode.objects.filter(closed_at=None).count() + 100),
            0,
        ),
        ("/readyz: ms", ready_ms, TIME_MAX_MS),
    )
    return [f"{what}: {value:,.0f}, at most {most:,}" for what, value, most in bounds if value > most]
