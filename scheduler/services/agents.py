"""The executor of clusters whose nodes have agents: these pull what they should make so, and push what happened."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from scheduler.executors import waking
from scheduler.models import Node
from scheduler.services import executors


def wake(node_ids: Collection[int]) -> None:
    """Once the transaction is committed, have it told that the desired state of these nodes has changed."""
    executors.tell(node_ids)


class Agents:
    """Node agents (scheduler/executors/agent.py)."""

    def tell(self, cluster_id: int, node_ids: Collection[int]) -> None:
        """Call those that can be called, so that they ask at once and not at their next heartbeat."""
        rows = Node.objects.filter(cluster=cluster_id, pk__in=node_ids).exclude(wake_url="")
        urls = list(rows.values_list("wake_url", flat=True))
        if urls:
            waking.wake(urls)

    def poll(self, cluster_id: int, now: datetime) -> bool:
        """Nothing: they come by themselves."""
        return False
