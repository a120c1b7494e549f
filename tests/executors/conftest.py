"""Real agents, as processes of their own, against a live portal; a small organisation that submits real commands."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.utils import timezone

from budgets.models import BudgetNode, Cluster, Person
from budgets.services import shares, tree
from scheduler.loop import live_on, look_at
from scheduler.models import LogChunk, Node, Rank, Run, Workload
from scheduler.services import clusters, policies, workloads
from tests.conftest import REPOSITORY

PATIENCE_S = 20
GRACE_S = 2
FIRST_UID = 40_000


def wait_for(what: Callable[[], Any], *, within_s: float = PATIENCE_S) -> Any:
    """What `what` says as soon as that is true; fails if it never is."""
    deadline = time.monotonic() + within_s
    while not (said := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.03)
    return said


def option(key: str) -> str:
    """A setting's name on the command line."""
    return f"--{key.replace('_', '-')}"


@dataclass
class AgentProcess:
    """One node's agent; `within` is what its command begins with, where it runs in a namespace of its own."""

    name: str
    folder: Path
    options: list[str]
    path: str = str(REPOSITORY)
    within: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def state(self) -> Path:
        return self.folder / self.name

    @property
    def token(self) -> str:
        return (self.state / "token").read_text()

    @property
    def row(self) -> Node:
        return Node.objects.get(name=self.name)

    def start(self) -> AgentProcess:
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.within, sys.executable, "-m", "scheduler.executors.agent", *self.options],
                cwd="/",
                env={"PATH": os.environ["PATH"], "PYTHONPATH": self.path, "SECRET_OF_THE_AGENT": "yes"},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        return self

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text()

    def ranks(self) -> list[Path]:
        """The folders of the ranks it knows."""
        return sorted((self.state / "ranks").iterdir())


@dataclass
class Site:
    """A portal, its cluster, and a folder for the nodes of this machine."""

    url: str
    cluster: Cluster
    leaf: BudgetNode
    rival: BudgetNode
    folder: Path
    agents: list[AgentProcess] = field(default_factory=list)

    def agent(
        self,
        name: str = "n1",
        *,
        gpus: int = 2,
        joins: bool = True,
        path: str = str(REPOSITORY),
        within: Sequence[str] = (),
        **options: Any,
    ) -> AgentProcess:
        """Start an agent; by default wait until it has joined and can be called. `path` is where Python looks."""
        join_token = self.folder / "join_token"
        join_token.write_text(settings.AGENT_TOKEN)
        said = {
            "portal": self.url,
            "cluster": self.cluster.name,
            "node": name,
            "gpus": gpus,
            "pretend": True,
            "state": self.folder / name,
            "work": self.folder / "work",
            "join-token-file": join_token,
            "heartbeat-s": 1,
            **options,
        }
        argv = [word for key, value in said.items() for word in (option(key), str(value)) if value is not True]
        argv += [option(key) for key, value in said.items() if value is True]
        agent = AgentProcess(name, self.folder, argv, path, list(within))
        self.agents.append(agent.start())
        if joins:
            wait_for(lambda: Node.objects.filter(name=name).exclude(wake_url="").exists())
        return agent

    def submit(self, *command: str, gpus: float = 1, **more: Any) -> Workload:
        """Submit a command and let a pass place it."""
        workload = workloads.submit(
            cluster=self.cluster,
            leaf=more.pop("leaf", self.leaf),
            owner=more.pop("owner", None),
            size_milli=int(gpus * 1_000),
            min_runtime_s=more.pop("min_runtime_s", 300),
            command=list(command),
            **more,
        )
        self.look()
        return workload

    def look(self) -> None:
        """What is due by the clock, then passes until nothing is left to do."""
        live_on(self.cluster, timezone.now())
        look_at(self.cluster.pk, is_due=True)

    def wait(self, workload: Workload, *states: str, within_s: float = PATIENCE_S) -> Workload:
        """The workload, once it is in one of these states."""

        def there() -> bool:
            workload.refresh_from_db()
            assert workload.state in states or workload.state not in Workload.ENDED_STATES
            return workload.state in states

        try:
            wait_for(there, within_s=within_s)
        except AssertionError:
            logs = "\n".join(agent.log() for agent in self.agents)
            ranks = list(Rank.objects.filter(run__workload=workload).values())
            raise AssertionError(f"{workload.code} is {workload.state}, not {states}\n{ranks}\n{logs}") from None
        return workload

    def run(self, workload: Workload) -> Run:
        """Its last run."""
        return workload.runs.order_by("-number").first()

    def printed(self, workload: Workload, rank: int = 0) -> str:
        """What a rank of its last run printed, as far as the portal knows."""
        chunks = LogChunk.objects.filter(rank__run=self.run(workload), rank__index=rank).order_by("offset")
        return "".join(chunk.text for chunk in chunks)

    def marked(self, run: Run) -> list[int]:
        """The living processes that bear a run's variables: its commands, and what they started."""
        marks = {f"ALLOTMENT_RUN={run.pk}", f"ALLOTMENT_DIRECTORY={self.folder}/work/{run.workload.code}"}
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    variables = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                except OSError:
                    continue
                if marks <= set(variables) and state != "Z":
                    found.append(int(entry.name))
        return sorted(found)

    def post(self, name: str, content: Any, *, token: str = "") -> tuple[int, dict[str, Any]]:
        """Speak to the portal as an agent would; status and answer."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        request = urllib.request.Request(f"{self.url}/api/v1/agent/{name}", data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def close(self) -> None:
        """End every process that the test's agents started, and the agents."""
        for agent in self.agents:
            if agent.process is not None and agent.process.poll() is None:
                agent.process.kill()
                agent.process.wait(10)
        for folder in self.folder.glob("*/ranks/*"):
            record = folder / "record.json"
            pid = json.loads(record.read_text()).get("minder") if record.exists() else None
            if pid is not None and Path(f"/proc/{pid}").exists() and is_minder_of(pid, folder):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
        for run in Run.objects.select_related("workload"):
            for pid in self.marked(run):
                with suppress(ProcessLookupError):  # it ended by itself meanwhile
                    os.kill(pid, signal.SIGKILL)


