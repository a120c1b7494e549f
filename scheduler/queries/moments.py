"""What pages say of a cluster is the same for all who look, until something happens there: it is made once for them.

A moment ends with the cluster's next pass, with the next event of its log, with the next entry in the ledger of
budgets, and after SLOT_S in any case, since waits grow and contracts end by the clock alone. What one may see and
another may not is no part of what is shared, or its key says who sees it.

Who asks by hand is told of the present moment. A page that asks again by itself is told of one that was the present
within the last POLL_S, and while one of them makes a page of a newer moment, the others do not wait for it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from django.db import connection

from budgets.models import Cluster

SLOT_S = 10
"""As long as from one pass to the next, unless an operator has changed that."""
POLL_S = 3.0
"""A page that asks again by itself may be told what was so much earlier; who asks by hand is told what is."""
RENEWED_WITHIN_S = 5.0
"""For so much longer it is told that while somebody makes what is; then that somebody is lost or very slow."""
KEPT_MOMENTS = 4
"""Of so many moments of a cluster what was made is kept: of the latest, and of those that are still told."""
KEPT = 100
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

    values: dict[Hashable, Any] = field(default_factory=dict)
    making: dict[Hashable, threading.Lock] = field(default_factory=dict)


class _Told(NamedTuple):
    """The moment of which a whole page of a kind was last made, and when it was the present (monotonic seconds)."""

    read_s: float
    moment: Moment


_kept: dict[int, OrderedDict[Moment, _Kept]] = {}
_told: dict[tuple[int, str], _Told] = {}
_renewed: dict[tuple[int, str], float] = {}
"""Since when somebody makes a page of a newer moment for those who ask again by themselves."""
_lock = threading.Lock()


@contextmanager
def moment_of(cluster: Cluster, now: datetime, kind: str, *, is_poll: bool = False) -> Iterator[Moment]:
    """The moment that a page of this kind is about, which is made inside the block. At most one query.

    Args:
        cluster: which.
        now: the clock.
        kind: of page; each has a moment of its own that is told to polls.
        is_poll: whether the page asks again by itself.
    """
    key = (cluster.pk, kind)
    asked_s = time.monotonic()
    if is_poll and (told := _still_told(key, asked_s)) is not None:
        yield told
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute(MOMENT_SQL, {"cluster": cluster.pk})
            moment = Moment(cluster.pk, int(now.timestamp()) // SLOT_S, *cursor.fetchone())
        yield moment
        with _lock:
            before = _told.get(key)
            if before is None or before.read_s < asked_s:
                _told[key] = _Told(asked_s, moment)
    finally:
        with _lock:
            if _renewed.get(key) == asked_s:
                del _renewed[key]


def _still_told(key: tuple[int, str], now_s: float) -> Moment | None:
    """What a poll is told without looking; None if it has to look, for itself and for those who come meanwhile."""
    with _lock:
        told = _told.get(key)
        if told is None:
            return None
        age_s = now_s - told.read_s
        is_renewed = key in _renewed and age_s < POLL_S + RENEWED_WITHIN_S
        if age_s < POLL_S or is_renewed:
            return told.moment
        _renewed[key] = now_s
        return None


def shared(moment: Moment, key: Hashable, make: Callable[[], Value]) -> Value:
    """What `make` gives at that moment: made by the first of this process who asks, while the others wait for it.

    Nobody may change it.
    """
    with _lock:
        kept = _kept_of(moment)
        if kept is not None and key in kept.values:
            return kept.values[key]
        making = None if kept is None else kept.making.setdefault(key, threading.Lock())
    if kept is None or making is None:
        return make()
    with making:
        if key not in kept.values:
            value = make()
            if len(kept.values) >= KEPT:
                return value
            kept.values[key] = value
        return kept.values[key]


def _kept_of(moment: Moment) -> _Kept | None:
    """Where things made at that moment are kept; None where it has gone by, so that they are of no use to others."""
    of_cluster = _kept.setdefault(moment.cluster_id, OrderedDict())
    if moment in of_cluster:
        of_cluster.move_to_end(moment)
        return of_cluster[moment]
    if len(of_cluster) >= KEPT_MOMENTS:
        if moment < min(of_cluster):
            return None
        of_cluster.popitem(last=False)
    of_cluster[moment] = _Kept()
    return of_cluster[moment]
