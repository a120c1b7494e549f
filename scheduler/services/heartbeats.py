"""Heartbeats that say nothing new, of nodes where nothing new is wanted: one statement each, as most of all are.

A thousand agents say each ten seconds that they are there. `plain` takes that down and gives what their ranks are; for
whatever else there is to say or to do, the long way is taken (portal/api/agent.py), which does the same again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from scheduler.engine import Policy
from scheduler.executors.heartbeat import Sync
from scheduler.services.nodes import digest

PLAIN_SQL = """
WITH heard AS (
    UPDATE scheduler_node n SET heartbeat_at = %(now)s, wake_url = %(wake_url)s, agent_epoch = %(epoch)s
    FROM budgets_cluster c
    WHERE c.id = n.cluster_id AND c.name = %(cluster)s AND n.name = %(node)s AND n.token_hash = %(token)s
        AND n.token_hash <> '' AND n.retired_at IS NULL AND n.health = 'healthy' AND n.trouble = ''
        AND n.agent_epoch <= %(epoch)s AND (n.heartbeat_at IS NULL OR n.heartbeat_at <= %(now)s)
        AND NOT EXISTS (SELECT 1 FROM scheduler_repair x WHERE x.node_id = n.id AND x.state = 'repairing')
    RETURNING n.id, n.cluster_id, c.unit
)
SELECT h.unit, coalesce((SELECT number FROM scheduler_portalepoch LIMIT 1), 1),
    (SELECT knobs FROM scheduler_policyversion p WHERE p.cluster_id = h.cluster_id ORDER BY number DESC LIMIT 1),
    (
        SELECT jsonb_agg(jsonb_build_object(
            'is_plain', k.state = 'running' AND r.stop_asked_at IS NULL,
            'run', r.id, 'rank', k.index, 'workload', w.code, 'owner', coalesce(w.owner_id, 0),
            'nodes', (SELECT jsonb_agg(m.name ORDER BY g.index) FROM scheduler_rank g
                JOIN scheduler_node m ON m.id = g.node_id WHERE g.run_id = r.id),
            'devices', (SELECT coalesce(jsonb_agg(d.index ORDER BY d.index), '[]') FROM scheduler_holding o
                JOIN scheduler_device d ON d.id = o.device_id WHERE o.run_id = r.id AND o.node_id = h.id
                AND o.released_at IS NULL)
        ) ORDER BY r.id, k.index)
        FROM scheduler_rank k JOIN scheduler_run r ON r.id = k.run_id JOIN scheduler_workload w ON w.id = r.workload_id
        WHERE k.node_id = h.id AND k.state IN ('wanted', 'running') AND r.state <> 'ended'
    )
FROM heard h
"""

DEFAULTS = Policy()
STARTS_NOTHING: Mapping[str, Any] = {
    "command": [],
    "environment": {},
    "checkpoint": "",
    "master": "",
    "began": True,
    "stop_in_s": None,
}
"""A rank that has begun is never started again (base.DesiredRank): what would start it is not said each ten seconds."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What the node is told."""

    epoch: int
    self_fence_s: int
    desired: list[dict[str, Any]]


def is_plain(said: Sync) -> bool:
    """Whether the heartbeat says no more than that the node is there and well."""
    return not (said.facts or said.samples or said.problems or said.directories or said.repair is not None)


def plain(*, said: Sync, token: str, wake_url: str, now: datetime) -> Heard | None:
    """Take a heartbeat that `is_plain`.

    None where it is not for us to say: another token than the node's, a node that is not healthy, or one where a rank
    is to be started or stopped.
    """
    values: dict[str, Any] = {
        "cluster": said.cluster,
        "node": said.node,
        "token": digest(token),
        "epoch": said.epoch,
        "wake_url": wake_url,
        "now": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(PLAIN_SQL, values)
        row = cursor.fetchone()
    if row is None:
        return None
    unit, epoch, knobs, ranks = row[0], row[1], *(json.loads(each or "null") for each in row[2:])
    if knobs is None or not all(rank.pop("is_plain") for rank in ranks or ()):
        return None
    told = {**STARTS_NOTHING, "unit": unit, "grace_s": knobs.get("grace_s", DEFAULTS.grace_s)}
    return Heard(epoch, knobs.get("self_fence_s", DEFAULTS.self_fence_s), [{**told, **rank} for rank in ranks or ()])
