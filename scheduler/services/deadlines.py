"""What becomes due by the clock alone: time limits."""

from __future__ import annotations

from datetime import datetime

from budgets.models import Cluster
from scheduler.services import agents, events, policies, runs


def enforce(cluster: Cluster, now: datetime) -> bool:
    """Tell runs to stop whose workload has run for its whole time limit. Whether there were any."""
    over = runs.over_time_limit(cluster.pk, now)
    if not over:
        return False
    policies.ensure(cluster)
    policy = policies.as_policy(policies.latest(cluster))
    stopped = False
    with events.changing(cluster.pk):
        for run in over:
            if runs.tell_to_stop(run=run, code=runs.TIME_LIMIT, at=now, policy=policy):
                stopped = True
                agents.wake(set(run.ranks.values_list("node_id", flat=True)))
    return stopped
