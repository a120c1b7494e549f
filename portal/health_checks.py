"""What has to work for the whole to work, each looked at in a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg
from django.db import Error
from django.db.migrations.loader import MigrationLoader
from redis import RedisError

from budgets.models import Cluster
from portal import health_signs, metrics_sql
from portal.health_database import answers, asking
from portal.metrics_shared import broker
from scheduler.engine import Policy
from scheduler.services import cells

KEPT_S = 1
"""An answer is given again for so long, so that whoever asks without end costs little."""
SIGN_MAX_S = {health_signs.BEAT: 15, health_signs.TICKS: 30, health_signs.WORKER: 90, health_signs.SIMULATIONS: 30}
"""How old a sign of life may be. A tick a second is what is expected of the first two; all processes of a worker may be
at tasks of a minute each."""
PASS_MAX_S = 60
PASS_MAX_INTERVALS = 4
"""A cluster's last pass may be so old, or so many times what its policy says; the longer of both."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found: whether it is well, in words, and in figures for operators."""

    is_well: bool
    words: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Health:
    """All that was looked at, at one instant."""

    at: datetime
    found: Mapping[str, Found]

    @property
    def is_well(self) -> bool:
        """Whether all of it is."""
        return all(each.is_well for each in self.found.values())

    def only(self, names: Sequence[str]) -> Health:
        """A part of it."""
        return Health(self.at, {name: self.found[name] for name in names})


def database(_now: datetime) -> Found:
    """It answers."""
    began_s = time.perf_counter()
    try:
        with asking() as cursor:
            cursor.execute("SELECT current_setting('server_version'), pg_is_in_recovery()")
            version, is_replica = cursor.fetchone() or ("", False)
    except (psycopg.Error, OSError) as error:
        return Found(False, _line("the database does not answer", error))
    ms = round(1_000 * (time.perf_counter() - began_s), 1)
    figures = {"version": version, "answered_in_ms": ms}
    return Found(not is_replica, "it answers" if not is_replica else "it is a replica: nothing can be written", figures)


_on_disk: set[tuple[str, str]] = set()


def migrations(_now: datetime) -> Found:
    """The tables are those of this release."""
    if not _on_disk:
        _on_disk.update(MigrationLoader(None).disk_migrations or {})
    try:
        with asking() as cursor:
            cursor.execute("SELECT app, name FROM django_migrations")
            applied = set(cursor.fetchall())
    except (psycopg.Error, OSError) as error:
        return Found(False, _line("which migrations were applied is not to be had", error))
    missing = sorted(f"{app}.{name}" for app, name in _on_disk - applied)
    if missing:
        words = f"{len(missing)} migrations are not applied: manage.py prepare"
        return Found(False, words, {"missing": missing[:20]})
    return Found(True, "all are applied", {"applied": len(_on_disk)})


def broker_answers(_now: datetime) -> Found:
    """It answers, and its queues are no longer than work that is late would make them."""
    client = broker()
    if client is None:
        return Found(False, "REDIS_URL names no broker")
    began_s = time.perf_counter()
    try:
        with client.pipeline(transaction=False) as pipe:
            pipe.llen("celery")
            pipe.llen(health_signs.SIMULATIONS_QUEUE)
            tasks, simulations = pipe.execute()
    except (RedisError, OSError) as error:
        return Found(False, _line("the broker does not answer", error))
    ms = round(1_000 * (time.perf_counter() - began_s), 1)
    return Found(True, "it answers", {"answered_in_ms": ms, "tasks": tasks, "simulations": simulations})


def sign_of(service: str) -> Callable[[datetime], Found]:
    """A check that a service has given a sign of life."""

    def check(now: datetime) -> Found:
        limit_s = SIGN_MAX_S[service]
        try:
            at_s = health_signs.seen().get(service)
        except (RedisError, OSError) as error:
            return Found(False, _line("no sign of life is to be had: the broker does not answer", error))
        if at_s is None:
            return Found(False, "it has given no sign of life yet", {"limit_s": limit_s})
        age_s = round(max(0.0, now.timestamp() - at_s), 1)
        return Found(age_s <= limit_s, f"its last sign of life was {age_s} s ago", {"age_s": age_s, "limit_s": limit_s})

    check.__doc__ = f"The {service} has given a sign of life lately."
    return check


