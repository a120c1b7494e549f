"""What the people of a node used: device time by owner, which sums to what the books say of the node.

These are figures of persons: a caller asks for all of them only for those who manage the node, else for one person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from budgets.models import BudgetNode, Cluster
from scheduler.services.usage_sql import CREDITED

SHOWN = 50


@dataclass(frozen=True, slots=True)
class PersonUsage:
    """One person's work at or below the node; `name` is empty for work of nobody, and `others` counts the people taken
    together in the last row.
    """

    person_id: int | None
    name: str
    charged_milli_s: int
    uncharged_milli_s: int
    workloads: int
    others: int = 0


USED_SQL = """
WITH used AS (
    SELECT w.owner_id, r.workload_id, r.funded AND r.end_reason <> ALL(%(credited)s) AS is_charged,
        r.size_milli * extract(epoch FROM least(coalesce(r.ended_at, %(now)s), %(end)s, %(now)s)
            - greatest(r.started_at, %(start)s))::bigint AS milli_s
    FROM scheduler_run r JOIN scheduler_workload w ON w.id = r.workload_id
    WHERE r.cluster_id = %(cluster)s AND r.path @> ARRAY[%(node)s]::bigint[] AND (%(all)s OR w.owner_id = %(person)s)
        AND r.started_at < least(%(end)s, %(now)s) AND (r.ended_at IS NULL OR r.ended_at > %(start)s)
)
SELECT u.owner_id, coalesce(nullif(p.display_name, ''), p.username, ''),
    coalesce(sum(u.milli_s) FILTER (WHERE u.is_charged), 0)::bigint AS charged,
    coalesce(sum(u.milli_s) FILTER (WHERE NOT u.is_charged), 0)::bigint, count(DISTINCT u.workload_id)
FROM used u LEFT JOIN budgets_person p ON p.id = u.owner_id GROUP BY 1, 2 ORDER BY charged DESC, 2, 1"""


def by_person(
    node: BudgetNode, cluster: Cluster, start: datetime, end: datetime, now: datetime, *, only: int | None
) -> Sequence[PersonUsage]:
    """What people used of a node in [start, end), the most first; beyond SHOWN taken together. One query.

    Args:
        node, cluster, start, end: what of.
        now: where runs that go on are cut.
        only: one person's id, for those who may see no other's figures; None for all.
    """
    values: dict[str, Any] = {
        "cluster": cluster.pk, "node": node.pk, "start": start, "end": end, "now": now, "all": only is None,
        "person": only, "credited": list(CREDITED),
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(USED_SQL, values)
        rows = [PersonUsage(*row) for row in cursor]
    if len(rows) <= SHOWN:
        return rows
    rest = rows[SHOWN - 1 :]
    together = PersonUsage(
        None,
        "",
        sum(row.charged_milli_s for row in rest),
        sum(row.uncharged_milli_s for row in rest),
        sum(row.workloads for row in rest),
        len(rest),
    )
    return [*rows[: SHOWN - 1], together]
