"""How a cluster's policy came to be what it is: its versions, and since which each knob has its value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from budgets.models import Cluster
from scheduler.knobs import KNOBS
from scheduler.models import PolicyVersion
from scheduler.services.policies import DEFAULTS, effective

CHANGED_SQL = """
SELECT knob.key, max(version.number)
FROM (
    SELECT number, knobs, lag(knobs, 1, '{}'::jsonb) OVER (ORDER BY number) AS before
    FROM scheduler_policyversion WHERE cluster_id = %(cluster)s
) version CROSS JOIN jsonb_each(%(defaults)s::jsonb) knob
WHERE coalesce(version.knobs -> knob.key, knob.value) <> coalesce(version.before -> knob.key, knob.value)
GROUP BY knob.key
"""
"""The last version in which each knob had another value than in the one before; before the first are all defaults."""


@dataclass(frozen=True, slots=True)
class Step:
    """A version, and the knobs that it changed: what they were before, and are since."""

    version: PolicyVersion
    changes: dict[str, tuple[Any, Any]]


def since(cluster: Cluster) -> dict[str, PolicyVersion]:
    """By knob the version that gave it its value; without those that have had their default ever since. Two queries."""
    with connection.cursor() as cursor:
        cursor.execute(CHANGED_SQL, {"cluster": cluster.pk, "defaults": json.dumps(DEFAULTS)})
        numbers: dict[str, int] = dict(cursor.fetchall())
    rows = PolicyVersion.objects.filter(cluster=cluster, number__in=set(numbers.values())).select_related("made_by")
    versions = {row.number: row for row in rows}
    return {name: versions[number] for name, number in numbers.items()}


def steps(cluster: Cluster, first: int, count: int) -> list[Step]:
    """So many versions with what each changed, the latest first, from the `first` of them on. One query."""
    rows = PolicyVersion.objects.filter(cluster=cluster).select_related("made_by").order_by("-number")
    found: Sequence[PolicyVersion] = list(rows[first : first + count + 1])
    values: list[Mapping[str, Any]] = [effective(row) for row in found]
    if len(found) <= count:
        values.append(DEFAULTS)
    return [
        Step(row, {name: (old[name], new[name]) for name in KNOBS if old[name] != new[name]})
        for row, new, old in zip(found[:count], values, values[1:], strict=False)
    ]
