"""The queries of one view of the GPU timeline: each bar of it, or what was held in each of its columns.

Instants are whole seconds since 1970 (UTC). The database sums up: a view of many runs never loads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import connection

from budgets.models import Cluster
from scheduler.simulator.timeline import INSIDE, OVER, UNALLOCATED

RUNS = """
    run AS MATERIALIZED (
        SELECT id, workload_id, leaf_id, funded, size_milli, end_reason, preempted_by_id,
            extract(epoch FROM started_at)::bigint AS start_s,
            extract(epoch FROM running_at)::bigint AS running_s,
            extract(epoch FROM contract_ends_at)::bigint AS contract_end_s,
            extract(epoch FROM stop_asked_at)::bigint AS told_s,
            extract(epoch FROM ended_at)::bigint AS end_s,
            ended_at < %(until)s AND (preempted_by_id IS NOT NULL OR end_reason LIKE 'preempted%%') AS was_taken
        FROM scheduler_run
        WHERE cluster_id = %(cluster)s AND started_at < %(until)s AND (ended_at IS NULL OR ended_at > %(from)s)
            AND started_at IS DISTINCT FROM ended_at {leaves}
    )
"""
"""The runs of a view, with their instants in seconds."""
LEAVES = "AND leaf_id = ANY(%(leaves)s)"
NODES = "AND h.node_id = ANY(%(nodes)s)"

ON_NODES = f"""
    place AS (
        SELECT run.id, h.node_id, sum(h.milli) AS milli
        FROM run JOIN scheduler_holding h ON h.run_id = run.id {NODES}
        GROUP BY run.id, h.node_id
    )
"""
"""What each run held of each node of the view."""
PARTS = """
    life AS (
        SELECT id, leaf_id, funded, start_s, contract_end_s, coalesce(end_s, %(now_s)s) AS last_s,
            least(coalesce(told_s, end_s, %(now_s)s), coalesce(end_s, %(now_s)s)) AS stop_s
        FROM run
    ),
    part AS (
        SELECT id, node_id, milli, leaf_id, kind,
            greatest(a, %(from_s)s) AS a, least(b, %(until_s)s) AS b
        FROM life JOIN place USING (id), LATERAL (VALUES
            (start_s, least(coalesce(contract_end_s, stop_s), stop_s), %(inside)s, funded),
            (least(coalesce(contract_end_s, stop_s), stop_s), stop_s, %(over)s, funded),
            (start_s, stop_s, %(unallocated)s, NOT funded),
            (stop_s, last_s, %(inside)s, TRUE)
        ) AS piece (a, b, kind, is_so)
        WHERE is_so AND least(b, %(until_s)s) > greatest(a, %(from_s)s)
    )
"""
"""The stretches of those runs, and whether others could have had them: `simulator.timeline.parts_of` in SQL, where what
starts up or leaves counts as safe."""


class HeldRow(NamedTuple):
    """How long how much of a node was held in a column by a leaf; `kind` is INSIDE (safe), OVER or UNALLOCATED."""

    node: int
    column: int
    leaf: int
    kind: int
    milli_s: int


class TakenRow(NamedTuple):
    """How much of a leaf's runs was preempted on a node in a column."""

    node: int
    column: int
    leaf: int
    milli: int


