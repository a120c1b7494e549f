"""How long requests and tasks take, and how they end: counted where it happens (metrics_shared.py adds it up)."""

from __future__ import annotations

import time
from typing import Any

from celery.signals import task_postrun, task_prerun
from prometheus_client import Counter, Histogram

from portal import metrics_shared

SECONDS = (0.03, 0.1, 0.3, 1, 3, 10)
"""Bounds of the buckets of requests. There are hundreds of routes, and each has all of these: more would be thousands
of series for nothing that a dashboard shows."""
TASK_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
NO_ROUTE = "none"
"""What is asked for at an address that is none of ours; so labels are as many as there are routes."""

REQUEST_SECONDS = Histogram(
    "allotment_http_request_duration_seconds", "How long requests took, by route", ["route"], buckets=SECONDS
)
REQUESTS = Counter(
    "allotment_http_requests", "Requests that were answered, by route, method and status", ["route", "method", "status"]
)
TASKS_SECONDS = Histogram(
    "allotment_task_duration_seconds", "How long background tasks took, by task", ["task"], buckets=TASK_SECONDS
)
TASKS = Counter("allotment_tasks", "Background tasks that ended, by task and how", ["task", "state"])


def observe(route: str | None, method: str, status: int, took_s: float) -> None:
    """Count one request."""
    name = NO_ROUTE if route is None else f"/{route}"
    REQUEST_SECONDS.labels(name).observe(took_s)
    REQUESTS.labels(name, method if method in METHODS else "other", str(status)).inc()
    metrics_shared.soon()


@task_prerun.connect
def task_begins(task: Any = None, **_more: object) -> None:
    """Note when."""
    task.request.began_s = time.perf_counter()


@task_postrun.connect
def task_has_ended(task: Any = None, state: str | None = None, **_more: object) -> None:
    """Count one task."""
    began_s = getattr(task.request, "began_s", None)
    if began_s is not None:
        TASKS_SECONDS.labels(task.name).observe(time.perf_counter() - began_s)
    TASKS.labels(task.name, (state or "unknown").lower()).inc()
    metrics_shared.soon()
