"""Whether a workload needs fast GPUs, where it does not say: by how much of its GPUs work like it has used.

Reserve and pack (Weng et al., NSDI'22) asks a model of computation efficiency; here what was measured answers.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from budgets.models import Cluster, Person

PAST = timedelta(days=28)
"""How far back it looks."""
LEAST_MILLI_S = 600 * 1_000
"""So much device time has to be measured, ten minutes of one device, before it says anything."""

MEASURED_SQL = """
SELECT coalesce(sum(u.busy_milli_s), 0)::bigint, coalesce(sum(u.measured_milli_s), 0)::bigint
FROM scheduler_utilizationhour u
JOIN scheduler_run r ON r.id = u.run_id
JOIN scheduler_workload w ON w.id = r.workload_id
WHERE u.cluster_id = %(cluster)s AND u.hour > %(since)s AND u.hour <= %(until)s AND {of_these}
"""
LIKE_IT = (
    "w.name = %(name)s AND w.name <> '' AND w.owner_id IS NOT DISTINCT FROM %(owner)s",
    "w.name = %(name)s AND w.name <> ''",
    "w.owner_id = %(owner)s",
)
"""Work of that name and owner; else of that name; else of that owner: the first of which enough was measured."""


def percent_used(cluster: Cluster, owner: Person | None, name: str, at: datetime) -> int | None:
    """How much of their GPUs workloads like one of that name and owner have used, in per cent; None if none is known.

    The mean over device time, rounded down.
    """
    given: dict[str, Any] = {"cluster": cluster.pk, "since": at - PAST, "until": at, "name": name}
    given["owner"] = None if owner is None else owner.pk
    for of_these in LIKE_IT:
        with connection.cursor() as cursor:
            cursor.execute(MEASURED_SQL.format(of_these=of_these), given)
            busy_milli_s, measured_milli_s = cursor.fetchone()
        if measured_milli_s >= LEAST_MILLI_S:
            return int(100 * busy_milli_s // measured_milli_s)
    return None