class Wanted:
    """The runs of a cluster in [from_s, until_s), of all or some leaves, on some nodes, as known at `now_s`."""

    def __init__(
        self,
        cluster: Cluster,
        nodes: Sequence[int],
        span: tuple[int, int],
        now_s: int,
        leaf_ids: Sequence[int] | None = None,
        *,
        is_everywhere: bool = True,
    ) -> None:
        """Nothing is asked yet. `is_everywhere` says that `nodes` are all that there are."""
        from_s, until_s = span
        self._is_everywhere = is_everywhere
        self._runs = RUNS.format(leaves="" if leaf_ids is None else LEAVES)
        self._values: dict[str, Any] = {
            "cluster": cluster.pk,
            "from": datetime.fromtimestamp(from_s, UTC),
            "until": datetime.fromtimestamp(until_s, UTC),
            "from_s": from_s,
            "until_s": until_s,
            "now_s": now_s,
            "nodes": list(nodes),
            "leaves": list(leaf_ids or ()),
            "inside": INSIDE,
            "over": OVER,
            "unallocated": UNALLOCATED,
        }

    def _ask(self, sql: str, **more: Any) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql, {**self._values, **more})
            return cursor.fetchall()

    def _on_nodes(self) -> str:
        if self._is_everywhere:
            return ""
        return f"WHERE EXISTS (SELECT 1 FROM scheduler_holding h WHERE h.run_id = run.id {NODES})"

    def runs_at_most(self, limit: int) -> int:
        """How many runs there are; counting stops at the limit."""
        some = self._runs.replace("AS MATERIALIZED", "AS NOT MATERIALIZED")
        rows = f"SELECT 1 FROM run {self._on_nodes()} LIMIT %(limit)s"
        return self._ask(f"WITH {some} SELECT count(*) FROM ({rows}) AS found", limit=limit)[0][0]

    def bars(self) -> list[tuple[Any, ...]]:
        """Each device that each run held, in the order of starts: run, node, device, thousandths, start, running,
        end of the contract, told to stop, end, funded, leaf, workload, end reason, preempted by."""
        return self._ask(
            f"""
            WITH {self._runs}
            SELECT run.id, h.node_id, d.index, h.milli, run.start_s, run.running_s, run.contract_end_s, run.told_s,
                run.end_s, run.funded, run.leaf_id, w.code, run.end_reason, taker.code
            FROM run
            JOIN scheduler_holding h ON h.run_id = run.id {NODES}
            JOIN scheduler_device d ON d.id = h.device_id
            JOIN scheduler_workload w ON w.id = run.workload_id
            LEFT JOIN scheduler_workload taker ON taker.id = run.preempted_by_id
            ORDER BY run.start_s, run.id, h.node_id, d.index
            """
        )

    def held(self, width_s: int) -> list[HeldRow]:
        """What was held in each column of that width."""
        rows = self._ask(
            f"""
            WITH {self._runs}, {ON_NODES}, {PARTS}
            SELECT node_id, col, leaf_id, kind,
                sum(milli * (least(b, %(from_s)s + (col + 1) * %(width)s) - greatest(a, %(from_s)s + col * %(width)s)))
                    ::bigint
            FROM part,
                LATERAL generate_series((a - %(from_s)s) / %(width)s, (b - 1 - %(from_s)s) / %(width)s) AS col
            GROUP BY node_id, col, leaf_id, kind
            """,
            width=width_s,
        )
        return [HeldRow(*row) for row in rows]

    def taken(self, width_s: int) -> list[TakenRow]:
        """What was preempted in each column of that width."""
        rows = self._ask(
            f"""
            WITH {self._runs}
            SELECT h.node_id, (end_s - %(from_s)s) / %(width)s, leaf_id, sum(h.milli)::bigint
            FROM run JOIN scheduler_holding h ON h.run_id = run.id {NODES}
            WHERE was_taken AND end_s >= %(from_s)s
            GROUP BY 1, 2, 3
            """,
            width=width_s,
        )
        return [TakenRow(*row) for row in rows]

    def counts(self) -> dict[int, tuple[int, int]]:
        """How many runs each leaf had, and how many of them were preempted."""
        rows = self._ask(
            f"""
            WITH {self._runs.replace("AS MATERIALIZED", "AS NOT MATERIALIZED")}
            SELECT leaf_id, count(*), count(*) FILTER (WHERE was_taken) FROM run {self._on_nodes()} GROUP BY leaf_id
            """
        )
        return {leaf: (runs, taken) for leaf, runs, taken in rows}
