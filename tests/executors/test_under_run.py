"""Workloads under `./run`: they end with it, however it ends, and go on when it is started again."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.platform.conftest import GONE_WITHIN_S, Installation, survivors, wait_until

MAKE = """
from datetime import date
from budgets.models import BudgetNode
from budgets.services import shares, tree
from scheduler.services import clusters, policies, workloads
cluster = clusters.create(name="here")
policies.change(cluster=cluster, knobs={"min_runtime_min_s": 5, "grace_s": 10, "pass_every_s": 1})
root = tree.create_root(code="lab", name="Laboratory")
leaf = tree.add_child(parent=root, kind="project", code="A", name="A", by=None)
root.refresh_from_db()
shares.set_shares(parent=root, cluster=cluster, shares={leaf: 10_000}, valid_from=date(2026, 1, 1), by=None)
"""
SUBMIT = """
from budgets.models import BudgetNode, Cluster
from scheduler.services import workloads
workloads.submit(
    cluster=Cluster.objects.get(), leaf=BudgetNode.objects.get(code="A"), owner=None, size_milli=4_000,
    min_runtime_s=60,
    command=["demo-train", "--steps", "100000", "--step-ms", "20", "--save-ms", "1"], resumable=True,
)
"""
SHOW = """
import json
from scheduler.models import LogChunk, Run, Workload
print(json.dumps([
    list(Workload.objects.values_list("code", "state")),
    [(run.state, run.end_reason, run.ranks.count()) for run in Run.objects.order_by("pk")],
    [chunk.text for chunk in LogChunk.objects.filter(rank__index=0, offset=0).order_by("pk")],
]))
"""


def shell(installation: Installation, script: str) -> str:
    """What a script prints, run on the installation's databases."""
    done = subprocess.run(
        [
            *(REPOSITORY / ".venv/bin/python", "-m", "portal.supervisor", "exec", "--data", installation.data, "--"),
            *(REPOSITORY / ".venv/bin/python", "manage.py", "shell", "--no-imports", "-c", script),
        ],
        check=False,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env=installation.environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def installation() -> Iterator[Installation]:
    """An installation with two agents' settings, not running."""
    parent = Path(tempfile.mkdtemp(prefix="allotment-run-", dir="/tmp"))
    parent.chmod(0o711)
    installed = Installation(parent / "data")
    try:
        assert installed.run("--setup-only").returncode == 0
        (installed.data / "agents").mkdir()
        for name in ("n1", "n2"):
            said = {"cluster": "here", "node": name, "gpus": 2, "pretend": True, "heartbeat_s": 1}
            (installed.data / "agents" / f"{name}.json").write_text(json.dumps(said))
        shell(installed, MAKE)
        yield installed
    finally:
        if installed.front and installed.front.poll() is None:
            installed.stop()
        shutil.rmtree(parent, ignore_errors=True)


def shown(installation: Installation) -> list[list[list[str]]]:
    """Workloads, runs, and the first of what their first ranks printed."""
    return json.loads(shell(installation, SHOW).splitlines()[-1])


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_gang_ends_with_run_and_goes_on_with_the_next_one(installation: Installation, how: int) -> None:
    installation.start()
    assert wait_until(lambda: any_joined(installation, 2), within_s=30)
    shell(installation, SUBMIT)
    assert wait_until(lambda: shown(installation)[1] == [["running", "", 2]], within_s=30)
    assert wait_until(lambda: shown(installation)[2] != [], within_s=10)
    before = installation.processes()
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in before]
    assert len([line for line in lines if b"demo-train" in line]) == 2
    os.kill(installation.front.pid, how)
    installation.front.wait(60)
    assert wait_until(lambda: not survivors(before), within_s=GONE_WITHIN_S), survivors(before)
    installation.start()
    assert wait_until(lambda: [run[0] for run in shown(installation)[1]] == ["ended", "running"], within_s=40)
    assert shown(installation)[1][0] == ["ended", "node_lost", 2]
    assert wait_until(lambda: len(shown(installation)[2]) == 2, within_s=10)
    first, second = shown(installation)[2]
    assert "devices 0,1: began at step 0" in first
    assert "devices 0,1: resumed at step " in second


def any_joined(installation: Installation, count: int) -> bool:
    """Whether so many agents have joined."""
    logs = [path.read_text() for path in (installation.data / "log").glob("agent-*.log")]
    return sum("joined" in log for log in logs) >= count