class Gate:
    """A way to the portal that can be shut."""

    def __init__(self, url: str, host: str = "127.0.0.1") -> None:
        """Forward connections on a port of our own, at an address of this machine, to that address."""
        self._to = (urlsplit(url).hostname, urlsplit(url).port)
        self._open = True
        self._listener = socket.create_server((host, 0))
        self.url = f"http://{host}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def shut(self) -> None:
        """From now on nobody comes through."""
        self._open = False

    def reopen(self) -> None:
        """Let them through again."""
        self._open = True

    def close(self) -> None:
        """For good."""
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _address = self._listener.accept()
            except OSError:
                return
            if not self._open:
                near.close()
                continue
            far = socket.create_connection(self._to)
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return


@pytest.fixture
def gate(site: Site) -> Iterator[Gate]:
    """A way to the site's portal that can be shut."""
    gate = Gate(site.url)
    yield gate
    gate.close()


def is_minder_of(pid: int, folder: Path) -> bool:
    """Whether that process minds the rank of that folder."""
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:  # it has just ended
        return False


@pytest.fixture
def site(live_server: Any, settings: Any) -> Iterator[Site]:
    """A portal with one cluster of two equal projects, and a folder that workloads' users can pass through."""
    settings.URL = live_server.url
    cluster = clusters.create(name="bench")
    policies.change(cluster=cluster, knobs={"grace_s": GRACE_S, "healthy_dwell_s": 0})
    root = tree.create_root(code="lab", name="Laboratory")
    leaves = [
        tree.add_child(parent=root, kind=BudgetNode.Kind.PROJECT, code=code, name=f"Project {code}", by=None)
        for code in ("A", "B")
    ]
    root.refresh_from_db()
    today = timezone.localdate() - timedelta(days=1)
    shares.set_shares(parent=root, cluster=cluster, shares=dict.fromkeys(leaves, 5_000), valid_from=today, by=None)
    folder = Path(tempfile.mkdtemp(prefix="allotment-nodes-", dir="/tmp"))
    folder.chmod(0o711)
    site = Site(live_server.url, cluster, leaves[0], leaves[1], folder)
    try:
        yield site
    finally:
        site.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def owners(db: None) -> list[Person]:
    """Two people."""
    return [Person.objects.create(username=name, display_name=name.title()) for name in ("ana", "bo")]
