"""What workloads waited for: their share, contracts, room in one place, or something else.

Jeon et al. (ATC'19) tell delays by fair share, where a group's quota is used up, from delays by fragmentation, where
enough GPUs are free, but not together. Each pass says of everybody who waits why; a decision is stored when that
changes (services.current), so the time from one to the next was waited for the first one's reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db import connection

from budgets.models import BudgetNode, Cluster
from scheduler.engine import Code
from scheduler.models import Workload
from scheduler.queries.spans import Steps
from scheduler.services.emergency import STOPPED

HELD = "held"


class Cause(StrEnum):
    """What was waited for."""

    FAIR_SHARE = "fair_share"
    """Others had had less of their share, or nobody had had more of one that could be taken over; or a maximum."""
    CONTRACTS = "contracts"
    """What it might have was inside others' contracts, promised or private to others, or still being left."""
    FRAGMENTATION = "fragmentation"
    """Enough was free, but not together."""
    NODES = "nodes"
    """Too few nodes were fit."""
    HELD = "held"
    """It, or the whole cluster, was stopped; or it was looked at why it had failed."""
    UNSEEN = "unseen"
    """No pass had looked at it yet, or none that was kept."""


CAUSES: Mapping[str, Cause] = {
    Code.WAITING_ORDER: Cause.FAIR_SHARE,
    Code.WAITING_MAXIMUM: Cause.FAIR_SHARE,
    Code.WAITING_CAPACITY: Cause.CONTRACTS,
    Code.WAITING_RESERVATION: Cause.CONTRACTS,
    Code.WAITING_CELLS: Cause.CONTRACTS,
    Code.WAITING_VICTIMS: Cause.CONTRACTS,
    Code.WAITING_PLACEMENT: Cause.FRAGMENTATION,
    Code.WAITING_NODES: Cause.NODES,
    Code.TOO_LARGE: Cause.NODES,
    STOPPED: Cause.HELD,
    HELD: Cause.HELD,
}
"""By the code of a reason; every other is unseen."""


@dataclass(frozen=True, slots=True)
class Delay:
    """How long was waited for one cause: seconds of workloads, and device time, thousandths of a device."""

    cause: Cause
    waited_s: int
    waited_milli_s: int


@dataclass(frozen=True, slots=True)
class Delays:
    """What work at or below a node waited for before its first start.

    Attributes:
        started: of what started for the first time within the time; `still` of what has not started yet, until now.
        by_step: device time by cause, of what first started in each step.
    """

    started: Sequence[Delay]
    still: Sequence[Delay]
    by_step: Sequence[Mapping[Cause, int]]

    @property
    def started_milli_s(self) -> int:
        """Over all causes."""
        return sum(each.waited_milli_s for each in self.started)

    @property
    def still_milli_s(self) -> int:
        """Over all causes."""
        return sum(each.waited_milli_s for each in self.still)


# Every mark says what is waited for from then on. Of marks of one instant the last one counts: a run that ended, then
# what a pass said of it, then a run that started. To whom devices are promised is told so, whatever it waits for until
# then: where enough was free when it was told, that is room in one place. OFFSET 0 has decisions looked up workload by
# workload: their table holds years, which would all be read and hashed.
TOLD = """
    SELECT id, until, size_milli, step, submitted_at AS at, 0 AS rank, 0::bigint AS number, '' AS code FROM chosen
    UNION ALL
    SELECT c.id, c.until, c.size_milli, c.step, d.at, 2, d.id, CASE
        WHEN d.action = 'hold' THEN 'held'
        WHEN d.code = 'waiting_capacity' AND (d.numbers->>'free_milli')::bigint >= c.size_milli THEN 'waiting_placement'
        ELSE d.code END
    FROM chosen c CROSS JOIN LATERAL (
        SELECT id, at, action, code, numbers FROM scheduler_decision
        WHERE workload_id = c.id AND action IN ('wait', 'claim', 'hold', 'release') AND at < c.until OFFSET 0
    ) d"""
RAN = """
    UNION ALL
    SELECT c.id, c.until, c.size_milli, c.step, r.ended_at, 1, r.id, ''
    FROM chosen c JOIN scheduler_run r ON r.workload_id = c.id
    WHERE r.ended_at IS NOT NULL AND r.ended_at < c.until
    UNION ALL
    SELECT c.id, c.until, c.size_milli, c.step, r.started_at, 3, r.id, NULL
    FROM chosen c JOIN scheduler_run r ON r.workload_id = c.id
    WHERE r.started_at < c.until"""
