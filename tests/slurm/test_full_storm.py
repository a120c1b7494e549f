"""Everything is killed at random instants with a real Slurm below: its controller, whoever looks at it, the worker,
beat, PostgreSQL, the broker. A steady stream of gangs: nothing is lost, nothing runs twice, no contract is broken, no
gang goes on in part, and the books balance.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executors.test_full_storm import CHECK, OPEN, ask, stream
from tests.executors.test_under_run import shell
from tests.platform.conftest import Installation, wait_until
from tests.platform.test_backup import set_up
from tests.slurm.cluster import SlurmSite
from tests.slurm.conftest import tidy

pytestmark = [pytest.mark.long, pytest.mark.alone]

STORM_S = 70
SETTLE_S = 400
"""Slurm itself may take minutes to notice that a job has ended which it had forgotten when it was killed."""
VICTIMS: dict[str, tuple[str, ...]] = {
    "worker": ("celery", "worker", "--concurrency 2", "--without-gossip", "--hostname"),
    "beat": ("celery", "beat"),
    "slurm_sync": ("manage", "slurm_sync"),
    "postgresql": ("postgres", "-D"),
    "broker": ("valkey-server",),
}
CONTROLLER = "slurmctld"
GANGS = ((1, 4), (4, 4), (8, 6), (16, 4), (16, 3), (2, 0), (4, 0), (12, 0))
"""What is submitted, of up to all four nodes: GPUs, and the contract in seconds."""
MAKE = """
from datetime import date
from budgets.services import shares, tree
from scheduler.services import clusters, policies
from scheduler.services.slurm import links
cluster = clusters.create(name="here", executor="slurm")
policies.change(
    cluster=cluster, knobs={"min_runtime_min_s": 2, "grace_s": 5, "pass_every_s": 1, "healthy_dwell_s": 0}
)
root = tree.create_root(code="lab", name="Laboratory")
leaves = {}
for code in ("A", "B"):
    leaves[tree.add_child(parent=root, kind="project", code=code, name=code, by=None)] = 5_000
root.refresh_from_db()
shares.set_shares(parent=root, cluster=cluster, shares=leaves, valid_from=date(2026, 1, 1), by=None)
links.connect(cluster=cluster, conf=CONF, name="test", partition="gpu", folder=FOLDER, writes=True)
"""
COUNT = "from scheduler.models import Node; print(Node.objects.count())"


@pytest.fixture
def installation(slurm: SlurmSite) -> Iterator[Installation]:
    """An installation above a Slurm of four nodes with four GPUs each, not running."""
    tidy(slurm)
    for path in (slurm.root / "jobs").iterdir():
        shutil.rmtree(path, ignore_errors=True)
    parent = Path(tempfile.mkdtemp(prefix="allotment-storm-", dir="/tmp"))
    parent.chmod(0o711)
    installed = Installation(parent / "data")
    installed.environment |= {"ALLOTMENT_SLURM": "true"}
    try:
        set_up(installed)
        folder = str(slurm.root / "jobs")
        shell(installed, MAKE.replace("CONF", repr(str(slurm.conf))).replace("FOLDER", repr(folder)))
        yield installed
    finally:
        if installed.front and installed.front.poll() is None:
            installed.stop()
        shutil.rmtree(parent, ignore_errors=True)
        if CONTROLLER not in slurm.processes:
            slurm.start_ctld()


def storm(installation: Installation, slurm: SlurmSite) -> Counter[str]:
    """Kill something every few seconds; how often each. The controller is started again, as systemd would."""
    chance, killed = random.Random(7), Counter[str]()
    names = [*VICTIMS, CONTROLLER]
    ends_s = time.monotonic() + STORM_S
    while time.monotonic() < ends_s:
        time.sleep(chance.uniform(0.5, 3))
        name = chance.choice(names)
        if name == CONTROLLER:
            slurm.kill(CONTROLLER)
            time.sleep(chance.uniform(0, 2))
            slurm.start_ctld()
        else:
            try:
                os.kill(installation.find(*VICTIMS[name]), signal.SIGKILL)
            except (AssertionError, ProcessLookupError):  # it has not been started again yet
                continue
        killed[name] += 1
    return killed


def test_whatever_is_killed_nothing_is_lost_and_nothing_runs_twice(
    installation: Installation, slurm: SlurmSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.platform.conftest.START_WITHIN_S", 300)  # on a crowded machine, too
    installation.start()
    assert wait_until(lambda: shell(installation, COUNT).split()[-1] == "4", within_s=60)
    submitter = stream(installation, GANGS, STORM_S)
    killed = storm(installation, slurm)
    said, _ = submitter.communicate(timeout=120)
    began_s = time.monotonic()
    slurm.run("scontrol", "reconfigure")  # nodes say what runs: by itself Slurm asks every twentieth ping, 2 min apart
    assert wait_until(lambda: ask(installation, OPEN) == [], within_s=SETTLE_S), json.dumps(
        ask(installation, OPEN)
    ) + slurm.run("squeue", "-a", "-t", "all", must=False)
    found = ask(installation, CHECK)
    print(killed, said, f"settled in {time.monotonic() - began_s:.0f} s")
    assert sum(killed.values()) >= 20
    assert set(killed) == {*VICTIMS, CONTROLLER}
    assert said.split() == ["submitted", str(len(found["workloads"]))]
    assert {state for _code, state in found["workloads"]} == {"finished"}, found
    assert (found["broken_contracts"], found["differences"], found["started_twice"]) == ([], [], 0)
    ends = {reason for _pk, _code, reason, _ran, _ranks in found["runs"]}
    lost = "node_lost"  # a killed controller forgets what it had just begun
    allowed = {"finished", "preempted_unallocated", "preempted_fair_share", "preempted_reservation", lost}
    assert ends <= allowed, found["runs"]
    jobs = slurm.root / "jobs"
    for pk, code, reason, ran, ranks in found["runs"]:
        marks = {path.name for path in (jobs / code).glob(f"ran-{pk}-*")}
        if reason == "finished":
            assert ran
            assert marks == {f"ran-{pk}-{index}" for index, *_rest in ranks}
    assert not [path for path in jobs.glob("*/.allotment/*.out") if "twice" in path.read_text()]
    assert slurm.run("squeue", "-ah", "-t", "running", "-o", "%A").split() == []
