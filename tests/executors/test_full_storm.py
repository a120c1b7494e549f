"""Everything is killed at random instants for minutes: agents, worker, web server, PostgreSQL, broker.

A real `./run` with four nodes, under a steady stream of gangs. Nothing is lost, nothing runs twice, no contract is
broken, no gang goes on in part, and the books balance.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.executors.test_under_run import any_joined, shell
from tests.platform.conftest import Installation, wait_until
from tests.platform.test_backup import set_up

STORM_S = 90
GANGS = ((1, 4), (2, 4), (4, 6), (8, 8), (8, 3), (1, 0), (2, 0), (6, 0))
"""What is submitted: GPUs, and the contract in seconds."""
SETTLE_S = 600
NODES = ("n1", "n2", "n3", "n4")
VICTIMS: dict[str, tuple[str, ...]] = {
    **{f"agent {name}": ("scheduler.executors.agent", f"/{name}.json") for name in NODES},
    "worker": ("celery", "worker", "--concurrency 2", "--without-gossip", "--hostname"),
    "beat": ("celery", "beat"),
    "web": ("gunicorn",),
    "postgresql": ("postgres", "-D"),
    "broker": ("valkey-server",),
}
MAKE = """
from datetime import date
from budgets.services import shares, tree
from scheduler.services import clusters, policies
cluster = clusters.create(name="here")
policies.change(cluster=cluster, knobs={"min_runtime_min_s": 2, "grace_s": 5, "pass_every_s": 1})
root = tree.create_root(code="lab", name="Laboratory")
leaves = {}
for code in ("A", "B"):
    leaves[tree.add_child(parent=root, kind="project", code=code, name=code, by=None)] = 5_000
root.refresh_from_db()
shares.set_shares(parent=root, cluster=cluster, shares=leaves, valid_from=date(2026, 1, 1), by=None)
"""
STREAM = """
import random, sys, time
from django.db import connections
from budgets.models import BudgetNode, Cluster
from scheduler.services import workloads

ONCE = '''
mkdir ran-$ALLOTMENT_RUN-$RANK || { echo twice; exit 9; }
trap 'exit 143' TERM
for piece in $(seq $1); do sleep 0.1; done
echo done
'''
chance, number, ends = random.Random(11), 0, time.monotonic() + SECONDS
while time.monotonic() < ends:
    gpus, contract = chance.choice(GANGS)
    request = dict(
        size_milli=gpus * 1_000, min_runtime_s=contract, resumable=True, idempotency_key=f"storm-{number}",
        command=["/bin/sh", "-c", ONCE, "once", str(chance.randrange(1, 40))],
    )
    code = chance.choice("AB")
    while True:
        try:
            workloads.submit(
                cluster=Cluster.objects.get(), leaf=BudgetNode.objects.get(code=code), owner=None, **request
            )
            break
        except Exception as error:
            print(type(error).__name__, file=sys.stderr, flush=True)
            connections.close_all()
            time.sleep(0.5)
    number += 1
    time.sleep(chance.uniform(1.0, 3.0))
