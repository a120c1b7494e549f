"""Keeps the tiles of the GPU timeline: past days summed up once, so that a month is read without its runs."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Min
from django.utils import timezone

from budgets.models import Cluster
from scheduler.models import Node, Run, TimelineTile
from scheduler.queries import timeline_tiles
from scheduler.simulator.timeline_words import DAY_S

SETTLED_S = 6 * 3_600
"""A day is settled this long after its end: by then a silent node has been given up, and its runs with it."""
KEPT_DAYS = 366
DAYS_AT_ONCE = 40
"""Days summed up by one call; the next one goes on."""


def fill(cluster: Cluster, now: datetime | None = None) -> int:
    """Store the tiles of settled days that have none, the latest first.

    Returns:
        how many were stored.
    """
    now_s = int((now or timezone.now()).timestamp())
    began = Run.objects.filter(cluster=cluster).aggregate(first=Min("started_at"))["first"]
    if began is None:
        return 0
    last = (now_s - SETTLED_S) // DAY_S - 1
    first = max(int(began.timestamp()) // DAY_S, last - KEPT_DAYS)
    nodes = list(Node.objects.filter(cluster=cluster).values_list("pk", flat=True))
    there = set(TimelineTile.objects.filter(cluster=cluster).values_list("day", "width_s"))
    missing = [
        (day, width_s)
        for day in range(last, first - 1, -1)
        for width_s in timeline_tiles.WIDTHS_S
        if (day, width_s) not in there
    ][: DAYS_AT_ONCE * len(timeline_tiles.WIDTHS_S)]
    tiles = []
    for day, width_s in missing:
        span = (day * DAY_S, (day + 1) * DAY_S)
        rows = timeline_tiles.pack(*timeline_tiles.summed(cluster, nodes, span, width_s, now_s))
        tiles.append(TimelineTile(cluster=cluster, width_s=width_s, day=day, rows=rows))
    TimelineTile.objects.bulk_create(tiles, ignore_conflicts=True)
    return len(tiles)


def forget(cluster: Cluster) -> None:
    """Drop all tiles: a past has been added. They come again by and by."""
    TimelineTile.objects.filter(cluster=cluster).delete()
