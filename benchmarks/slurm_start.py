"""From a decision to a process, on a real Slurm that carries out what is decided here.

    python -m benchmarks.slurm_start

A Slurm of its own on this machine (controller, accounting, five nodes of pretend GPUs; as root), and `slurm_sync`
beside it as it is run. Every two seconds a gang on one to four nodes is submitted and a pass is made; measured is from
before the pass until the last rank's command runs, by what it says itself. Everything shares this machine's cores.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from benchmarks import Missing, Row, at_most, plain
from benchmarks.agent_start import boottime_s
from benchmarks.database import own_database
from tests.slurm.cluster import GPUS, SlurmSite, missing

# What is of Django is imported inside the functions: it needs the settings of a database that is started first.

STARTS = 40
EVERY_S = 2.0
TARGET_S = 3.0
WITHIN_S = 60


def measure() -> list[Row]:
    """p50 and p95, from the decision and from the order to Slurm."""
    if reason := missing():
        raise Missing(reason)
    folder = Path(tempfile.mkdtemp(prefix="allotment-slurm-", dir="/tmp"))
    os.environ |= {"SECRET_KEY": secrets.token_hex(20), "ALLOTMENT_DEBUG": "true"}
    site = SlurmSite(folder)
    try:
        site.start()
        with own_database():
            prepare(site)
            with syncing(folder):
                seconds = sorted(starts(folder))
    finally:
        site.stop()
        shutil.rmtree(folder, ignore_errors=True)
    worst = seconds[min(int(len(seconds) * 0.95), len(seconds) - 1)]
    return [
        plain("decision to process, on Slurm: p50", seconds[len(seconds) // 2], "s"),
        at_most("decision to process, on Slurm: p95", worst, "s", TARGET_S),
    ]


def prepare(site: SlurmSite) -> None:
    """One project on a cluster that this Slurm carries out."""
    from budgets.models import BudgetNode, Cluster
    from budgets.services import shares, tree
    from scheduler.services import clusters
    from scheduler.services.slurm import links

    cluster = clusters.create(name="slurm", executor=Cluster.Executor.SLURM)
    root = tree.create_root(code="lab", name="Laboratory")
    leaf = tree.add_child(parent=root, kind=BudgetNode.Kind.PROJECT, code="A", name="A", by=None)
    root.refresh_from_db()
    shares.set_shares(parent=root, cluster=cluster, shares={leaf: 10_000}, valid_from=date(2026, 1, 1), by=None)
    links.connect(
        cluster=cluster,
        conf=str(site.conf),
        name="test",
        partition="gpu",
        folder=str(site.root / "jobs"),
        writes=True,
    )


@contextmanager
def syncing(folder: Path) -> Iterator[None]:
    """`slurm_sync`, as it is run; ready when it has found the nodes."""
    from scheduler.models import Node

    with (folder / "sync.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "slurm_sync"], env=dict(os.environ), stdout=log, stderr=log
        )
    try:
        until_s = time.monotonic() + WITHIN_S
        while Node.objects.count() < 4:
            assert time.monotonic() < until_s, (folder / "sync.log").read_text()
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(30)


def starts(folder: Path) -> list[float]:
    """Seconds from before the pass to the last rank's command, of each start."""
    from budgets.models import BudgetNode, Cluster
    from scheduler.loop import look_at
    from scheduler.services import workloads

    cluster, leaf = Cluster.objects.get(), BudgetNode.objects.get(code="A")
    chance = random.Random(1)
    decided: dict[tuple[str, int], tuple[float, int]] = {}
    for number in range(STARTS):
        count = chance.choice([2, 4]) if number % 4 == 3 else 1
        workload = workloads.submit(
            cluster=cluster,
            leaf=leaf,
            owner=None,
            size_milli=(count * GPUS if count > 1 else 1) * 1_000,
            min_runtime_s=300,
            command=["/bin/cat", "/proc/uptime"],  # when it really ran, by the clock of the machine
        )
        began_s = boottime_s()
        look_at(cluster.pk, is_due=True)
        run = workload.runs.first()
        if run is not None:
            decided[workload.code, run.pk] = began_s, run.ranks.count()
        time.sleep(EVERY_S * chance.uniform(0.5, 1.5))
        look_at(cluster.pk, is_due=True)
    until_s = time.monotonic() + WITHIN_S
    found: dict[tuple[str, int], float] = {}
    while len(found) < len(decided) and time.monotonic() < until_s:
        time.sleep(0.5)
        for (code, run_id), (began_s, ranks) in decided.items():
            paths = list((folder / "jobs" / code / ".allotment").glob(f"{run_id}.*.out"))
            instants = [float(text.split()[0]) for path in paths if (text := path.read_text())]
            if len(instants) == ranks:
                found[code, run_id] = max(instants) - began_s
    assert len(found) == len(decided) > STARTS // 2
    return list(found.values())


if __name__ == "__main__":
    for each in measure():
        print(each.name, round(each.value, 2), each.unit, each.target)
