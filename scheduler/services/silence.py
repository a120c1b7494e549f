"""Nodes that are silent, and runs that will not leave (semantics.md sections 4 and 7).

Silence counts only while the portal itself could listen: a portal that was away for an hour has lost no node.
"""

from __future__ import annotations

import json
import urllib.request
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import connection

from budgets.models import Cluster
from scheduler.engine import Code, Policy
from scheduler.models import Node, Rank, Run, Workload
from scheduler.services import events, facts, nodes, runs
from scheduler.services.events import Kind

log = structlog.get_logger(__name__)

LISTENING_PATH = "/api/v1/agent/listening"
PROBE_TIMEOUT_S = 2


def watch(cluster: Cluster, now: datetime) -> bool:
    """See to what is due by the clock: silent nodes become unreachable, then lost; what won't leave is given up.

    Whether anything changed.
    """
    policy = nodes.policy(cluster)
    changed = _give_up_stuck_exits(cluster, policy, now)
    latest = now - timedelta(seconds=policy.heartbeat_timeout_s)
    silent = Node.objects.filter(cluster=cluster, retired_at=None, heartbeat_at__lt=latest)
    quiet = list(silent.exclude(health=Node.Health.DOWN).order_by("name"))
    holding = _that_hold_ranks(quiet)
    rows = [node for node in quiet if node.health != Node.Health.UNREACHABLE or node.pk in holding]
    if not rows:
        return changed
    could_listen_s = listened_s()
    for node in rows:
        assert node.heartbeat_at is not None
        silent_s = min(int((now - node.heartbeat_at).total_seconds()), could_listen_s)
        if silent_s > policy.heartbeat_timeout_s and node.health != Node.Health.UNREACHABLE:
            changed = _fall_silent(node, now) or changed
        if silent_s > policy.lost_after_s and node.pk in holding:
            facts.give_up(node=node, as_of=node.heartbeat_at, now=now)
            changed = True
    return changed


def listened_s() -> int:
    """How long the portal has been able to hear agents without a break: 0 while it does not answer itself, and no
    longer than its database has been there.
    """
    try:
        with urllib.request.urlopen(settings.URL + LISTENING_PATH, timeout=PROBE_TIMEOUT_S) as answer:
            said = json.load(answer)["for_s"]
    except (OSError, ValueError, LookupError) as error:
        log.warning("portal_does_not_listen", url=settings.URL, error=str(error))
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::bigint")
        (database_s,) = cursor.fetchone()
    return min(int(said), max(0, int(database_s)))


def _that_hold_ranks(nodes: list[Node]) -> set[int]:
    """Those of these nodes, by key, on which a rank has not ended. One query, or none: this is asked each second."""
    if not nodes:
        return set()
    live = Rank.objects.filter(node__in=nodes, state__in=facts.LIVE_STATES).exclude(run__state=Run.State.ENDED)
    return set(live.order_by().values_list("node_id", flat=True).distinct())


def _fall_silent(node: Node, at: datetime) -> bool:
    """Nothing new starts there; its runs go on, as far as anybody knows."""
    with events.changing(node.cluster_id):
        row = Node.objects.get(pk=node.pk)
        if row.heartbeat_at != node.heartbeat_at:
            return False  # it has spoken meanwhile
        if not nodes.change_health(row, row.health, Node.Health.UNREACHABLE, at, what="silent"):
            return False
        states = (Run.State.STARTING, Run.State.RUNNING, Run.State.LEAVING)
        affected = Run.objects.filter(ranks__node=node, state__in=states).distinct().select_related("workload")
        for run in affected.order_by("pk"):
            Run.objects.filter(pk=run.pk, state=run.state).update(state=Run.State.UNREACHABLE)
            Workload.objects.filter(pk=run.workload_id, state=run.state).update(state=Workload.State.UNREACHABLE)
            events.record(
                cluster_id=node.cluster_id, kind=Kind.RUN_UNREACHABLE, at=at, run=run, workload=run.workload, node=node
            )
    return True


def _give_up_stuck_exits(cluster: Cluster, policy: Policy, now: datetime) -> bool:
    """A run that has not left long after its grace: its nodes are unfit, and it is over."""
    latest = now - timedelta(seconds=policy.kill_wait_s)
    stuck = list(Run.objects.filter(cluster=cluster, state=Run.State.LEAVING, leave_by__lte=latest).order_by("pk"))
    for run in stuck:
        with events.changing(cluster.pk):
            in_the_way = Node.objects.filter(ranks__run=run, ranks__state__in=facts.LIVE_STATES)
            for node in in_the_way.distinct().order_by("name"):
                nodes.change_health(node, Node.Health.HEALTHY, Node.Health.UNHEALTHY, now, what="stuck exit")
            runs.end(run=run, at=now, code=Code.STUCK_EXIT)
    return bool(stuck)
