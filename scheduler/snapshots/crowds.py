"""Who contended inside each leaf while today's workloads were there, for orders that go by it (policies/crowds.py)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import NamedTuple

from django.db.models import Q

from budgets.models import Cluster
from scheduler.engine import Arrival, Crowd, Policy
from scheduler.models import Workload
from scheduler.services import events
from scheduler.services.events import Second

from .build import Seen

BACK = timedelta(days=28)
"""Who has waited for longer is compared with those of the last days."""


class Presence(NamedTuple):
    """A workload was in a leaf, waiting or with devices, in [from_s, until_s); until_s is None while it is."""

    workload_id: int
    leaf_id: int
    from_s: int
    until_s: int | None


def asks(policy: Policy) -> bool:
    """Whether a policy's order inside leaves goes by who contends."""
    return policy.leaf_order == "themis"


def present(cluster: Cluster, instant: datetime) -> list[Presence]:
    """Everybody who is there now, or was while one of these has been, by the rows.

    Who failed and may be tried again is there; who waits for another's end has not come yet.
    """
    not_come = Q(state="held", reason_code__in=events.NOT_COME)
    is_open = Q(cluster=cluster, state__in=Workload.OPEN_STATES)
    open_rows = Workload.objects.filter(is_open).exclude(not_come).order_by()
    first = open_rows.order_by("submitted_at").values_list("submitted_at", flat=True).first()
    if first is None:
        return []
    found = open_rows.values_list("pk", "leaf_id", Second("submitted_at"))
    rows = [Presence(pk, leaf_id, from_s, None) for pk, leaf_id, from_s in found]
    return rows + ended_since(cluster, max(first, instant - BACK))


def ended_since(cluster: Cluster, since: datetime) -> list[Presence]:
    """Those that have ended since then."""
    ended = Workload.objects.filter(cluster=cluster, ended_at__gt=since).exclude(state="refused").order_by()
    columns = ended.values_list("pk", "leaf_id", Second("submitted_at"), Second("ended_at"))
    return [Presence(*row) for row in columns]


def see(seen: Seen, presences: Iterable[Presence]) -> None:
    """Note when each workload came, and what the crowd of each leaf was at the beginning of the round."""
    by_leaf: dict[int, list[Presence]] = {}
    for presence in presences:
        by_leaf.setdefault(presence.leaf_id, []).append(presence)
    in_tree = {row["db_id"] for row in seen.tree_nodes}
    arrivals: dict[int, Arrival] = {}
    found: dict[int, Crowd] = {}
    back_s = seen.now_s - int(BACK.total_seconds())
    for leaf_id in by_leaf.keys() & in_tree:
        leaf = _Leaf(by_leaf[leaf_id])
        found[leaf_id] = leaf.crowd(seen.now_s - seen.now_s % seen.policy.round_s)
        for each in by_leaf[leaf_id]:
            if each.until_s is None:
                since_s = max(each.from_s, back_s)
                arrivals[each.workload_id] = Arrival(each.from_s, leaf.total_s(since_s), since_s)
    seen.arrivals, seen.crowds = arrivals, found


class _Leaf:
    """The comings and goings of one leaf."""

    def __init__(self, there: Sequence[Presence]) -> None:
        self._from_s = sorted(each.from_s for each in there)
        self._until_s = sorted(each.until_s for each in there if each.until_s is not None)
        self._sums_from = [0, *accumulate(self._from_s)]
        self._sums_until = [0, *accumulate(self._until_s)]

    def total_s(self, at_s: int) -> int:
        """Workload-seconds until then."""
        came, went = bisect_right(self._from_s, at_s), bisect_right(self._until_s, at_s)
        return (came - went) * at_s - self._sums_from[came] + self._sums_until[went]

    def crowd(self, at_s: int) -> Crowd:
        """As it was before anything happened at that instant."""
        number = bisect_left(self._from_s, at_s) - bisect_left(self._until_s, at_s)
        return Crowd(number, self.total_s(at_s))
