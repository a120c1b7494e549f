"""From a decision to a process, on real agents: those that can be woken, and those that are only heard each 10 s.

    python -m benchmarks.agent_start

A portal with its web server, and four agents of eight pretend GPUs on this machine. Every two seconds a gang on one to
four nodes is submitted and a pass is made; measured is from before the pass until the last rank's command runs, by what
it says itself. The web server, the agents and the passes share this machine.
"""

from __future__ import annotations

import json
import os
import random
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import Row, at_most, plain
from benchmarks.database import own_database

# What is of Django is imported inside the functions: it needs the settings of a database that is started first.

NODES, GPUS = 4, 8
STARTS = 40
EVERY_S = 2.0
WOKEN_S, HEARD_S = 2.0, 12.0
MEMORY_MIB = 60
WITHIN_S = 60


def measure() -> list[Row]:
    """p50 and p95 of both, and what an agent holds in memory."""
    folder = Path(tempfile.mkdtemp(prefix="allotment-agents-", dir="/tmp"))
    folder.chmod(0o711)
    port = free_port()
    os.environ |= {
        "SECRET_KEY": secrets.token_hex(20),
        "ALLOTMENT_AGENT_TOKEN": secrets.token_hex(20),
        "ALLOTMENT_URL": f"http://127.0.0.1:{port}",
        "ALLOTMENT_DEBUG": "true",  # plain static files
    }
    try:
        with own_database(), web(port, folder):
            rows = []
            for name, wake_port, target_s in (("woken", 0, WOKEN_S), ("heard each 10 s", -1, HEARD_S)):
                with agents(name, port, wake_port, folder) as pids:
                    seconds = sorted(starts(name, folder))
                    rows.append(plain(f"decision to process, {name}: p50", seconds[len(seconds) // 2], "s"))
                    worst = seconds[min(int(len(seconds) * 0.95), len(seconds) - 1)]
                    rows.append(at_most(f"decision to process, {name}: p95", worst, "s", target_s))
                    memory = max(resident_mib(pid) for pid in pids)
            rows.append(at_most("an agent with ranks: resident memory", memory, "MiB", MEMORY_MIB))
            return rows
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def web(port: int, folder: Path) -> Iterator[None]:
    """The web server, as it is run."""
    argv = [sys.executable, "-m", "gunicorn", "--config", "python:portal.web_server", "--bind", f"127.0.0.1:{port}"]
    with (folder / "web.log").open("wb") as log:
        process = subprocess.Popen(argv, env=dict(os.environ), stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def agents(name: str, port: int, wake_port: int, folder: Path) -> Iterator[list[int]]:
    """A cluster of that name, and its agents, joined; their process ids."""
    from budgets.models import BudgetNode
    from budgets.services import shares, tree
    from scheduler.models import Node
    from scheduler.services import clusters

    cluster = clusters.create(name=slug(name))
    root = BudgetNode.objects.filter(parent=None).first() or tree.create_root(code="lab", name="Laboratory")
    leaf = BudgetNode.objects.filter(code="A").first() or tree.add_child(
        parent=root, kind=BudgetNode.Kind.PROJECT, code="A", name="A", by=None
    )
    root.refresh_from_db()
    shares.set_shares(parent=root, cluster=cluster, shares={leaf: 10_000}, valid_from=date(2026, 1, 1), by=None)
    token = folder / "join_token"
    token.write_text(os.environ["ALLOTMENT_AGENT_TOKEN"])
    processes = []
    for number in range(NODES):
        said: dict[str, Any] = {
            "portal": f"http://127.0.0.1:{port}",
            "cluster": cluster.name,
            "node": f"n{number}",
            "gpus": GPUS,
            "pretend": True,
            "state": str(folder / f"{slug(name)}-n{number}"),
            "work": str(folder / "work"),
            "wake_port": wake_port,
            "join_token_file": str(token),
        }
        config = folder / f"{slug(name)}-n{number}.json"
        config.write_text(json.dumps(said))
        with (folder / "agents.log").open("ab") as log:
            argv = [sys.executable, "-m", "scheduler.executors.agent", "--config", str(config)]
            processes.append(subprocess.Popen(argv, stdout=log, stderr=log))
    try:
        until_s = time.monotonic() + WITHIN_S
        while Node.objects.filter(cluster=cluster).exclude(heartbeat_at=None).count() < NODES:
            assert time.monotonic() < until_s, (folder / "agents.log").read_text()
            time.sleep(0.1)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait(10)
        for record in folder.glob("*/ranks/*/record.json"):
            pid = json.loads(record.read_text()).get("minder")
            if pid and Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGTERM)


def starts(name: str, folder: Path) -> list[float]:
    """Seconds from before the pass to the last rank's command, of each start."""
    from budgets.models import BudgetNode, Cluster
    from scheduler.loop import look_at
    from scheduler.models import LogChunk
    from scheduler.services import workloads

    cluster, leaf = Cluster.objects.get(name=slug(name)), BudgetNode.objects.get(code="A")
    chance = random.Random(1)
    decided: dict[int, tuple[float, int]] = {}
    for number in range(STARTS):
        count = chance.choice([1, 1, 2, 4]) if number % 8 == 7 else 1
        size = count * GPUS if count > 1 else 1
        workload = workloads.submit(
            cluster=cluster,
            leaf=leaf,
            owner=None,
            size_milli=size * 1_000,
            min_runtime_s=300,
            command=["/bin/cat", "/proc/uptime"],  # when it really ran, by the clock of the machine
        )
        began_s = boottime_s()
        look_at(cluster.pk, is_due=True)
        run = workload.runs.first()
        if run is not None:
            decided[run.pk] = began_s, run.ranks.count()
        time.sleep(EVERY_S * chance.uniform(0.5, 1.5))
    until_s = time.monotonic() + WITHIN_S
    found: dict[int, float] = {}
    while len(found) < len(decided) and time.monotonic() < until_s:
        time.sleep(0.5)
        for pk, (began_s, ranks) in decided.items():
            printed = LogChunk.objects.filter(rank__run=pk, offset=0).values_list("text", flat=True)
            instants = [float(text.split()[0]) for text in printed]
            if len(instants) == ranks:
                found[pk] = max(instants) - began_s
    assert len(found) == len(decided) > STARTS // 2
    return list(found.values())


def boottime_s() -> float:
    """The clock of /proc/uptime."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def slug(name: str) -> str:
    """A cluster's name."""
    return name.split()[0]


def resident_mib(pid: int) -> float:
    """What a process holds in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


if __name__ == "__main__":
    for each in measure():
        print(each.name, round(each.value, 2), each.unit, each.target)
