"""Signs of life of the processes that nobody asks: the clock, those that make passes, the worker, and the worker of
simulations.

Each writes the instant into one hash in the broker, at most once a second; who looks (portal/health_checks.py) sees how
old it is. A broker that is away takes no signs, and that is what is then said.
"""

from __future__ import annotations

import time
from typing import Any

from celery.signals import after_task_publish, beat_init, heartbeat_sent, task_postrun
from redis import RedisError

from portal.metrics_shared import broker

KEY = "allotment:signs"
BEAT, TICKS, WORKER, SIMULATIONS = SERVICES = ("beat", "ticks", "worker", "simulations")
SIGNS = {"scheduler.tasks.tick": TICKS, "scheduler.tasks.follow_events": WORKER}
"""Tasks that come every few seconds, each by a queue of its own, and what their end is a sign of."""
SIMULATIONS_QUEUE = "simulations"

_last: dict[str, float] = {}
_is_beat = False


def give(service: str) -> None:
    """This service lives."""
    now_s = time.time()
    if abs(now_s - _last.get(service, 0.0)) < 1:
        return
    _last[service] = now_s
    client = broker()
    if client is None:
        return
    try:
        client.hset(KEY, service, f"{now_s:.3f}")
    except (RedisError, OSError):
        return  # whoever looks finds the broker away


def seen() -> dict[str, float]:
    """By service, the instant (Unix time, seconds) of its last sign.

    Raises:
        RedisError: the broker does not answer.
    """
    client = broker()
    found: dict[bytes, bytes] = client.hgetall(KEY) if client is not None else {}  # type: ignore[assignment]
    return {name.decode(): float(at_s) for name, at_s in found.items()}


@beat_init.connect
def remember_the_clock(**_more: object) -> None:
    """This process is the clock."""
    global _is_beat
    _is_beat = True


@after_task_publish.connect
def the_clock_beats(**_more: object) -> None:
    """It has sent something."""
    if _is_beat:
        give(BEAT)


@task_postrun.connect
def a_task_was_done(task: Any = None, **_more: object) -> None:
    """A process of a worker's pool has done it, well or not."""
    if (service := SIGNS.get(task.name)) is not None:
        give(service)


@heartbeat_sent.connect
def a_worker_lives(sender: Any = None, **_more: object) -> None:
    """The worker of simulations may be at one for minutes: its main process speaks for it."""
    if SIMULATIONS_QUEUE in sender.eventer.app.amqp.queues.consume_from:
        give(SIMULATIONS)
