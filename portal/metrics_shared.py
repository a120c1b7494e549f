"""Figures that processes count for themselves, added up over all of them: web workers, task workers, every machine.

Each process adds what has come since to one hash in the broker, every few seconds while something comes: additions are
atomic, what an ended process counted stays counted, and no file is shared. While the broker is away a process keeps
what it counted and adds it later; a broker that was emptied begins at 0 again, which is how Prometheus knows counters.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence

import structlog
from django.conf import settings
from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from redis import Redis, RedisError

log = structlog.get_logger(__name__)

EVERY_S = 3
"""How often a process adds what it has counted; what is not added when it is killed is lost."""
KEPT_S = 30 * 86_400
"""The sums of an older release are forgotten so long after its last word."""
MOST_SERIES = 20_000
"""A bound that no installation reaches: routes, tasks and clusters times buckets. Beyond it nothing new is begun."""
WAIT_S = 1
PREFIX = "allotment_"

Field = str
"""A sample's name and its labels, as JSON."""

_flushing = threading.Lock()
_starting = threading.Lock()
_added: dict[Field, float] = {}
_thread_of: int | None = None


def broker() -> Redis | None:
    """A client of the broker that gives up after a second; None where there is none."""
    if not settings.REDIS_URL:
        return None
    return _client(settings.REDIS_URL, os.getpid())


_clients: dict[tuple[str, int], Redis] = {}


def _client(url: str, pid: int) -> Redis:
    if (url, pid) not in _clients:
        _clients.clear()  # what was forked away is the parent's
        _clients[url, pid] = Redis.from_url(url, socket_timeout=WAIT_S, socket_connect_timeout=WAIT_S)
    return _clients[url, pid]


# --- counted here -----------------------------------------------------------------------------------------------------


def counted_here() -> list[Metric]:
    """The counters and histograms of this process."""
    found = (family for family in REGISTRY.collect() if family.name.startswith(PREFIX))
    return [family for family in found if family.type in ("counter", "histogram")]


def key() -> str:
    """The hash of this release's families: where a bucket's bounds change, sums begin anew."""
    bounds = {
        name: tuple(getattr(collector, "_kwargs", {}).get("buckets", ()))
        for collector, names in REGISTRY._collector_to_names.items()
        for name in names
        if name.startswith(PREFIX)
    }
    digest = hashlib.sha256(repr(sorted(bounds.items())).encode()).hexdigest()[:12]
    return f"allotment:metrics:{digest}"


def _samples(families: Iterable[Metric]) -> Iterator[tuple[Field, float]]:
    for family in families:
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                yield json.dumps([sample.name, sorted(sample.labels.items())]), sample.value


# --- added up ---------------------------------------------------------------------------------------------------------


def soon() -> None:
    """Something was counted: have it added within seconds, by a thread that ends when nothing more comes."""
    global _thread_of
    if _thread_of == os.getpid() or not settings.REDIS_URL:
        return
    with _starting:
        if _thread_of != os.getpid():
            _thread_of = os.getpid()
            atexit.register(add)
            threading.Thread(target=_keep_adding, name="metrics", daemon=True).start()


def _keep_adding() -> None:
    global _thread_of
    pause, idle = threading.Event(), 0
    while idle < 2:
        pause.wait(EVERY_S)
        idle = idle + 1 if add() == 0 else 0
    _thread_of = None


def _begin_in_a_child() -> None:
    """A forked process counts from where it began: what was counted before is its parent's to add."""
    global _flushing, _starting, _thread_of
    _flushing, _starting, _thread_of = threading.Lock(), threading.Lock(), None
    _added.update(_samples(counted_here()))


os.register_at_fork(after_in_child=_begin_in_a_child)


def add() -> int | None:
    """Add what this process has counted since the last time. How many figures moved; None where the broker is away."""
    client = broker()
    if client is None:
        return None
    with _flushing:
        moved = {
            field: value - _added.get(field, 0)
            for field, value in _samples(counted_here())
            if value != _added.get(field, 0)
        }
        if not moved:
            return 0
        try:
            name = key()
            if client.hlen(name) > MOST_SERIES:
                return 0
            with client.pipeline(transaction=True) as pipe:
                for field, more in moved.items():
                    pipe.hincrbyfloat(name, field, more)
                pipe.expire(name, KEPT_S)
                pipe.execute()
        except (RedisError, OSError):
            return None
        for field, more in moved.items():
            _added[field] = _added.get(field, 0) + more
        return len(moved)


class Shared(Collector):
    """The sums over all processes, as families of this release."""

    def collect(self) -> Iterable[Metric]:
        """Adds what this process has, then reads all sums.

        Raises:
            RedisError: the broker does not answer.
        """
        client = broker()
        if client is None:
            return []
        add()
        sums: dict[str, list[tuple[Sequence[tuple[str, str]], float]]] = {}
        for field, value in client.hgetall(key()).items():
            name, labels = json.loads(field)
            sums.setdefault(name, []).append((labels, float(value)))
        return [_family(each, sums) for each in counted_here()]


def _family(known: Metric, sums: dict[str, list[tuple[Sequence[tuple[str, str]], float]]]) -> Metric:
    is_counter = known.type == "counter"
    kind = CounterMetricFamily if is_counter else HistogramMetricFamily
    found: Metric = kind(known.name, known.documentation)
    for ending in ("_total",) if is_counter else ("_bucket", "_count", "_sum"):
        for labels, value in sorted(sums.get(known.name + ending, []), key=_in_order):
            found.add_sample(known.name + ending, dict(labels), value)
    return found


def _in_order(sample: tuple[Sequence[tuple[str, str]], float]) -> tuple[list[tuple[str, str]], float]:
    """Labels first, the bounds of buckets by their size."""
    labels = dict(sample[0])
    bound = float(labels.pop("le", "inf"))
    return sorted(labels.items()), bound
