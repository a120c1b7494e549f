"""Sessions that are saved when they are told to stop, and restored where their next run is placed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from scheduler.models import Rank


@dataclass(frozen=True, slots=True)
class Saved:
    """What a rank of a session finds: the run that saved it last, and where its directory lies.

    Attributes:
        run_id: the run that was saved.
        node_id: where its directory was saved.
        last_node_id: where the workload's last run, saved or not, had this rank.
    """

    run_id: int
    node_id: int
    last_node_id: int


SAVED_SQL = """
SELECT DISTINCT ON (d.workload_id, d.rank_index) d.workload_id, d.rank_index, d.run_id, d.node_id,
    (SELECT k.node_id FROM scheduler_rank k JOIN scheduler_run r ON r.id = k.run_id
     WHERE r.workload_id = d.workload_id AND r.state = 'ended' AND k.index = d.rank_index AND k.began_at IS NOT NULL
     ORDER BY r.number DESC LIMIT 1)
FROM scheduler_saveddirectory d
WHERE d.workload_id = ANY(%s)
ORDER BY d.workload_id, d.rank_index, d.run_id DESC
"""


def to_restore(ranks: Sequence[Rank]) -> dict[tuple[int, int], Saved]:
    """By workload and rank index, what was saved of the sessions among these ranks. One query, or none."""
    ids = {rank.run.workload_id for rank in ranks if rank.run.workload.restore_command and rank.run.number > 1}
    if not ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(SAVED_SQL, [sorted(ids)])
        return {(row[0], row[1]): Saved(row[2], row[3], row[4] or row[3]) for row in cursor.fetchall()}


def restoring(rank: Rank, saved: Mapping[tuple[int, int], Saved]) -> dict[str, Any]:
    """The fields of its `DesiredRank` that restore it; none where nothing of it was saved.

    Its directory is fetched unless it is there already: its last run was on this node, or was saved there.
    """
    found = saved.get((rank.run.workload_id, rank.index))
    if found is None:
        return {}
    is_here = rank.node_id in (found.last_node_id, found.node_id)
    return {
        "command": list(rank.run.workload.restore_command),
        "restores": True,
        "directory_from": 0 if is_here else found.run_id,
    }
