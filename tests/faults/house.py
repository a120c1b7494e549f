"""A real `./run` with two nodes, somebody signed in, and work that tells whether it was started twice."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.executors.test_full_storm import CHECK, ask
from tests.executors.test_under_run import any_joined, shell
from tests.faults.conftest import Web
from tests.platform.conftest import Installation, wait_until
from tests.platform.test_backup import set_up

PYTHON = str(REPOSITORY / ".venv/bin/python")
NODES = ("n1", "n2")
MAKE = """
from datetime import date, timedelta
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from budgets.models import Person, Role, RoleGrant
from budgets.queries import today
from budgets.services import shares, tree
from scheduler.services import clusters, policies
cluster = clusters.create(name="here")
policies.change(cluster=cluster, knobs={"min_runtime_min_s": 2, "grace_s": 5, "pass_every_s": 1, "healthy_dwell_s": 1})
root = tree.create_root(code="lab", name="Laboratory")
leaves = {tree.add_child(parent=root, kind="project", code=code, name=code, by=None): 5_000 for code in "AB"}
root.refresh_from_db()
shares.set_shares(parent=root, cluster=cluster, shares=leaves, valid_from=date(2026, 1, 1), by=None)
person = Person.objects.create_user("ana", password="sesame-open-42", display_name="Ana")
RoleGrant.objects.create(person=person, node=root, role=Role.OPERATOR, valid_from=today() - timedelta(days=1))
store = import_module(settings.SESSION_ENGINE).SessionStore()
store[SESSION_KEY], store[HASH_SESSION_KEY] = str(person.pk), person.get_session_auth_hash()
store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
store.save()
print(store.session_key)
"""
STREAM = """
import json, sys, time
from django.db import connections
from budgets.models import BudgetNode, Cluster
from scheduler.services import workloads

ONCE = '''
mkdir ran-$ALLOTMENT_RUN-$RANK || { echo twice; exit 9; }
trap 'exit 143' TERM
for piece in $(seq $1); do sleep 0.1; done
echo done
'''
number, refused = 0, 0
for line in sys.stdin:
    gpus, contract, pieces = json.loads(line)
    while True:
        tried_s = time.monotonic()
        try:
            workloads.submit(
                cluster=Cluster.objects.get(), leaf=BudgetNode.objects.get(code="AB"[number % 2]), owner=None,
                size_milli=gpus * 1_000, min_runtime_s=contract, resumable=True, idempotency_key=f"f-{number}",
                command=["/bin/sh", "-c", ONCE, "once", str(pieces)],
            )
            break
        except Exception as error:
            refused += 1
            print(type(error).__name__, error, file=sys.stderr, flush=True)
            connections.close_all()
            time.sleep(0.5)
    number += 1
    print(json.dumps([number, round(time.monotonic() - tried_s, 3), refused]), flush=True)
"""
STATES = """
import json
from scheduler.models import Node, Pass, Run, Workload
print(json.dumps({
    "states": list(Workload.objects.order_by("pk").values_list("state", flat=True)),
    "runs": Run.objects.count(),
    "nodes": [[node.name, node.health, node.trouble] for node in Node.objects.order_by("name")],
    "passes": Pass.objects.count(),
}))
"""


class House:
    """The installation, its web server, and a process that submits what it is told to."""

    def __init__(self, installation: Installation) -> None:
        set_up(installation)
        (installation.data / "agents").mkdir()
        for name in NODES:
            said = {"cluster": "here", "node": name, "gpus": 4, "pretend": True, "heartbeat_s": 2}
            (installation.data / "agents" / f"{name}.json").write_text(json.dumps(said))
        self.installation = installation
        self.cookie = f"sessionid={shell(installation, MAKE).split()[-1]}"
        self.web = Web(installation.port)
        self.submitted = 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.platform.conftest.START_WITHIN_S", 300)  # on a crowded machine, too
            try:
                installation.start()
                assert wait_until(lambda: any_joined(installation, len(NODES)), within_s=120)
            except BaseException:
                installation.stop()
                raise
        self.submitter = subprocess.Popen(
            [
                *(PYTHON, "-m", "portal.supervisor", "exec", "--data", str(installation.data), "--"),
                *(PYTHON, "manage.py", "shell", "--no-imports", "-c", STREAM),
            ],
            cwd=REPOSITORY,
            env=installation.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def tell(self, gpus: int, contract_s: int, tenths: int) -> None:
        """Have a workload submitted, however long that takes; it works for so many tenths of a second."""
        assert self.submitter.stdin is not None
        self.submitter.stdin.write(json.dumps([gpus, contract_s, tenths]) + "\n")
        self.submitter.stdin.flush()
        self.submitted += 1

    def submit(self, gpus: int, contract_s: int, tenths: int) -> tuple[float, int]:
        """The same, and wait until it is; the seconds that it took, and how many tries have failed so far."""
        self.tell(gpus, contract_s, tenths)
        assert self.submitter.stdout is not None
        while True:
            number, took_s, refused = json.loads(self.submitter.stdout.readline())
            if number == self.submitted:
                return took_s, refused

    def page(self, path: str) -> str:
        """A page as Ana sees it; empty where it is none."""
        answer = self.web.get(path, self.cookie)
        return answer.text if answer is not None and answer.status == 200 else ""

    def ask(self, script: str) -> Any:
        """What a script of the portal's prints."""
        return ask(self.installation, script)

    def folder(self, name: str) -> Path:
        """That of a private server, or of the nodes."""
        places = (self.installation.data / "servers", Path("/var/lib/allotment") / self.installation.identity)
        return next(path for place in places if (path := place / name).is_dir())

    def commands(self) -> int:
        """How many processes of workloads run."""
        found = 0
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    is_one = b"once" in (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                found += is_one
        return found

    def settle(self, within_s: float = 90) -> None:
        """Wait for the end of all work, and check that nothing was lost, doubled, broken or started twice."""
        done = lambda: set(self.ask(STATES)["states"]) == {"finished"}  # noqa: E731
        assert wait_until(done, within_s=within_s), self.ask(STATES)
        found = self.ask(CHECK)
        assert len(found["workloads"]) == self.submitted
        assert (found["broken_contracts"], found["differences"], found["started_twice"]) == ([], [], 0), found
        for pk, code, reason, ran, ranks in found["runs"]:
            marks = {path.name for path in (self.folder("nodes") / "work" / code).glob(f"ran-{pk}-*")}
            assert all(exit_code != 9 for _index, _state, exit_code, _message in ranks)
            assert reason in ("finished", "preempted_unallocated", "preempted_fair_share"), found["runs"]
            assert reason != "finished" or (ran and marks == {f"ran-{pk}-{index}" for index, *_rest in ranks})

    def close(self) -> None:
        """End it."""
        self.submitter.kill()
        self.submitter.wait()
        if self.installation.front and self.installation.front.poll() is None:
            self.installation.stop()
