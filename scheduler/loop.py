"""The live loop: load, decide, apply, one pass per cluster at a time (the simulator's world is its twin)."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog
from django.db import connection
from django.utils import timezone
from prometheus_client import Counter, Histogram
from structlog.contextvars import bound_contextvars

from budgets.models import Cluster
from scheduler import snapshots
from scheduler.engine import Plan, decide
from scheduler.models import Event, Pass
from scheduler.services import deadlines, events, executors, passes, policies, repairs, silence
from scheduler.services.events import wake
from scheduler.services.slurm import links

__all__ = ["PassResult", "look_at", "run_pass", "tick", "tick_one", "wake"]

log = structlog.get_logger(__name__)

REST_FROM_MS = 500
REST_PARTS = 4
"""Where work comes without a pause, long passes take this part of the time of one core: a quarter."""
PASSES_IN_A_ROW = 20
"""How often a wake-up looks again for what happened meanwhile; what then is left waits for the next tick."""

PASS_SECONDS = Histogram("allotment_pass_seconds", "How long a pass took", ["cluster", "part"])
FAILURES = Counter("allotment_pass_failures", "Times that a cluster could not live on", ["cluster"])
DECISIONS_DROPPED = Counter("allotment_decisions_dropped", "Decisions whose rows had changed meanwhile", ["cluster"])


@dataclass(frozen=True, slots=True)
class PassResult:
    """One pass that was carried out. `has_changed` says that a pass after it would see something else."""

    stored: Pass
    plan: Plan
    has_changed: bool


@contextmanager
def the_only_one(cluster_id: int) -> Iterator[bool]:
    """Whether this is now the only pass of the cluster, on any machine; if so, until the end of the block.

    The lock belongs to the database session, so it ends with the process or the connection, however they end. All work
    of the block has to go through the same connection: Django's of this thread, which the block must not close.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [events.PASS_LOCK, cluster_id])
        (is_mine,) = cursor.fetchone()
    try:
        yield is_mine
    finally:
        if is_mine:
            _unlock(cluster_id)


def _unlock(cluster_id: int) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [events.PASS_LOCK, cluster_id])
    except Exception:
        # The session is in no state to be asked: end it for good, so that no pool hands it on with the lock held.
        if connection.connection is not None:
            connection.connection.close()
        connection.close()
        raise


def run_pass(
    cluster_id: int, *, now: datetime | None = None, only_if: Callable[[], bool] | None = None
) -> PassResult | None:
    """One pass over one cluster, or None where another one is at it.

    Args:
        cluster_id: which.
        now: the instant, for those who drive time themselves; default is the clock's.
        only_if: asked when nobody else can make one: whether it is still wanted. Of two who found that a pass was due
            the second finds it made.
    """
    with the_only_one(cluster_id) as is_mine:
        return _pass(cluster_id, now) if is_mine and (only_if is None or only_if()) else None


def _pass(cluster_id: int, now: datetime | None) -> PassResult:
    assert not connection.in_atomic_block, "a pass has transactions of its own"
    cluster = Cluster.objects.get(pk=cluster_id)
    with _no_collection():
        return _decide_and_apply(cluster, now)


