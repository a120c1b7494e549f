"""Whether passes are made as often as they should be: on pages that show what passes decide, one has to know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import OuterRef, Subquery
from django.utils import timezone

from budgets.models import Cluster
from scheduler.engine import Policy
from scheduler.models import Pass, PolicyVersion

PASSES_MISSED = 3
SLACK = timedelta(seconds=30)
"""Passes have stopped when so many are missing, and this much more time is over."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A cluster on which passes have stopped, and when the last one was made."""

    cluster: str
    since: datetime


def stopped(now: datetime | None = None) -> list[Stopped]:
    """The clusters on which no pass is made though it should be, in the order of pages. One query.

    Those without any pass yet are none of them, nor those where a Slurm decides.
    """
    instant = now or timezone.now()
    last = Pass.objects.filter(cluster=OuterRef("pk")).order_by("-id")
    policy = PolicyVersion.objects.filter(cluster=OuterRef("pk")).order_by("-number")
    rows = (
        Cluster.objects.exclude(executor=Cluster.Executor.ADVISED)
        .order_by("position", "name")
        .annotate(last_at=Subquery(last.values("at")[:1]), knobs=Subquery(policy.values("knobs")[:1]))
        .values_list("name", "last_at", "knobs")
    )
    found = []
    for name, last_at, knobs in rows:
        every_s = (knobs or {}).get("pass_every_s", Policy().pass_every_s)
        if last_at is not None and instant > last_at + timedelta(seconds=PASSES_MISSED * every_s) + SLACK:
            found.append(Stopped(name, last_at))
    return found
