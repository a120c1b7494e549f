"""What held devices did: how long runs were starting, starting again, and saving, and how busy nodes measured the rest.

The first three are computed from the rows of runs, the activity is what nodes measured; where nothing was measured
there is no figure. Amounts are thousandths of the unit times seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db import connection

from budgets.models import Cluster
from scheduler.queries.spans import Steps


@dataclass(frozen=True, slots=True)
class Activity:
    """Of held device time: what it was, and what was measured of it.

    Attributes:
        held_milli_s: all of it.
        startup_milli_s: from a workload's first start until every rank really ran.
        restart_milli_s: the same of its later runs: coming back after a preemption or a lost node.
        saving_milli_s: from being told to stop until the devices were free.
        lost_milli_s: ran, and nothing of it was kept: a workload that cannot be resumed was preempted or lost.
        measured_milli_s: over which nodes measured activity.
        busy_milli_s: that activity.
    """

    held_milli_s: int = 0
    startup_milli_s: int = 0
    restart_milli_s: int = 0
    saving_milli_s: int = 0
    lost_milli_s: int = 0
    measured_milli_s: int = 0
    busy_milli_s: int = 0

    @property
    def utilization(self) -> float | None:
        """Activity over the time that was measured, 0 to 1; None where nothing was."""
        return self.busy_milli_s / self.measured_milli_s if self.measured_milli_s else None

    @property
    def measured(self) -> float | None:
        """How much of the held time was measured, 0 to 1; None where nothing was held."""
        return min(1.0, self.measured_milli_s / self.held_milli_s) if self.held_milli_s else None

    @property
    def running_milli_s(self) -> int:
        """Held and none of the other four: it ran, and what it did was kept."""
        return self.held_milli_s - (
            self.startup_milli_s + self.restart_milli_s + self.saving_milli_s + self.lost_milli_s
        )

    @property
    def idle_milli_s(self) -> int:
        """Measured and not busy."""
        return self.measured_milli_s - self.busy_milli_s

    def part(self, milli_s: int) -> Fraction | None:
        """A part of the held time."""
        return Fraction(milli_s, self.held_milli_s) if self.held_milli_s else None

    def __add__(self, other: Activity) -> Activity:
        """Both together."""
        return Activity(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Activity)))


# The phases that a run has for a short time, cut at the ends of the window and at whole hours. Only runs that did
# not end by themselves are joined with their workloads, to see whether anything was kept of them.
PHASES_SQL = """
WITH runs AS (
    SELECT r.number, r.size_milli, r.workload_id, t.begins, coalesce(t.ended, %(now_s)s) AS ends,
        least(t.running, t.stop, t.ended, %(now_s)s) AS up, least(t.stop, t.ended, %(now_s)s) AS told,
        r.state = 'ended' AND r.end_reason <> ALL(%(own_ends)s) AS was_ended, r.ended_at
    FROM scheduler_run r CROSS JOIN LATERAL (
        SELECT extract(epoch FROM r.started_at)::bigint AS begins, extract(epoch FROM r.running_at)::bigint AS running,
            extract(epoch FROM r.stop_asked_at)::bigint AS stop, extract(epoch FROM r.ended_at)::bigint AS ended
    ) t
    WHERE r.cluster_id = %(cluster)s AND r.started_at < %(end)s AND (r.ended_at IS NULL OR r.ended_at > %(start)s)
), phases AS (
    SELECT CASE number WHEN 1 THEN 'startup' ELSE 'restart' END AS phase, size_milli, begins, up AS ends FROM runs
    UNION ALL SELECT 'saving', size_milli, greatest(told, up), ends FROM runs
    UNION ALL SELECT 'lost', r.size_milli, r.up, r.told FROM runs r JOIN scheduler_workload w ON w.id = r.workload_id
    WHERE r.was_ended AND NOT w.resumable AND w.state IN ('preempted', 'lost') AND w.ended_at = r.ended_at
), cut AS (
    SELECT phase, size_milli, greatest(begins, %(start_s)s) AS begins, least(ends, %(end_s)s, %(now_s)s) AS ends
    FROM phases WHERE begins < ends AND begins < least(%(end_s)s, %(now_s)s) AND ends > %(start_s)s
), hours AS (
    SELECT phase, hour, sum(size_milli * (least(ends, hour + 3600) - greatest(begins, hour))) AS milli_s
    FROM cut, generate_series(begins / 3600 * 3600, ends - 1, 3600) hour GROUP BY phase, hour
)
SELECT width_bucket(to_timestamp(hour), %(starts)s::timestamptz[]) - 1,
    coalesce(sum(milli_s) FILTER (WHERE phase = 'startup'), 0)::bigint,
    coalesce(sum(milli_s) FILTER (WHERE phase = 'restart'), 0)::bigint,
    coalesce(sum(milli_s) FILTER (WHERE phase = 'saving'), 0)::bigint,
    coalesce(sum(milli_s) FILTER (WHERE phase = 'lost'), 0)::bigint
FROM hours GROUP BY 1"""

HELD_SQL = """
SELECT width_bucket(hour, %(starts)s::timestamptz[]) - 1, sum(held_milli_s)::bigint
FROM scheduler_clusterhour
WHERE cluster_id = %(cluster)s AND hour >= %(start)s AND hour < %(end)s GROUP BY 1"""

MEASURED_SQL = """
SELECT width_bucket(hour, %(starts)s::timestamptz[]) - 1, sum(measured)::bigint, sum(busy)::bigint
FROM (
    SELECT hour, sum(measured_milli_s) AS measured, sum(busy_milli_s) AS busy FROM scheduler_utilizationhour
    WHERE cluster_id = %(cluster)s AND hour >= %(start)s AND hour < %(end)s GROUP BY hour
) hours GROUP BY 1"""

OWN_ENDS = ("finished", "failed", "cancelled", "time_limit")
"""End reasons of runs that ended by themselves, or because of their owner."""


def by_step(cluster: Cluster, steps: Steps, now: datetime) -> Sequence[Activity]:
    """What the cluster's held devices did in each step; what goes on is cut at `now`. Three queries.

    What was held is read from the hourly cache, the rest from runs and from what nodes measured.
    """
    values: dict[str, Any] = {
        "cluster": cluster.pk,
        "start": steps.start,
        "end": steps.end,
        "starts": list(steps.starts),
        "start_s": int(steps.start.timestamp()),
        "end_s": int(steps.end.timestamp()),
        "now_s": int(now.timestamp()),
        "own_ends": list(OWN_ENDS),
    }
    found = [Activity()] * len(steps.starts)
    with connection.cursor() as cursor:
        cursor.execute(HELD_SQL, values)
        for place, held in cursor:
            found[place] += Activity(held)
        cursor.execute(PHASES_SQL, values)
        for place, *amounts in cursor:
            found[place] += Activity(0, *amounts)
        cursor.execute(MEASURED_SQL, values)
        for place, measured, busy in cursor:
            found[place] += Activity(measured_milli_s=measured, busy_milli_s=busy)
    return found
