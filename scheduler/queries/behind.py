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
    SELECT r.workload_id, r.id, r.funded, r.size_milli * extract(epoch FROM
        least(coalesce(r.ended_at, %(now)s), %(end)s) - greatest(r.started_at, %(start)s))::bigint AS milli_s
    FROM scheduler_run r
    WHERE r.cluster_id = %(cluster)s AND r.started_at < %(end)s AND (r.ended_at IS NULL OR r.ended_at > %(start)s)
)"""

_WHO = "w.code, n.id, n.code, w.state, w.size_milli, w.min_runtime_s"
_FROM = "scheduler_workload w JOIN budgets_budgetnode n ON n.id = w.leaf_id"

HELD_SQL = f"""
WITH {_HELD}, by_workload AS (
    SELECT workload_id, sum(milli_s)::bigint AS milli_s,
        coalesce(sum(milli_s) FILTER (WHERE NOT funded), 0)::bigint AS uncharged
    FROM held GROUP BY workload_id
)
SELECT {_WHO}, b.milli_s, b.uncharged, NULL, NULL, count(*) OVER ()
FROM by_workload b JOIN {_FROM} ON w.id = b.workload_id
ORDER BY b.milli_s DESC, w.code LIMIT %(limit)s OFFSET %(offset)s"""

# Funded work asks from its submission to its end: what of that it did not hold, it waited for.
WAITED_SQL = f"""
WITH {_HELD}, asked AS (
    SELECT w.id, w.size_milli * extract(epoch FROM least(coalesce(w.ended_at, %(now)s), %(end)s)
        - greatest(w.submitted_at, %(start)s))::bigint AS milli_s
    FROM scheduler_workload w
    WHERE w.cluster_id = %(cluster)s AND w.min_runtime_s > 0 AND w.state <> 'refused'
        AND NOT (w.state = 'held' AND w.reason_code = 'waiting_after')
        AND w.submitted_at < %(end)s AND (w.ended_at IS NULL OR w.ended_at > %(start)s)
), waited AS (
    SELECT a.id, a.milli_s - coalesce((SELECT sum(h.milli_s * w.size_milli / greatest(r.size_milli, 1))::bigint
        FROM held h JOIN scheduler_run r ON r.id = h.id JOIN scheduler_workload w ON w.id = h.workload_id
        WHERE h.workload_id = a.id), 0) AS milli_s
    FROM asked a
)
SELECT {_WHO}, t.milli_s, 0, NULL, NULL, count(*) OVER ()
FROM waited t JOIN {_FROM} ON w.id = t.id WHERE t.milli_s > 0
ORDER BY t.milli_s DESC, w.code LIMIT %(limit)s OFFSET %(offset)s"""

IDLE_SQL = f"""
WITH measured AS (
    SELECT r.workload_id, sum(u.measured_milli_s)::bigint AS measured, sum(u.busy_milli_s)::bigint AS busy
    FROM scheduler_utilizationhour u JOIN scheduler_run r ON r.id = u.run_id
    WHERE u.cluster_id = %(cluster)s AND u.hour >= %(start)s AND u.hour < %(end)s
    GROUP BY r.workload_id
)
SELECT {_WHO}, m.measured - m.busy AS idle, 0, m.measured, m.busy, count(*) OVER ()
FROM measured m JOIN {_FROM} ON w.id = m.workload_id
WHERE w.owner_id = %(person)s OR n.path && %(managed)s::bigint[]
ORDER BY idle DESC, w.code LIMIT %(limit)s OFFSET %(offset)s"""


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
