"""How nodes were repaired: counted, with the share that needed nobody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from django.db.models import Count, Q

from budgets.models import Cluster
from scheduler.models import Repair, RepairHook

LOOKED_BACK = timedelta(days=30)
LATEST = 20


@dataclass(frozen=True, slots=True)
class Repairs:
    """The repairs of a cluster whose nodes came back since an instant, and those that go on.

    Attributes:
        since: that instant.
        done: how many nodes came back to work.
        by_themselves: of these, how many needed no person.
        going: open ones, the oldest first.
        has_hook: whether anything is tried without a person.
    """

    since: datetime
    done: int
    by_themselves: int
    going: Sequence[Repair]
    has_hook: bool

    @property
    def share(self) -> Fraction | None:
        """Of the done ones, those that needed nobody; None where there were none."""
        return Fraction(self.by_themselves, self.done) if self.done else None


def of_cluster(cluster: Cluster, now: datetime) -> Repairs:
    """Over the last 30 days. Three queries."""
    since = now - LOOKED_BACK
    ended = Repair.objects.filter(node__cluster=cluster, ended_at__gte=since)
    counts = ended.aggregate(done=Count("pk"), alone=Count("pk", filter=Q(needed_person=False)))
    going = (
        Repair.objects.filter(node__cluster=cluster, ended_at=None).select_related("node").order_by("began_at", "pk")
    )
    has_hook = RepairHook.objects.filter(cluster=cluster).exists()
    return Repairs(since, counts["done"], counts["alone"], list(going), has_hook)
