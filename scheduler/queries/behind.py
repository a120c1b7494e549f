"""What is behind a figure of the pyramid: the nodes that were unfit, and the workloads that held, waited or idled.

Lists come a page at a time, the largest first; every one has a total, so a page can say how many there are. Amounts are
thousandths of the unit times seconds, cut to the window.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.db import connection

from budgets.models import Cluster

PER_PAGE = 25
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Unfit:
    """A stretch in which a node could not be used: draining, unreachable, down, or in maintenance."""

    node: str
    state: str
    start: datetime
    end: datetime | None
    lost_milli_s: int


@dataclass(frozen=True, slots=True)
class Work:
    """A workload with what it held, waited for, or left idle in the window.

    `measured_milli_s` and `busy_milli_s` are None where nothing was measured, or where it was not asked for.
    """

    code: str
    leaf_id: int
    leaf_code: str
    state: str
    size_milli: int
    min_runtime_s: int
    milli_s: int
    uncharged_milli_s: int = 0
    measured_milli_s: int | None = None
    busy_milli_s: int | None = None

    @property
    def utilization(self) -> float | None:
        """Activity over measured time."""
        if not self.measured_milli_s or self.busy_milli_s is None:
            return None
        return self.busy_milli_s / self.measured_milli_s


@dataclass(frozen=True, slots=True)
class Listed(Generic[Row]):
    """One page of a list: its rows, and how many there are in all."""

    rows: Sequence[Row]
    count: int


@dataclass(frozen=True, slots=True)
class Window:
    """[start, end) on a cluster, with what goes on cut at `now`."""

    cluster: Cluster
    start: datetime
    end: datetime
    now: datetime

    def values(self, page: int, **more: Any) -> dict[str, Any]:
        """The parameters of a statement."""
        return {
            "cluster": self.cluster.pk,
            "start": self.start,
            "end": min(self.end, self.now),
            "now": self.now,
            "limit": PER_PAGE,
            "offset": (page - 1) * PER_PAGE,
            **more,
        }


UNFIT_SQL = """
WITH stretches AS (
    SELECT s.node_id, s.state, s.started_at AS begins, s.ended_at AS ends
    FROM scheduler_nodespell s WHERE s.state <> 'healthy'
    UNION ALL
    SELECT w.node_id, 'maintenance', w.starts_at, w.ends_at
    FROM scheduler_maintenancewindow w WHERE w.cancelled_at IS NULL AND w.starts_at <= %(now)s
)
SELECT n.name, t.state, t.begins, t.ends,
    (1000 * (SELECT count(*) FROM scheduler_device d WHERE d.node_id = n.id) * extract(epoch FROM
        least(coalesce(t.ends, %(now)s), %(end)s) - greatest(t.begins, %(start)s)))::bigint AS lost,
    count(*) OVER ()
