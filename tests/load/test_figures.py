"""What `/metrics` and `/readyz` cost a laboratory with 2,000 projects, 128 nodes and 50,000 workloads."""

from __future__ import annotations

import time

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from budgets.models import BudgetNode
from portal import health_checks, metrics
from scheduler.models import Workload
from tests.load.people import PROGRAMS, PROJECTS
from tests.load.world import World

QUERIES_MAX = 110
"""With what opens and bounds each part's transaction; the parts' own statements are about 30."""
SECONDS_MAX = 0.5
SERIES_MAX = 2_000
READY_SECONDS_MAX = 0.25


def scrape() -> tuple[str, float]:
    """A fresh answer, and how long it took (s)."""
    metrics.forget()
    began = time.perf_counter()
    said = metrics.exposition().decode()
    return said, time.perf_counter() - began


@pytest.mark.long
def test_a_scrape_is_cheap_however_large_the_laboratory(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    scrape()
    took = sorted(scrape()[1] for _ in range(5))
    with CaptureQueriesContext(connection) as queries:
        said, _ = scrape()
    families = {each.name: each for each in text_string_to_metric_families(said)}
    series = sum(len(each.samples) for each in families.values())
    parts = {each.labels["part"]: each.value for each in families["allotment_scrape_duration_seconds"].samples}
    with capsys.disabled():
        slowest = ", ".join(f"{name} {1_000 * s:.0f} ms" for name, s in sorted(parts.items(), key=lambda p: -p[1])[:4])
        print(f"\n/metrics: median {1_000 * took[2]:.0f} ms, {len(queries)} statements, {series} series; {slowest}")
    assert all(each.value == 1 for each in families["allotment_scrape_success"].samples)
    assert took[2] < SECONDS_MAX
    assert len(queries) <= QUERIES_MAX
    assert series <= SERIES_MAX
    queued = [
        each.value for each in families["allotment_workloads"].samples
        if each.labels["cluster"] == "north" and each.labels["state"] == "queued"
    ]  # fmt: skip
    assert sum(queued) == Workload.objects.filter(cluster__name="north", state="queued").count() > 100
    left_out = families["allotment_budgets_left_out"].samples[0].value
    assert left_out == BudgetNode.objects.filter(closed_at=None).count() - 100 >= PROGRAMS * PROJECTS - 100
    assert readiness_s() < READY_SECONDS_MAX


def readiness_s() -> float:
    """What looking at everything in the database takes, the median of five (s)."""
    took = []
    for _ in range(5):
        health_checks._kept.clear()
        began = time.perf_counter()
        assert health_checks.look(["database", "migrations", "passes"]).is_well
        took.append(time.perf_counter() - began)
    return sorted(took)[2]
