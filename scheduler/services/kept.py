"""What is kept of a run's work: checkpoints as its nodes report them, what was saved, and what was lost at its end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import connection

if TYPE_CHECKING:
    from scheduler.services.facts import Said

OLDEST_AGE_S = 100 * 365 * 86_400

NOTE_SQL = """
UPDATE scheduler_rank k
SET checkpoint_at = CASE WHEN t.at IS NULL THEN k.checkpoint_at ELSE greatest(k.checkpoint_at, t.at, r.started_at) END,
    saved = coalesce(t.saved, k.saved)
FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::timestamptz[], %s::bool[]) AS t(node, run, index, at, saved),
    scheduler_run r
WHERE k.node_id = t.node AND k.run_id = t.run AND k.index = t.index AND r.id = k.run_id
AND k.state IN ('wanted', 'running') AND r.state <> 'ended'
"""

SETTLE_SQL = """
UPDATE scheduler_run r SET checkpoint_at = t.at, saved = t.saved, lost_s = CASE
    WHEN r.end_reason IN ('finished', 'cancelled') OR r.running_at IS NULL THEN NULL
    WHEN t.saved THEN 0
    WHEN t.at IS NULL AND w.checkpoint = '' THEN NULL
    ELSE greatest(0, floor(extract(epoch FROM
        r.ended_at - greatest(r.running_at, coalesce(t.at, r.running_at)))))::int END
FROM (SELECT run_id, min(checkpoint_at) AS at, bool_and(saved) AS saved FROM scheduler_rank
    WHERE run_id = ANY(%(runs)s) GROUP BY run_id) t, scheduler_workload w
WHERE r.id = t.run_id AND w.id = r.workload_id
"""
"""Whoever finished or cancelled it has lost nothing; of one that tells of no checkpoint nothing is claimed."""

SAVED_SQL = """
INSERT INTO scheduler_saveddirectory (workload_id, run_id, rank_index, node_id, received_bytes, digest, problem)
SELECT r.workload_id, r.id, k.index, k.node_id, 0, '', ''
FROM scheduler_rank k JOIN scheduler_run r ON r.id = k.run_id
WHERE r.id = ANY(%(runs)s) AND r.saved
ON CONFLICT DO NOTHING
"""


def note(said: Sequence[Said]) -> None:
    """Keep what facts tell of checkpoints and saving, of ranks that have not ended; said again, it changes nothing."""
    telling = [each for each in said if each.fact.checkpoint_age_s is not None or each.fact.saved is not None]
    if not telling:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            NOTE_SQL,
            [
                [each.node_id for each in telling],
                [each.fact.run for each in telling],
                [each.fact.rank for each in telling],
                [_at(each.fact.checkpoint_age_s, each.at) for each in telling],
                [each.fact.saved for each in telling],
            ],
        )


def _at(age_s: int | None, now: datetime) -> datetime | None:
    return None if age_s is None else now - timedelta(seconds=min(age_s, OLDEST_AGE_S))


def settle(run_ids: Sequence[int]) -> None:
    """These runs have ended, in the caller's transaction: what of their work is kept, and how much was lost."""
    if not run_ids:
        return
    with connection.cursor() as cursor:
        for statement in (SETTLE_SQL, SAVED_SQL):
            cursor.execute(statement, {"runs": list(run_ids)})