print("submitted", number)
"""
OPEN = """
import json
from scheduler.models import Node, Workload
rows = Workload.objects.filter(state__in=Workload.OPEN_STATES).prefetch_related("runs__ranks")
print(json.dumps([
    [row.code, row.size_milli, row.state, row.reason_text,
     [[run.pk, run.state, run.end_reason, [[each.index, each.state] for each in run.ranks.all()]]
      for run in row.runs.all()]]
    for row in rows
] + ([[node.name, node.health, node.trouble, str(node.heartbeat_at)] for node in Node.objects.all()] if rows else [])))
"""
CHECK = """
import json
from datetime import timedelta
from django.utils import timezone
from budgets.models import Cluster
from scheduler.models import Event, Rank, Run, Workload
from scheduler.services import usage
from tests.scheduler.conftest import check_books
check_books()
cluster = Cluster.objects.get()
now = timezone.now()
usage.roll_up(cluster)
hour = now.replace(minute=0, second=0, microsecond=0)
broken = [
    str(run) for run in Run.objects.filter(funded=True, stop_asked_at__isnull=False, running_at__isnull=False)
    if run.stop_asked_at < run.contract_ends_at
]
print(json.dumps({
    "workloads": list(Workload.objects.values_list("code", "state")),
    "runs": [
        [run.pk, run.workload.code, run.end_reason, run.running_at is not None,
         [[rank.index, rank.state, rank.exit_code, rank.message] for rank in run.ranks.order_by("index")]]
        for run in Run.objects.select_related("workload").order_by("pk")
    ],
    "broken_contracts": broken,
    "differences": [str(each) for each in usage.check(cluster, hour - timedelta(hours=2), hour)],
    "started_twice": Event.objects.filter(kind="run_started").count() - Run.objects.count(),
}))
"""


@pytest.fixture
def installation() -> Iterator[Installation]:
    """An installation with four nodes of two GPUs, not running."""
    parent = Path(tempfile.mkdtemp(prefix="allotment-storm-", dir="/tmp"))
    parent.chmod(0o711)
    installed = Installation(parent / "data")
    try:
        set_up(installed)
        (installed.data / "agents").mkdir()
        for name in NODES:
            said = {"cluster": "here", "node": name, "gpus": 2, "pretend": True, "heartbeat_s": 2}
            (installed.data / "agents" / f"{name}.json").write_text(json.dumps(said))
        shell(installed, MAKE)
        yield installed
    finally:
        if installed.front and installed.front.poll() is None:
            installed.stop()
        shutil.rmtree(parent, ignore_errors=True)


def stream(
    installation: Installation, gangs: Sequence[tuple[int, int]] = GANGS, seconds: int = STORM_S
) -> subprocess.Popen[str]:
    """Somebody who submits gangs, each of so many GPUs and such a contract, and tries again whatever happens."""
    python = str(REPOSITORY / ".venv/bin/python")
    script = STREAM.replace("SECONDS", str(seconds)).replace("GANGS", str(list(gangs)))
    return subprocess.Popen(
        [
            *(python, "-m", "portal.supervisor", "exec", "--data", str(installation.data), "--"),
            *(python, "manage.py", "shell", "--no-imports", "-c", script),
        ],
        cwd=REPOSITORY,
        env=installation.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def storm(installation: Installation) -> Counter[str]:
    """Kill something every few seconds, each about as often; how often each."""
    chance, killed = random.Random(5), Counter[str]()
    ends_s = time.monotonic() + STORM_S
    while time.monotonic() < ends_s:
        time.sleep(chance.uniform(1, 4))
        least = min(killed[name] for name in VICTIMS)
        name = chance.choice([name for name in VICTIMS if killed[name] <= least + 1])
        try:
            os.kill(installation.find(*VICTIMS[name]), signal.SIGKILL)
        except (AssertionError, ProcessLookupError):  # it has not been started again yet
            continue
        killed[name] += 1
    return killed


def ask(installation: Installation, script: str) -> Any:
    """What a script of the portal's prints last, once the database answers."""
    found: list[Any] = []

    def asked() -> bool:
        try:
            found.append(json.loads(shell(installation, script).splitlines()[-1]))
        except (AssertionError, ValueError, IndexError):
            return False
        return True

    assert wait_until(asked, within_s=90)
    return found[-1]


@pytest.mark.alone
@pytest.mark.long
def test_whatever_is_killed_nothing_is_lost_and_nothing_runs_twice(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.platform.conftest.START_WITHIN_S", 300)  # on a crowded machine, too
    installation.start()
    assert wait_until(lambda: any_joined(installation, len(NODES)), within_s=60)
    submitter = stream(installation)
    killed = storm(installation)
    said, _ = submitter.communicate(timeout=120)
    assert wait_until(lambda: ask(installation, OPEN) == [], within_s=SETTLE_S), json.dumps(ask(installation, OPEN))
    found = ask(installation, CHECK)
    print(killed, said)
    assert min(killed[name] for name in VICTIMS) >= 2, killed
    assert said.split() == ["submitted", str(len(found["workloads"]))]
    assert {state for _code, state in found["workloads"]} == {"finished"}, found
    assert (found["broken_contracts"], found["differences"], found["started_twice"]) == ([], [], 0)
    ends = {reason for _pk, _code, reason, _ran, _ranks in found["runs"]}
    assert ends <= {"finished", "preempted_unallocated", "preempted_fair_share", "preempted_reservation"}, found["runs"]
    folders = (installation.data / "servers", Path("/var/lib/allotment") / installation.identity)
    (work,) = (path for folder in folders if (path := folder / "nodes" / "work").is_dir())
    for pk, code, reason, ran, ranks in found["runs"]:
        marks = {path.name for path in (work / code).glob(f"ran-{pk}-*")}
        if reason == "finished":
            assert ran
            assert marks == {f"ran-{pk}-{index}" for index, *_rest in ranks}
        assert all(exit_code != 9 for _index, _state, exit_code, _message in ranks)