FROM stretches t JOIN scheduler_node n ON n.id = t.node_id
WHERE n.cluster_id = %(cluster)s AND t.begins < %(end)s AND coalesce(t.ends, %(now)s) > %(start)s
ORDER BY lost DESC, n.name, t.begins LIMIT %(limit)s OFFSET %(offset)s"""

_HELD = """
held AS (
    SELECT r.workload_id, sum(r.size_milli * t.s)::bigint AS milli_s, sum(t.s) AS held_s,
        coalesce(sum(r.size_milli * t.s) FILTER (WHERE NOT r.funded), 0)::bigint AS uncharged
    FROM scheduler_run r CROSS JOIN LATERAL (SELECT extract(epoch FROM
        least(coalesce(r.ended_at, %(now)s), %(end)s) - greatest(r.started_at, %(start)s))::bigint AS s) t
    WHERE r.cluster_id = %(cluster)s AND r.started_at < %(end)s AND (r.ended_at IS NULL OR r.ended_at > %(start)s)
    GROUP BY r.workload_id
)"""

# Only the page's rows are joined with what they are called.
_PAGE = """
SELECT w.code, n.id, n.code, w.state, w.size_milli, w.min_runtime_s, t.milli_s, t.uncharged, t.measured, t.busy, t.count
FROM ({top} LIMIT %(limit)s OFFSET %(offset)s) t
JOIN scheduler_workload w ON w.id = t.workload_id JOIN budgets_budgetnode n ON n.id = w.leaf_id
ORDER BY t.milli_s DESC, t.workload_id"""

HELD_SQL = f"WITH {_HELD}" + _PAGE.format(
    top="""
    SELECT workload_id, milli_s, uncharged, NULL AS measured, NULL AS busy, count(*) OVER () AS count
    FROM held ORDER BY milli_s DESC, workload_id"""
)

# Funded work asks from its submission to its end: what of that it did not hold, it waited for.
WAITED_SQL = f"""
WITH {_HELD}, waited AS (
    SELECT w.id AS workload_id, (w.size_milli * (extract(epoch FROM least(coalesce(w.ended_at, %(now)s), %(end)s)
        - greatest(w.submitted_at, %(start)s))::bigint - coalesce(h.held_s, 0)))::bigint AS milli_s
    FROM scheduler_workload w LEFT JOIN held h ON h.workload_id = w.id
    WHERE w.cluster_id = %(cluster)s AND w.min_runtime_s > 0 AND w.state <> 'refused'
        AND NOT (w.state = 'held' AND w.reason_code IN ('waiting_after', 'canary_failed'))
        AND w.submitted_at < %(end)s AND (w.ended_at IS NULL OR w.ended_at > %(start)s)
)""" + _PAGE.format(
    top="""
    SELECT workload_id, milli_s, 0 AS uncharged, NULL AS measured, NULL AS busy, count(*) OVER () AS count
    FROM waited WHERE milli_s > 0 ORDER BY milli_s DESC, workload_id"""
)

IDLE_SQL = """
WITH by_run AS (
    SELECT run_id, sum(measured_milli_s) AS measured, sum(busy_milli_s) AS busy
    FROM scheduler_utilizationhour
    WHERE cluster_id = %(cluster)s AND hour >= %(start)s AND hour < %(end)s GROUP BY run_id
), measured AS (
    SELECT r.workload_id, sum(m.measured)::bigint AS measured, sum(m.busy)::bigint AS busy
    FROM by_run m JOIN scheduler_run r ON r.id = m.run_id
    WHERE r.path && %(managed)s::bigint[]
        OR EXISTS (SELECT FROM scheduler_workload w WHERE w.id = r.workload_id AND w.owner_id = %(person)s)
    GROUP BY r.workload_id
)""" + _PAGE.format(
    top="""
    SELECT workload_id, measured - busy AS milli_s, 0 AS uncharged, measured, busy, count(*) OVER () AS count
    FROM measured ORDER BY milli_s DESC, workload_id"""
)


def unfit(window: Window, page: int) -> Listed[Unfit]:
    """Stretches in which nodes could not be used, those that cost most first. One query."""
    rows = _asked(UNFIT_SQL, window.values(page))
    return Listed([Unfit(*row[:-1]) for row in rows], rows[0][-1] if rows else 0)


def held(window: Window, page: int) -> Listed[Work]:
    """Who held the devices, the most first. One query."""
    return _works(HELD_SQL, window.values(page))


def waited(window: Window, page: int) -> Listed[Work]:
    """Funded work that asked and did not hold, the most first. One query."""
    return _works(WAITED_SQL, window.values(page))


def idled(window: Window, page: int, *, person_id: int, managed: Collection[int]) -> Listed[Work]:
    """What was measured and not busy, the most first. One query.

    What somebody's workload left idle is a figure of that person: so only the person's own are listed, and those at or
    below the nodes that they manage.
    """
    return _works(IDLE_SQL, window.values(page, person=person_id, managed=list(managed)))


def _works(statement: str, values: dict[str, Any]) -> Listed[Work]:
    rows = _asked(statement, values)
    return Listed([Work(*row[:-1]) for row in rows], rows[0][-1] if rows else 0)


def _asked(statement: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()
