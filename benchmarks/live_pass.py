"""How long a pass of the live loop takes on a full cluster, and how much memory: rows loaded, decided, plan applied.

    python -m benchmarks.live_pass

512 nodes and 4,096 GPUs, 4,000 workloads running, 5,000 queued, 20,000 runs of the last week; on a PostgreSQL that
keeps what it is told. Three kinds of pass: the first, which tells everybody something new; a quiet one, ten seconds
later, with nothing new; a busy one, after 50 workloads have ended and 50 were submitted.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from datetime import datetime, timedelta
from typing import Any

from benchmarks import Row, at_most, plain
from benchmarks.database import own_database

# What is of Django is imported inside the functions: it needs the settings of a database that is started first.

SEED = 1
NOW = datetime.fromisoformat("2026-03-02T12:00:00+00:00")
REPEATS = 3
NEWS = 50
SETTLING_PASSES = 8
PARTS = ("load", "decide", "apply")
WHOLE_MS = 1_000
DECIDE_MS = 250
MEMORY_MIB = 300


def measure() -> list[Row]:
    """The parts of a quiet and of a busy pass, and the whole."""
    with own_database():
        from benchmarks.full_cluster import Size, fill, make_cluster

        cluster, leaves = make_cluster(Size().nodes, NOW)
        fill(cluster, leaves, Size(), NOW, random.Random(SEED))
        # In a process of its own: what building the rows took is not the pass's memory.
        argv = [sys.executable, "-m", "benchmarks.live_pass", "--passes", str(cluster.pk)]
        said = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=dict(os.environ)).stdout
    figures = json.loads(said)
    rows = []
    for kind in ("quiet", "busy"):
        ms = figures[kind]
        rows.append(at_most(f"live pass, {kind}: whole", whole(ms), "ms", WHOLE_MS))
        rows.append(plain(f"live pass, {kind}: load", ms["load"], "ms"))
        rows.append(at_most(f"live pass, {kind}: decide", ms["decide"], "ms", DECIDE_MS))
        rows.append(plain(f"live pass, {kind}: apply", ms["apply"], "ms"))
        rows.append(plain(f"live pass, {kind}: processor time of the worker", ms["processor"], "ms"))
    rows.append(plain("live pass, the first of all: whole", whole(figures["first"]), "ms"))
    rows.append(at_most("live pass: peak memory above the idle worker", figures["peak_mib"], "MiB", MEMORY_MIB))
    return rows


def passes(cluster_id: int) -> dict[str, Any]:
    """Make passes in this process. Milliseconds by kind and part (the median of several), and the peak of memory."""
    import django

    django.setup()
    import logging

    logging.getLogger().setLevel(logging.WARNING)
    from scheduler import loop
    from scheduler.models import Workload

    assert Workload.objects.filter(cluster=cluster_id, state="running").count() == 4_000
    idle_mib = resident_mib()
    figures: dict[str, Any] = {"first": timed(cluster_id, NOW)}
    now = NOW
    for _ in range(SETTLING_PASSES):
        now += timedelta(seconds=10)
        live_on(cluster_id, now)
        loop.look_at(cluster_id, now=now, is_due=True)
    figures["quiet"] = median([timed(cluster_id, now := now + timedelta(seconds=10)) for _ in range(REPEATS)])
    busy = []
    for repeat in range(REPEATS):
        now += timedelta(seconds=10)
        live_on(cluster_id, now)
        bring_news(cluster_id, now, random.Random(repeat))
        busy.append(timed(cluster_id, now))
    figures["busy"] = median(busy)
    figures["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - idle_mib
    return figures


def resident_mib() -> float:
    """What this process holds in memory now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return pages * resource.getpagesize() / 2**20


def timed(cluster_id: int, now: datetime) -> dict[str, float]:
    """One pass: milliseconds by part, the work around them within `load`; and of this process's processor time."""
    from scheduler import loop

    began_s, worked_s = time.perf_counter(), time.process_time()
    result = loop.run_pass(cluster_id, now=now)
    whole_ms, processor_ms = 1_000 * (time.perf_counter() - began_s), 1_000 * (time.process_time() - worked_s)
    assert result is not None
    result.stored.refresh_from_db()
    found = {part: float(getattr(result.stored, f"{part}_ms")) for part in PARTS}
    return found | {"load": whole_ms - found["decide"] - found["apply"], "processor": processor_ms}


def whole(ms: dict[str, float]) -> float:
    """All parts of a pass."""
    return sum(ms[part] for part in PARTS)


def median(several: list[dict[str, float]]) -> dict[str, float]:
    """The repeat in the middle, by its whole."""
    return sorted(several, key=whole)[len(several) // 2]


def live_on(cluster_id: int, now: datetime) -> None:
    """Invented nodes report what is due."""
    from budgets.models import Cluster
    from scheduler import loop

    loop.live_on(Cluster.objects.get(pk=cluster_id), now)


def bring_news(cluster_id: int, now: datetime, chance: random.Random) -> None:
    """Some workloads end and others are submitted."""
    from benchmarks.full_cluster import FOREVER, QUEUED_GPUS
    from budgets.models import BudgetNode, Cluster
    from scheduler.models import Run
    from scheduler.services import events, runs, workloads

    cluster = Cluster.objects.get(pk=cluster_id)
    going = list(Run.objects.filter(cluster=cluster, state="running").order_by("pk"))
    with events.changing(cluster_id):
        for run in chance.sample(going, NEWS):
            runs.end(run=run, at=now, code=runs.FINISHED, exit_code=0)
    leaves = list(BudgetNode.objects.filter(children=None).order_by("code"))
    for _ in range(NEWS):
        workloads.submit(
            cluster=cluster,
            leaf=chance.choice(leaves),
            owner=None,
            size_milli=1_000 * chance.choice(QUEUED_GPUS),
            min_runtime_s=chance.choice((0, 900, 3_600)),
            command=["train"],
            environment=FOREVER,
            now=now,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--passes"]:
        print(json.dumps(passes(int(sys.argv[2]))))
    else:
        for each in measure():
            print(each.name, round(each.value, 1), each.unit, each.target)
