"""What of Celery keeps its pace whatever happens around it: a broker that was away, a clock that was set."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import structlog
from celery.app.amqp import AMQP
from celery.beat import Scheduler
from kombu import Connection

log = structlog.get_logger(__name__)

TRY_AGAIN_S = 1
"""How often one looks for a broker that has gone. Celery's own way is ever more seldom, and then never."""
SET_FROM_S = 1.0
"""So much more, or less, than time itself went by: the clock was set."""


class PatientConnection(Connection):
    """Looks for its broker each second, for as long as it takes, wherever the caller sets no bound of its own."""

    def _ensure_connection(self, *args: Any, **kwargs: Any) -> Any:
        if "timeout" not in kwargs and kwargs.get("max_retries") != 1:
            given = dict(zip(("errback", "max_retries"), args, strict=False))
            kwargs = {**given, **kwargs, "max_retries": None}
            args = ()
            for name, value in (("start", TRY_AGAIN_S), ("step", 0), ("max", TRY_AGAIN_S)):
                kwargs.setdefault(f"interval_{name}", value)
        return super()._ensure_connection(*args, **kwargs)


class PatientAMQP(AMQP):
    """Celery's messages over such connections."""

    Connection = BrokerConnection = PatientConnection


class SteadyScheduler(Scheduler):
    """Beat by the time that passes. What is due is due by the clock: if that is set, all that is planned moves with it.

    Otherwise a clock that is set back by an hour would stop all passes for an hour. Nothing is kept on disk: a tick
    that was missed is not made up for.
    """

    _ahead_s: float | None = None

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due; in how many seconds to come again."""
        ahead_s = time.time() - time.monotonic()
        moved_s = 0.0 if self._ahead_s is None else ahead_s - self._ahead_s
        if self._ahead_s is None or abs(moved_s) > SET_FROM_S:
            self._ahead_s = ahead_s
        if abs(moved_s) > SET_FROM_S:
            log.warning("clock_was_set", by_s=round(moved_s))
            for entry in self.schedule.values():
                entry.last_run_at += timedelta(seconds=moved_s)
            self._heap = None
        return float(super().tick(*args, **kwargs))
