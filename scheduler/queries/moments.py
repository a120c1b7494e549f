"""What pages say of a cluster is the same for all who look, until something happens there: it is made once for them.

A moment ends with the cluster's next pass, with the next event of its log, with the next entry in the ledger of
budgets, and after SLOT_S in any case, since waits grow and contracts end by the clock alone. What one may see and
another may not is no part of what is shared, or its key says who sees it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from django.db import connection

from budgets.models import Cluster

SLOT_S = 10
"""As long as from one pass to the next, unless an operator has changed that."""
POLL_S = 1.0
"""A page that asks again by itself may be told what was so much earlier; who asks by hand is told what is."""
KEPT = 300
"""Things that are kept of one moment of a cluster; the largest are pages of a queue, of some 100 kB."""

Value = TypeVar("Value")

MOMENT_SQL = """
SELECT coalesce((SELECT id FROM scheduler_pass WHERE cluster_id = %(cluster)s ORDER BY id DESC LIMIT 1), 0),
    coalesce((SELECT id FROM scheduler_event WHERE cluster_id = %(cluster)s ORDER BY id DESC LIMIT 1), 0),
    coalesce((SELECT id FROM budgets_ledgerentry ORDER BY id DESC LIMIT 1), 0)
"""


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """A cluster between two things that happened; `slot` counts SLOT_S from the beginning of Unix time."""

    cluster_id: int
    slot: int
    pass_id: int
    event_id: int
    entry_id: int


@dataclass(slots=True)
class _Kept:
    """What was made at one moment, and the locks of what is being made."""

    moment: Moment
    values: dict[Hashable, Any] = field(default_factory=dict)
    making: dict[Hashable, threading.Lock] = field(default_factory=dict)


_kept: dict[int, _Kept] = {}
_seen: dict[int, tuple[float, Moment]] = {}
_lock = threading.Lock()


def moment_of(cluster: Cluster, now: datetime, *, is_poll: bool = False) -> Moment:
    """The present moment; to a poll, one that was the present within the last POLL_S. At most one query."""
    slot = int(now.timestamp()) // SLOT_S
    read_s, known = _seen.get(cluster.pk, (float("-inf"), None))
    if is_poll and known is not None and known.slot == slot and time.monotonic() - read_s < POLL_S:
        return known
    asked_s = time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute(MOMENT_SQL, {"cluster": cluster.pk})
        moment = Moment(cluster.pk, slot, *cursor.fetchone())
    _seen[cluster.pk] = (asked_s, moment)
    return moment


def shared(moment: Moment, key: Hashable, make: Callable[[], Value]) -> Value:
    """What `make` gives at that moment: made by the first of this process who asks, while the others wait for it.

    Nobody may change it.
    """
    with _lock:
        kept = _kept.get(moment.cluster_id)
        if kept is None or kept.moment < moment:
            kept = _kept[moment.cluster_id] = _Kept(moment)
        if kept.moment != moment:  # somebody who began earlier: what they make is of no use to others
            making = None
        elif key in kept.values:
            return kept.values[key]
        else:
            making = kept.making.setdefault(key, threading.Lock())
    if making is None:
        return make()
    with making:
        if key not in kept.values:
            value = make()
            if len(kept.values) >= KEPT:
                return value
            kept.values[key] = value
        return kept.values[key]
