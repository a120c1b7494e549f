"""The whole portal as it is run, for benchmarks from outside: PostgreSQL, Valkey, web server, worker and beat."""

from __future__ import annotations

import http.client
import json
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command

from portal.supervisor.databases import allot, private_services, release, started
from portal.supervisor.place import Place

READY_WITHIN_S = 60


@dataclass(frozen=True, slots=True)
class Portal:
    """Where it is, and where its processes write."""

    folder: Path
    port: int

    @contextmanager
    def running(self, *, passes: bool) -> Iterator[None]:
        """Its processes run inside the block: the web server, and if there are to be `passes` the workers and beat."""
        celery = ("celery", "-A", "portal.celery")
        commands: dict[str, tuple[str, ...]] = {
            "web": ("gunicorn", "--config", "python:portal.web_server", "--bind", f"127.0.0.1:{self.port}")
        }
        if passes:
            worker = (*celery, "worker", "--without-gossip", "--without-mingle", "--concurrency")
            commands["worker"] = (*worker, "2", "--hostname", "worker@%h")
            commands["ticks"] = (*worker, "1", "--hostname", "ticks@%h", "--queues", "ticks")
            commands["beat"] = (*celery, "beat", "-S", "portal.steady.SteadyScheduler", "--pidfile", "")
        processes = []
        for name, argv in commands.items():
            with (self.folder / f"{name}.log").open("ab") as log:
                processes.append(subprocess.Popen([sys.executable, "-m", *argv], stdout=log, stderr=log))
        try:
            self._wait()
            yield
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                process.wait(30)

    def _wait(self) -> None:
        until_s = time.monotonic() + READY_WITHIN_S
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            try:
                connection.request("GET", "/login/")
                if connection.getresponse().status == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            assert time.monotonic() < until_s, (self.folder / "web.log").read_text()[-2_000:]
            time.sleep(0.2)


@contextmanager
def own_portal() -> Iterator[Portal]:
    """An empty portal with databases of its own, reached through Django too, inside the block. Once in a process."""
    for name in ("DATABASE_URL", "REDIS_URL"):
        os.environ.pop(name, None)
    folder = Path(tempfile.mkdtemp(prefix="allotment-benchmark-", dir="/tmp"))
    folder.chmod(0o711)  # the servers' account has its folders inside
    place = Place.open(folder)
    addresses = allot(place)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    os.environ.update(
        addresses.environment,
        ALLOTMENT_DATA_DIR=str(folder),
        ALLOTMENT_URL=f"http://127.0.0.1:{port}",
        ALLOTMENT_ANY_COMMANDS="true",
        ALLOTMENT_LOG_LEVEL="WARNING",
        SECRET_KEY=secrets.token_hex(20),
        DJANGO_SETTINGS_MODULE="portal.settings",
        REMAP_SIGTERM="SIGQUIT",
    )
    try:
        with started(private_services(place, addresses)):
            django.setup()
            logging.getLogger().setLevel(logging.WARNING)
            call_command("prepare", verbosity=0)
            yield Portal(folder, port)
            django.db.connections.close_all()
    finally:
        release(addresses)
        shutil.rmtree(folder, ignore_errors=True)


def drive(plan: dict[str, Any]) -> dict[str, Any]:
    """Play a plan of tests/load/driver.py in a process of its own; what it measured."""
    argv = [sys.executable, "-m", "tests.load.driver"]
    done = subprocess.run(argv, check=True, input=json.dumps(plan), stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def quantile(seconds: list[float], part: float) -> float:
    """Of sorted values; the worst for 1."""
    return seconds[min(int(len(seconds) * part), len(seconds) - 1)] if seconds else 0.0
