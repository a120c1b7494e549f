"""Slurm as an executor of the one seam (scheduler/executors/base.py), and the loop that looks at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from datetime import datetime

import structlog
from django.db import OperationalError, close_old_connections
from django.db.models import Max

from scheduler.models import Event, SlurmLink, SlurmOrder
from scheduler.services.slurm import links, look

log = structlog.get_logger(__name__)

EVERY_S = 2.0
"""How often a Slurm is looked at where nothing happens here."""
GLANCE_S = 0.2
"""How often it is asked whether something has happened here."""
SOON_S = 0.4
"""How soon one looks again at what a look has just set going."""
REST_S = 10.0
"""How often a Slurm is tried that did not answer."""


class Slurm:
    """Clusters that have a Slurm below them. `manage.py slurm_sync` does the work: no command runs in a beat."""

    def tell(self, cluster_id: int, node_ids: Collection[int]) -> None:
        """Nothing: whoever looks sees the event within a fifth of a second."""

    def poll(self, cluster_id: int, now: datetime) -> bool:
        """Nothing: the loop polls, wherever Slurm's commands are."""
        return False


def follow(names: Collection[str] = (), *, goes_on: Callable[[], bool] = lambda: True) -> None:
    """Look at every cluster that has a Slurm (or at those of these names) whenever something happened, or it is time.

    One that is in trouble holds nobody up but itself: each look has its time limits.
    """
    clocks: dict[int, _Clock] = {}
    while goes_on():
        try:
            close_old_connections()
            for link in _links(names):
                clock = clocks.setdefault(link.cluster_id, _Clock())
                if clock.is_due(link.cluster_id):
                    clock.looked(look.look(link.cluster_id, is_glance=clock.is_glance))
        except OperationalError as error:
            log.warning("database_not_reached", error=str(error))
            time.sleep(1)
        except Exception:  # whatever it is: the loop goes on, and the next look tries again
            log.exception("slurm_look_failed")
            time.sleep(1)
        time.sleep(GLANCE_S)


def _links(names: Collection[str]) -> list[SlurmLink]:
    rows = SlurmLink.objects.filter(cluster__executor__in=links.KINDS)
    return list((rows.filter(cluster__name__in=names) if names else rows).order_by("pk"))


class _Clock:
    """When a cluster is looked at next, and whether a glance is enough: what happened here is seen to at once."""

    def __init__(self) -> None:
        self.is_glance = False
        self._whole_s = self._next_s = 0.0
        self._mark = -1
        self._rests = False

    def is_due(self, cluster_id: int) -> bool:
        """Whether it is time, or something happened that the last look did not see."""
        now_s = time.monotonic()
        if self._rests and now_s < self._whole_s:
            return False
        before, self._mark = self._mark, _mark(cluster_id)
        self.is_glance = now_s < self._whole_s
        return now_s >= self._next_s or self._mark != before

    def looked(self, looked: look.Looked | None) -> None:
        """How it went says how soon it is time again."""
        now_s = time.monotonic()
        self._rests = looked is not None and not looked.reached
        if not self.is_glance or self._rests:
            self._whole_s = now_s + (REST_S if self._rests else EVERY_S)
        has_done = looked is not None and looked.done > 0
        self._next_s = min(self._whole_s, now_s + SOON_S) if has_done else self._whole_s


def _mark(cluster_id: int) -> int:
    """What has happened so far; an order to write shares counts as well."""
    last = Event.objects.filter(cluster=cluster_id).aggregate(last=Max("id"))["last"] or 0
    waiting = SlurmOrder.objects.filter(cluster=cluster_id, outcome=SlurmOrder.Outcome.WAITING).count()
    return int(last) * 1_000 + min(waiting, 999)
