"""How often something was tried in a while, counted in the broker for all processes together.

While the broker is away each process counts by itself: fewer are refused then, nobody is locked out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import redis
import structlog
from django.conf import settings

log = structlog.get_logger(__name__)

TIMEOUT_S = 1.0
AWAY_FOR_S = 5.0
"""A broker that did not answer is left alone for so long."""
KEPT = 10_000
"""Counters that a process keeps at most."""
NAMESPACE = "allotment"
"""What the keys in the broker begin with; each test has its own."""


@dataclass(frozen=True, slots=True)
class Limit:
    """So many tries at a thing in a window of time, which begins with the first of them."""

    key: str
    most: int
    window_s: int


class Own:
    """Counters of this process alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[int, float]] = {}

    def add(self, limits: Iterable[Limit], by: int) -> list[tuple[int, int]]:
        """Count, and say of each how many there are now and in how many seconds it begins anew."""
        with self._lock:
            now = self._tidied()
            return [self._add(limit, by, now) for limit in limits]

    def _add(self, limit: Limit, by: int, now: float) -> tuple[int, int]:
        count, until = self._counts.get(limit.key, (0, 0.0))
        if until <= now:
            count, until = 0, now + limit.window_s
        self._counts[limit.key] = (count + by, until)
        return count + by, int(until - now) + 1

    def _tidied(self) -> float:
        """The clock, when what is over was dropped, should there be much."""
        now = time.monotonic()
        if len(self._counts) > KEPT:
            self._counts = {key: kept for key, kept in self._counts.items() if kept[1] > now}
        return now

    def note(self, limits: Iterable[Limit], said: Iterable[tuple[int, int]]) -> None:
        """What the broker says of these: should it be away at the next try, that is counted on from here."""
        with self._lock:
            now = self._tidied()
            for limit, (count, seconds) in zip(limits, said, strict=True):
                self._counts[limit.key] = (count, now + seconds)

    def forget(self, keys: Iterable[str]) -> None:
        """Begin anew."""
        with self._lock:
            for key in keys:
                self._counts.pop(key, None)


_own = Own()
_away_until = 0.0


@cache
def _broker() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)


def add(limits: Iterable[Limit], by: int = 1) -> list[tuple[int, int]]:
    """Count one try at each of these (or take it back, by -1).

    Returns:
        of each, how many there are now, and in how many seconds they are forgotten.
    """
    global _away_until
    asked = list(limits)
    if settings.REDIS_URL and time.monotonic() >= _away_until:
        try:
            pipe = _broker().pipeline()
            for limit in asked:
                key = f"{NAMESPACE}:{limit.key}"
                pipe.set(key, 0, ex=limit.window_s, nx=True)
                pipe.incrby(key, by)
                pipe.ttl(key)
            said = pipe.execute()
            found = [(int(said[at + 1]), max(1, int(said[at + 2]))) for at in range(0, len(said), 3)]
            _own.note(asked, found)
            return found
        except (redis.RedisError, OSError) as error:
            _away_until = time.monotonic() + AWAY_FOR_S
            log.warning("counted_without_broker", error=type(error).__name__)
    return _own.add(asked, by)


def forget(keys: Iterable[str]) -> None:
    """Begin these anew."""
    global _away_until
    asked = list(keys)
    _own.forget(asked)
    if settings.REDIS_URL and asked and time.monotonic() >= _away_until:
        try:
            _broker().delete(*(f"{NAMESPACE}:{key}" for key in asked))
        except (redis.RedisError, OSError):
            _away_until = time.monotonic() + AWAY_FOR_S