SPANS = """
spans AS (
    SELECT step, size_milli, code, extract(epoch FROM
        coalesce(lead(at) OVER (PARTITION BY id ORDER BY at, rank, number), until) - at)::bigint AS s
    FROM marks
)"""
OF_ONE_SQL = f"""
WITH chosen AS (
    SELECT id, submitted_at, coalesce(ended_at, %(now)s) AS until, size_milli, 0 AS step
    FROM scheduler_workload WHERE id = %(id)s
), marks AS ({TOLD}{RAN}), {SPANS}
SELECT code, sum(s)::bigint FROM spans WHERE code IS NOT NULL GROUP BY code"""
OF_NODE_SQL = f"""
WITH chosen AS (
    SELECT w.id, w.submitted_at, w.first_started_at AS until, w.size_milli,
        width_bucket(extract(epoch FROM w.first_started_at)::bigint, %(starts)s::bigint[]) AS step
    FROM scheduler_workload w JOIN budgets_budgetnode n ON n.id = w.leaf_id
    WHERE w.cluster_id = %(cluster)s AND n.path @> ARRAY[%(node)s]::bigint[]
        AND w.first_started_at >= %(start)s AND w.first_started_at < %(end)s
    UNION ALL
    SELECT w.id, w.submitted_at, %(now)s, w.size_milli, 0
    FROM scheduler_workload w JOIN budgets_budgetnode n ON n.id = w.leaf_id
    WHERE w.cluster_id = %(cluster)s AND n.path @> ARRAY[%(node)s]::bigint[]
        AND w.state = 'queued' AND w.first_started_at IS NULL
), marks AS ({TOLD}), {SPANS}
SELECT step, code, sum(s)::bigint, sum(s * size_milli)::bigint FROM spans GROUP BY 1, 2"""
"""Before the first start there are no runs."""


def of_workload(workload: Workload, now: datetime) -> list[Delay]:
    """What a workload has waited for, over all its waits, in the order of the causes; those that were. One query.

    One that came after another's end has waited since then.
    """
    if workload.state == Workload.State.REFUSED:
        return []
    waited: dict[Cause, int] = {}
    with connection.cursor() as cursor:
        cursor.execute(OF_ONE_SQL, {"id": workload.pk, "now": max(now, workload.submitted_at)})
        for code, waited_s in cursor:
            _add(waited, code, waited_s)
    return [Delay(cause, waited[cause], waited[cause] * workload.size_milli) for cause in Cause if waited.get(cause)]


def of_node(node: BudgetNode, cluster: Cluster, steps: Steps, end: datetime, now: datetime) -> Delays:
    """What work at or below a node waited for, of waits that ended in [steps.start, end); one query."""
    values: dict[str, Any] = {
        "cluster": cluster.pk, "node": node.pk, "start": steps.start, "end": end, "now": now,
        "starts": [int(at.timestamp()) for at in steps.starts],
    }  # fmt: skip
    seconds: tuple[dict[Cause, int], dict[Cause, int]] = ({}, {})
    amounts: tuple[dict[Cause, int], dict[Cause, int]] = ({}, {})
    by_step: list[dict[Cause, int]] = [{} for _ in steps.starts]
    with connection.cursor() as cursor:
        cursor.execute(OF_NODE_SQL, values)
        for step, code, waited_s, waited_milli_s in cursor:
            has_started = step > 0
            _add(seconds[has_started], code, waited_s)
            _add(amounts[has_started], code, waited_milli_s)
            if has_started:
                _add(by_step[step - 1], code, waited_milli_s)
    still, started = (
        [Delay(cause, each_s.get(cause, 0), amount.get(cause, 0)) for cause in Cause]
        for each_s, amount in zip(seconds, amounts, strict=True)
    )
    return Delays(started, still, by_step)


def _add(to: dict[Cause, int], code: str, amount: int) -> None:
    if amount:
        cause = CAUSES.get(code, Cause.UNSEEN)
        to[cause] = to.get(cause, 0) + amount