@contextmanager
def _no_collection() -> Iterator[None]:
    """No search for garbage cycles inside: a pass makes many objects and few cycles, and nearly all go at its end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _decide_and_apply(cluster: Cluster, now: datetime | None) -> PassResult:
    pass_id = passes.new_id()
    with bound_contextvars(cluster=cluster.name, pass_id=pass_id):  # every line of it says so
        return _timed(cluster, now, pass_id)


def _timed(cluster: Cluster, now: datetime | None, pass_id: int) -> PassResult:
    began = time.perf_counter()
    loaded = snapshots.load(cluster, now)
    was_loaded = time.perf_counter()
    plan = decide(loaded.snapshot, loaded.policy)
    was_decided = time.perf_counter()
    applied = passes.apply(
        loaded,
        plan,
        timings={"load_ms": _ms(was_loaded - began), "decide_ms": _ms(was_decided - was_loaded)},
        pass_id=pass_id,
    )
    was_applied = time.perf_counter()
    passes.note_apply_time(applied.stored, _ms(was_applied - was_decided))
    for part, seconds in (
        ("load", was_loaded - began),
        ("decide", was_decided - was_loaded),
        ("apply", was_applied - was_decided),
    ):
        PASS_SECONDS.labels(cluster.name, part).observe(seconds)
    if applied.dropped:
        DECISIONS_DROPPED.labels(cluster.name).inc(len(applied.dropped))
    (log.info if applied.has_changed else log.debug)(
        "pass",
        waiting=len(plan.order),
        changed=applied.has_changed,
        dropped=len(applied.dropped),
        ms=_ms(was_applied - began),
    )
    return PassResult(applied.stored, plan, applied.has_changed)


def _ms(seconds: float) -> int:
    return round(seconds * 1_000)


# --- when -------------------------------------------------------------------------------------------------------------


def tick(now: datetime | None = None) -> int:
    """Let every cluster live on: what is due by the clock happens, and a pass follows where one is due.

    Returns how many passes were made. Late, doubled and overlapping ticks do no harm: each step is conditional on
    rows, and each pass is the only one of its cluster.
    """
    made = 0
    for cluster in Cluster.objects.all():
        try:
            with bound_contextvars(cluster=cluster.name):
                made += tick_one(cluster, now)
        except Exception:  # whatever it is: the other clusters go on, and the next tick tries this one again
            FAILURES.labels(cluster.name).inc()
            log.exception("cluster_failed", cluster=cluster.name)
    return made


def tick_one(cluster: Cluster, now: datetime | None = None, *, is_due: bool = False) -> int:
    """Let one cluster live on, as `tick` does; with a pass in any case if one `is_due`. How many passes were made."""
    instant = now or timezone.now()
    if live_on(cluster, instant) or is_due:
        return look_at(cluster.pk, now=now, is_due=True)
    if is_pass_due(cluster, instant, may_rest=now is None):
        due = partial(is_pass_due, cluster, instant, may_rest=now is None)
        return look_at(cluster.pk, now=now, only_if=due)
    return 0


def live_on(cluster: Cluster, now: datetime) -> bool:
    """What time alone does to a cluster's rows: its executor reports, time limits end, silent nodes are lost.

    Whether anything changed.
    """
    changed = executors.of(cluster).poll(cluster.pk, now)
    changed = silence.watch(cluster, now) or changed
    repairs.look_after(cluster, now)
    return deadlines.enforce(cluster, now) or changed


def is_pass_due(cluster: Cluster, now: datetime, *, may_rest: bool = False) -> bool:
    """Whether `pass_every_s` has passed since the last pass, or something has happened that it did not see.

    `may_rest` where the clock is the real one: then news alone asks for none while the cluster `rests`.
    """
    last = last_pass(cluster.pk)
    if last is None:
        return True
    policies.ensure(cluster)
    every_s = policies.as_policy(policies.latest(cluster)).pass_every_s
    if now.astimezone(UTC) >= last.at + timedelta(seconds=every_s):
        return True
    return _has_news(last) and not (may_rest and rests(last))


def rests(last: Pass) -> bool:
    """Whether the last pass took so long that news alone asks for no other until three times as long has gone by.

    Else a large cluster to which work comes without a pause would have passes without one, and take a core from pages.
    """
    took_ms = last.load_ms + last.decide_ms + last.apply_ms
    return took_ms >= REST_FROM_MS and timezone.now() < last.at + REST_PARTS * timedelta(milliseconds=took_ms)


def last_pass(cluster_id: int) -> Pass | None:
    """Without its figures and its order, which are large: this is asked each second."""
    columns = ("cluster_id", "at", "event_mark", "load_ms", "decide_ms", "apply_ms")
    return Pass.objects.filter(cluster=cluster_id).only(*columns).order_by("-id").first()


def _has_news(last: Pass) -> bool:
    """Whether there are events that a pass did not see and did not make."""
    return Event.objects.filter(cluster=last.cluster_id, id__gt=last.event_mark).exclude(made_in=last).exists()


def look_at(
    cluster_id: int,
    *,
    now: datetime | None = None,
    is_due: bool = False,
    only_if: Callable[[], bool] | None = None,
) -> int:
    """Passes until nothing is left to do (semantics.md section 8).

    The first is made in any case if one `is_due`; or `only_if` that says so; else if there is news. Whoever finds
    another pass at work goes away: that one looks again, after it let go of the lock, for events that it did not see.
    Returns how many passes were made.
    """
    cluster = Cluster.objects.get(pk=cluster_id)
    if not links.may_decide(cluster, now or timezone.now()):
        return 0
    made = 0
    goes_on = is_due

    def is_wanted() -> bool:
        if now is None:  # woken: also where none comes by the clock, since ticks wait behind other work
            return is_pass_due(cluster, timezone.now(), may_rest=True)
        last = last_pass(cluster_id)
        return last is None or _has_news(last)

    while made < PASSES_IN_A_ROW:
        wanted = None if goes_on else only_if if only_if is not None and not made else is_wanted
        if wanted is not None and not wanted():
            break
        result = run_pass(cluster_id, now=now, only_if=wanted)
        if result is None:
            break
        made += 1
        goes_on = result.has_changed
    return made
