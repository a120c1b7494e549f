"""Waits by class (semantics.md section 10): first start less submission, and those that have not started yet.

A wait belongs to the time in which it ended, with the first start. Who still waits has no wait yet, and stands beside
it: figures of those that started alone look better the longer the others wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from budgets.models import BudgetNode, Cluster
from scheduler.models import Workload

BOUNDS_S = (60, 300, 900, 3_600, 14_400, 43_200, 86_400, 259_200)
"""Where the bins of a distribution end: 1, 5 and 15 minutes, 1, 4 and 12 hours, 1 and 3 days."""
NO_BINS = (0,) * (len(BOUNDS_S) + 1)


@dataclass(frozen=True, slots=True)
class ClassWaits:
    """The waits of one class, whole seconds; None where none started.

    Attributes:
        bins: how many waits lie in each bin; the last one has no end.
        still: how many have not started yet, and `still_longest_s` how long the first of them has waited.
    """

    name: str
    count: int = 0
    median_s: int | None = None
    p90_s: int | None = None
    longest_s: int | None = None
    bins: Sequence[int] = NO_BINS
    still: int = 0
    still_longest_s: int | None = None


CLASSES_SQL = """
WITH waits AS (
    SELECT w.workload_class AS name, extract(epoch FROM w.first_started_at - w.submitted_at)::bigint AS wait_s
    FROM scheduler_workload w JOIN budgets_budgetnode n ON n.id = w.leaf_id
    WHERE w.cluster_id = %(cluster)s AND n.path @> ARRAY[%(node)s]::bigint[]
        AND w.first_started_at >= %(start)s AND w.first_started_at < %(end)s
), placed AS (SELECT name, wait_s, width_bucket(wait_s, %(bounds)s::bigint[]) AS bin FROM waits)
SELECT name, count(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY wait_s),
    percentile_disc(0.9) WITHIN GROUP (ORDER BY wait_s), max(wait_s), {bins} FROM placed GROUP BY name""".format(
    bins=", ".join(f"count(*) FILTER (WHERE bin = {place})" for place in range(len(NO_BINS)))
)
"""All of a class in one look at its waits: of each bin how many, too."""
STILL_SQL = """
SELECT w.workload_class, count(*), max(extract(epoch FROM %(now)s::timestamptz - w.submitted_at))::bigint
FROM scheduler_workload w JOIN budgets_budgetnode n ON n.id = w.leaf_id
WHERE w.cluster_id = %(cluster)s AND n.path @> ARRAY[%(node)s]::bigint[] AND w.state = 'queued'
    AND w.first_started_at IS NULL GROUP BY 1"""


def by_class(node: BudgetNode, cluster: Cluster, start: datetime, end: datetime, now: datetime) -> list[ClassWaits]:
    """The waits at or below `node` that ended in [start, end), in the order of the classes; all classes.

    Two queries.
    """
    values: dict[str, Any] = {
        "cluster": cluster.pk, "node": node.pk, "start": start, "end": end, "now": now, "bounds": list(BOUNDS_S),
    }  # fmt: skip
    counts: dict[str, tuple[int, int, int, int]] = {}
    bins: dict[str, list[int]] = {}
    still: dict[str, tuple[int, int]] = {}
    with connection.cursor() as cursor:
        cursor.execute(CLASSES_SQL, values)
        for name, count, median_s, p90_s, longest_s, *spread in cursor:
            counts[name], bins[name] = (count, median_s, p90_s, longest_s), spread
        cursor.execute(STILL_SQL, values)
        for name, count, longest_s in cursor:
            still[name] = (count, longest_s)
    found = []
    for name in Workload.Class.values:
        count, median_s, p90_s, longest_s = counts.get(name, (0, None, None, None))
        waiting, waiting_longest_s = still.get(name, (0, None))
        in_bins = tuple(bins.get(name, NO_BINS))
        found.append(ClassWaits(name, count, median_s, p90_s, longest_s, in_bins, waiting, waiting_longest_s))
    return found
