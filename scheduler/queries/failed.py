"""Why runs failed, and what they had held, summed over a part of the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from budgets.models import BudgetNode, Cluster
from scheduler.failures import ORIGINS, FailureClass, Origin


@dataclass(frozen=True, slots=True)
class Lost:
    """The runs that failed for one reason, and the device time that they had held, thousandths of a device."""

    kind: FailureClass
    runs: int
    held_milli_s: int

    @property
    def origin(self) -> Origin:
        """Whose it is."""
        return ORIGINS[self.kind]


@dataclass(frozen=True, slots=True)
class Losses:
    """The runs at or below a node that ended within a time: how many in all, and those that failed, by class.

    Attributes:
        by_step: device time of those that failed in each step, by whose it was.
    """

    ended: int
    lines: Sequence[Lost]
    by_step: Sequence[Mapping[Origin, int]]

    @property
    def failed(self) -> int:
        """How many failed and were judged."""
        return sum(each.runs for each in self.lines)

    @property
    def held_milli_s(self) -> int:
        """Device time that they had held."""
        return sum(each.held_milli_s for each in self.lines)


ENDED_SQL = """
SELECT count(*) FROM scheduler_run
WHERE cluster_id = %(cluster)s AND path @> ARRAY[%(node)s]::bigint[] AND ended_at >= %(start)s AND ended_at < %(end)s"""
LOST_SQL = """
SELECT width_bucket(extract(epoch FROM ended_at)::bigint, %(starts)s::bigint[]) AS step, failure_class, count(*),
    sum(size_milli * extract(epoch FROM ended_at - started_at)::bigint)::bigint
FROM scheduler_run
WHERE cluster_id = %(cluster)s AND path @> ARRAY[%(node)s]::bigint[] AND failure_class <> ''
    AND ended_at >= %(start)s AND ended_at < %(end)s
GROUP BY 1, 2"""


def of_node(node: BudgetNode, cluster: Cluster, starts: Sequence[datetime], end: datetime) -> Losses:
    """Of the runs at or below a node that ended in [starts[0], end), cut into steps; largest first. Two queries."""
    values: dict[str, Any] = {
        "cluster": cluster.pk, "node": node.pk, "start": starts[0], "end": end,
        "starts": [int(at.timestamp()) for at in starts],
    }  # fmt: skip
    runs: dict[FailureClass, int] = {}
    held: dict[FailureClass, int] = {}
    by_step: list[dict[Origin, int]] = [{} for _ in starts]
    with connection.cursor() as cursor:
        cursor.execute(ENDED_SQL, values)
        (ended,) = cursor.fetchone()
        cursor.execute(LOST_SQL, values)
        for step, name, count, held_milli_s in cursor:
            kind = FailureClass(name)
            runs[kind] = runs.get(kind, 0) + count
            held[kind] = held.get(kind, 0) + held_milli_s
            in_step, origin = by_step[step - 1], ORIGINS[kind]
            in_step[origin] = in_step.get(origin, 0) + held_milli_s
    lines = sorted(
        (Lost(kind, runs[kind], held[kind]) for kind in runs), key=lambda each: (-each.held_milli_s, each.kind)
    )
    return Losses(ended, lines, by_step)
