"""The hourly cache of use: a function of runs, workloads, node spells and shares (semantics.md sections 2 and 10).

Nothing here counts on what was cached before: an hour is always computed whole, in the database, and replaced.
Amounts are thousandths of the unit times seconds. An hour belongs to the organisation's day on which it begins.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Min
from django.utils import timezone

from budgets import queries as budget_queries
from budgets.models import BooksCheck, Cluster, LedgerEntry
from budgets.services.balances import Finding, keep
from scheduler.models import ClusterHour, NodeSpell, Run, UsageHour, Workload
from scheduler.services import usage_sql

HOUR_S = 3_600
UNSETTLED = timedelta(hours=3)
"""How far back facts may still change: a lost run ends as of the last heartbeat, `lost_after_s` (3,900 s) ago."""

PIECE = timedelta(days=7)
"""So much is computed in one transaction: of the largest clusters some seconds."""
CHECKED = timedelta(weeks=4)
"""How far back the check looks that a task makes."""

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Difference:
    """An hour whose cached amount isn't what the stored runs say. `node_id` is None for the cluster's own row."""

    node_id: int | None
    hour: datetime
    field: str
    cached: int | None
    computed: int | None


def rebuild(cluster: Cluster, start: datetime, end: datetime, *, now: datetime | None = None) -> None:
    """Compute all hours that begin in [start, end) again, as things stand at `now`; what goes on is cut there."""
    with transaction.atomic():
        Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
        values = _values(cluster, _hour(start), _next_hour(end), now or timezone.now())
        window = {"cluster": cluster, "hour__gte": _hour(start), "hour__lt": _next_hour(end)}
        ClusterHour.objects.filter(**window).delete()
        UsageHour.objects.filter(**window).delete()
        with connection.cursor() as cursor:
            cursor.execute(usage_sql.FILL_CLUSTER_HOURS, values)
            cursor.execute(usage_sql.FILL_USAGE_HOURS, values)


def roll_up(cluster: Cluster, now: datetime | None = None, *, within_s: float | None = None) -> Span | None:
    """Bring the cache up to `now`: from the last cached hour on, and again what may have changed since.

    That is the last UNSETTLED hours or, where an entry of the ledger may have changed shares from today on, the
    organisation's whole day. A long history that was never computed is, from its beginning, a PIECE at a time: what is
    done stays done, should the rest have to wait for the next time.

    Args:
        cluster: which.
        now: the instant, for those who drive time themselves; default is the clock's.
        within_s: no piece is begun after so many seconds.

    Returns:
        the span that was computed, or None for a cluster without any history.
    """
    now = now or timezone.now()
    last = ClusterHour.objects.filter(cluster=cluster).order_by("-hour").values_list("hour", flat=True).first()
    start = _beginning(cluster) if last is None else min(last, _changed_from(last, now))
    if start is None:
        return None
    began_s = time.monotonic()
    for begins, ends in pieces(_hour(start), _next_hour(now)):
        rebuild(cluster, begins, ends, now=now)
        if within_s is not None and time.monotonic() - began_s > within_s:
            break
    return _hour(start), ends


def pieces(start: datetime, end: datetime) -> Iterator[Span]:
    """[start, end) in spans of at most PIECE, the earliest first."""
    while start < end:
        yield start, min(end, start + PIECE)
        start += PIECE


def unsettled_from(now: datetime) -> datetime:
    """The first hour that the next roll-up may compute again."""
    return _hour(min(now - UNSETTLED, budget_queries.midnight(budget_queries.day_of(now))))


def _changed_from(last: datetime, now: datetime) -> datetime:
    """The first hour that this one does, where `last` is the last cached hour: what the ledger has had since the hour
    before that may be news.
    """
    is_news = LedgerEntry.objects.filter(at__gte=min(last, now) - timedelta(hours=1)).exists()
    return unsettled_from(now) if is_news else _hour(now - UNSETTLED)


def check(cluster: Cluster, start: datetime, end: datetime, *, now: datetime | None = None) -> list[Difference]:
    """Compare the cached hours of [start, end) with a fresh computation, and the root's use with the cluster's.

    Hours that the next roll-up computes again are left out. An empty list is the tick on the pages.
    """
    now = now or timezone.now()
    until = min(_next_hour(end), unsettled_from(now))
    if until <= _hour(start):
        return []
    values = _values(cluster, _hour(start), until, now)
    found = []
    with connection.cursor() as cursor:
        for statement in (usage_sql.COMPARE_CLUSTER_HOURS, usage_sql.COMPARE_USAGE_HOURS, usage_sql.COMPARE_ROOT):
            cursor.execute(statement, values)
            found += [Difference(node, datetime.fromtimestamp(hour, UTC), *rest) for node, hour, *rest in cursor]
    return found


def put_right(cluster: Cluster, now: datetime | None = None) -> int:
    """Check the last CHECKED time, keep what differs for the pages, and compute it again. How many amounts differed."""
    now = now or timezone.now()
    found = check(cluster, now - CHECKED, now, now=now)
    rows = UsageHour.objects.filter(cluster=cluster, hour__gte=now - CHECKED, hour__lt=unsettled_from(now))
    finding = Finding(rows.count(), [_in_words(each) for each in found])
    keep(book=BooksCheck.Book.USAGE, finding=finding, now=now, cluster_name=cluster.name)
    if found:
        rebuild(cluster, min(each.hour for each in found), now, now=now)
    return len(found)


def _in_words(found: Difference) -> str:
    whose = f"node {found.node_id}" if found.node_id else "the cluster"
    return (
        f"{whose}, hour from {found.hour:%Y-%m-%d %H:%M} UTC, {found.field}: {found.cached} was kept, and the stored "
        f"runs say {found.computed}; it was computed again"
    )


def _values(cluster: Cluster, start: datetime, end: datetime, now: datetime) -> dict[str, Any]:
    """What the statements need: instants as Unix seconds, and entitlements as spells of hours with exact fractions."""
    first, last = budget_queries.day_of(start), budget_queries.day_of(end)
    steps = budget_queries.all_entitlement_steps(cluster, first, last + timedelta(days=1))
    rows: list[tuple[int, int, int, int, int]] = []
    for node, spells in steps.items():
        begins = [_first_hour_of(day) for day, _ in spells]
        for (_, value), begin, until in zip(spells, begins, [*begins[1:], _unix(end)], strict=True):
            if value and begin < until:
                rows.append((node, begin, until, value.numerator, value.denominator))
    columns = list(zip(*rows, strict=True)) or [(), (), (), (), ()]
    names = ("nodes", "begins", "untils", "numerators", "denominators")
    return {
        "cluster": cluster.pk,
        "start": _unix(start),
        "end": min(_unix(end), _unix(now)),
        "now": _unix(now),
        "credited": list(usage_sql.CREDITED),
        **{name: list(column) for name, column in zip(names, columns, strict=True)},
    }


def _first_hour_of(day: Any) -> int:
    """The first hour (Unix seconds) that begins on that day or later."""
    return -(-_unix(budget_queries.midnight(day)) // HOUR_S) * HOUR_S


def _beginning(cluster: Cluster) -> datetime | None:
    """The first instant about which anything is known."""
    known = [
        NodeSpell.objects.filter(node__cluster=cluster).aggregate(at=Min("started_at"))["at"],
        Run.objects.filter(cluster=cluster).aggregate(at=Min("started_at"))["at"],
        Workload.objects.filter(cluster=cluster).aggregate(at=Min("submitted_at"))["at"],
    ]
    return min((at for at in known if at is not None), default=None)


def _unix(at: datetime) -> int:
    return int(at.timestamp())


def _hour(at: datetime) -> datetime:
    return datetime.fromtimestamp(_unix(at) // HOUR_S * HOUR_S, UTC)


def _next_hour(at: datetime) -> datetime:
    """`at` itself, or the beginning of the next hour."""
    return datetime.fromtimestamp(-(-_unix(at) // HOUR_S) * HOUR_S, UTC)
