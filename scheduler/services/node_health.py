"""What a node's agent says of its health: trouble takes the node out of service by contract, its end brings it back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.utils import timezone

from scheduler.models import Holding, Node
from scheduler.services import events, nodes, repairs

BY_AGENT, BY_PERSON = "agent", "person"


def report(*, node: Node, problems: Sequence[str], now: datetime | None = None) -> bool:
    """Take what an agent finds wrong with its node; nothing wrong brings back what only trouble had taken.

    A node that a person has called unhealthy or down stays so until a person says otherwise. One that is known to be
    down, or whose repair is not over, is not brought back here. Whether anything changed.
    """
    at = (now or timezone.now()).replace(microsecond=0)
    text = "; ".join(problems)[:300]
    row = Node.objects.get(pk=node.pk)
    if not _is_news(row, text):
        return False
    with events.changing(node.cluster_id):
        row.refresh_from_db()
        if not _is_news(row, text):
            return False
        if text:
            Node.objects.filter(pk=row.pk).update(trouble=text, trouble_by=BY_AGENT)
            nodes.change_health(
                row, Node.Health.HEALTHY, Node.Health.UNHEALTHY, at, what="unhealthy", reason=text[:200]
            )
            return True
        if row.health == Node.Health.UNHEALTHY and not _may_return(row):
            return False
        Node.objects.filter(pk=row.pk).update(trouble="", trouble_by="")
        nodes.change_health(row, Node.Health.UNHEALTHY, Node.Health.HEALTHY, at, what="healthy again")
    return True


def _is_news(row: Node, text: str) -> bool:
    if row.trouble_by == BY_PERSON or row.health == Node.Health.DOWN:
        return False
    return row.trouble != text or (not text and row.health == Node.Health.UNHEALTHY)


def _may_return(row: Node) -> bool:
    """A node from which something would not leave has to be empty, and what is being repaired is looked at there."""
    return not Holding.objects.filter(node=row, released_at=None).exists() and not repairs.is_at_work(row)
