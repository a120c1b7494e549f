"""`/metrics`: figures for Prometheus, from the database (metrics_facts.py) and from what processes count themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from redis import RedisError

from portal import health_signs, metrics_facts, metrics_http, metrics_shared
from portal.metrics_access import is_reader
from scheduler import loop

log = structlog.get_logger(__name__)

KEPT_S = 5
"""An answer is given again for so long: scrapers that come more often, or many at once, cost the database nothing."""
COUNTING = (loop, metrics_http)
"""The modules whose counters and histograms are added up (importing them makes them known)."""

_making = threading.Lock()
_kept: tuple[float, bytes] | None = None


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """All figures in Prometheus' text format; 403 for strangers."""
    if not is_reader(request):
        refused = HttpResponse("metrics are for those whom the operators have named\n", "text/plain", 403)
        refused.headers["WWW-Authenticate"] = 'Bearer realm="metrics"'
        return refused
    return HttpResponse(exposition(), CONTENT_TYPE_PLAIN_0_0_4)


def exposition() -> bytes:
    """All figures as text, at most KEPT_S old."""
    global _kept
    with _making:
        now_s = time.monotonic()
        if _kept is None or now_s - _kept[0] >= KEPT_S:
            registry = CollectorRegistry(auto_describe=False)
            registry.register(Everything())
            _kept = (now_s, generate_latest(registry))
        return _kept[1]


def forget() -> None:
    """Make the next answer anew."""
    global _kept
    with _making:
        _kept = None


def signs() -> Iterable[Metric]:
    """How long ago the clock and the workers gave a sign of life, and what waits for workers in the broker.

    Raises:
        RedisError: the broker does not answer.
    """
    ages = GaugeMetricFamily(
        "allotment_sign_age_seconds", "How long ago this service gave a sign of life", labels=["service"]
    )
    for service, at_s in sorted(health_signs.seen().items()):
        ages.add_metric([service], max(0.0, time.time() - at_s))
    lengths = GaugeMetricFamily(
        "allotment_broker_queue_length", "Tasks that wait in the broker for a worker", labels=["queue"]
    )
    client = metrics_shared.broker()
    for queue in ("celery", settings.TICKS, health_signs.SIMULATIONS_QUEUE) if client is not None else ():
        lengths.add_metric([queue], float(client.llen(queue)))  # type: ignore[union-attr]
    return [ages, lengths]


class Everything(Collector):
    """Facts and counts. What can't be had is left out, and `allotment_scrape_success` says so."""

    def collect(self) -> Iterable[Metric]:
        """Every family, and how the reading went."""
        went = GaugeMetricFamily(
            "allotment_scrape_success", "Whether this part of the figures could be read (1) or not (0)", labels=["part"]
        )
        took = GaugeMetricFamily(
            "allotment_scrape_duration_seconds", "How long reading this part of the figures took", labels=["part"]
        )
        found: list[Metric] = []
        for reading in metrics_facts.read():
            found += reading.families
            went.add_metric([reading.part], float(reading.is_read))
            took.add_metric([reading.part], reading.took_s)
        began_s = time.perf_counter()
        try:
            found += metrics_shared.Shared().collect()
            found += signs()
            went.add_metric(["processes"], 1)
        except (RedisError, OSError) as error:
            log.warning("metrics_not_read", part="processes", error=str(error))
            went.add_metric(["processes"], 0)
        took.add_metric(["processes"], time.perf_counter() - began_s)
        return [*found, went, took]