PASSES = f"""
SELECT c.name, c.executor, extract(epoch FROM %(now)s - p.at)::float, every_s, s.contact_at IS NOT NULL, s.failing_since
FROM ({metrics_sql.CLUSTERS}) AS k (name, unit, executor, every_s)
JOIN budgets_cluster c ON c.name = k.name
LEFT JOIN LATERAL (SELECT at FROM scheduler_pass WHERE cluster_id = c.id ORDER BY id DESC LIMIT 1) p ON true
LEFT JOIN scheduler_slurmlink s ON s.cluster_id = c.id ORDER BY c.name"""


def passes(now: datetime) -> Found:
    """Every cluster on which passes are made had one lately. A Slurm that is not reached is said, and is not ours."""
    try:
        with asking() as cursor:
            cursor.execute(PASSES, {"now": now, "pass_every_s": Policy().pass_every_s})
            rows = cursor.fetchall()
    except (psycopg.Error, OSError) as error:
        return Found(False, _line("passes are not to be had", error))
    late, figures = [], {}
    for name, executor, age_s, every_s, _was_reached, failing_since in rows:
        limit_s = max(PASS_MAX_S, PASS_MAX_INTERVALS * every_s)
        said: dict[str, Any] = {"last_pass_s": None if age_s is None else max(0, round(age_s)), "limit_s": limit_s}
        if executor == Cluster.Executor.ADVISED:
            said = {"note": "Slurm decides here, and no passes are made"}
        elif executor == Cluster.Executor.SLURM and (failing_since is not None or not _was_reached):
            said["note"] = "its Slurm is not reached, and no decisions are made meanwhile"
        elif age_s is None or age_s > limit_s:
            late.append(name)
        figures[name] = said
    words = f"no pass in time: {', '.join(late)}" if late else "every cluster had its pass"
    return Found(not late, words, figures)


def private_cells(_now: datetime) -> Found:
    """For all cells that budgets have there are fit nodes."""
    if not answers():
        return Found(False, "what is granted is not to be had: the database does not answer")
    try:
        found = {cluster: cells.faults_of(cluster) for cluster in cells.clusters_with_cells()}
    except Error as error:
        return Found(False, _line("what is granted is not to be had", error))
    figures = {each.name: {fault.level: fault.missing for fault in faults} for each, faults in found.items()}
    missing = [said for each, faults in found.items() for fault in faults for said in cells.sentences(fault, each)]
    return Found(not missing, "; ".join(missing) or "there are fit nodes for all", figures)


CHECKS: dict[str, Callable[[datetime], Found]] = {
    "database": database,
    "migrations": migrations,
    "broker": broker_answers,
    "beat": sign_of(health_signs.BEAT),
    "ticks": sign_of(health_signs.TICKS),
    "worker": sign_of(health_signs.WORKER),
    "passes": passes,
}
FURTHER = {"simulations": sign_of(health_signs.SIMULATIONS), "cells": private_cells}
"""Looked at only where it is asked for: portal and passes do well without."""
ALL = {**CHECKS, **FURTHER}

_looking = threading.Lock()
_kept: dict[str, tuple[float, datetime, Found]] = {}


def look(names: Sequence[str] = tuple(CHECKS), now: datetime | None = None) -> Health:
    """Look at these (of ALL); what was found in the last second is found again."""
    at = now or datetime.now(UTC)
    with _looking:
        for name in names:
            kept = _kept.get(name)
            if now is not None or kept is None or time.monotonic() - kept[0] >= KEPT_S:
                _kept[name] = (time.monotonic(), at, ALL[name](at))
        return Health(at, {name: _kept[name][2] for name in names})


def _line(words: str, error: Exception) -> str:
    said = " ".join(str(error).split())
    return f"{words}: {said[:200]}" if said else words
