"""Real installations: `./run` started for a test, in a data folder of its own."""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from portal.supervisor.processes import descendants, start_ticks
from tests.conftest import REPOSITORY

START_WITHIN_S = 60
GONE_WITHIN_S = 20
SETTINGS_OF_THE_TEST_RUN = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DJANGO_", "ALLOTMENT_")


def fresh_environment() -> dict[str, str]:
    """Our environment without what the test run has put there."""
    return {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS_OF_THE_TEST_RUN)}


def free_port() -> int:
    """A port of the loopback address that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(done: Callable[[], object], *, within_s: float) -> bool:
    """Whether `done` became true in time."""
    deadline = time.monotonic() + within_s
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@dataclass
class Installation:
    """A data folder, and the `./run` that was started in it last."""

    data: Path
    port: int = field(default_factory=free_port)
    front: subprocess.Popen[str] | None = None
    environment: dict[str, str] = field(default_factory=fresh_environment)

    @property
    def identity(self) -> str:
        return (self.data / "id").read_text(encoding="utf-8")

    def command(self, *options: str) -> list[str]:
        return [str(REPOSITORY / "run"), "--empty", "--data", str(self.data), "--port", str(self.port), *options]

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        """`./run` to its end."""
        return subprocess.run(
            self.command(*options), check=False, capture_output=True, text=True, env=self.environment, timeout=120
        )

    def start(self) -> float:
        """`./run` until the portal answers; the seconds that took."""
        began_s = time.monotonic()
        output = self.data.with_suffix(".output")
        with output.open("w") as file:
            self.front = subprocess.Popen(
                self.command(), env=self.environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        greeted = wait_until(
            lambda: "Allotment is at" in output.read_text() or self.front.poll() is not None, within_s=START_WITHIN_S
        )
        assert greeted, output.read_text()
        assert self.front.poll() is None, output.read_text()
        return time.monotonic() - began_s

    def output(self) -> str:
        """What `./run` has said since it was started."""
        return self.data.with_suffix(".output").read_text()

    def status_of(self, path: str) -> int | None:
        """The HTTP status of a page; None while nothing answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def processes(self) -> dict[int, int]:
        """Every living process of this installation with its start: those below the front, and those so marked."""
        found = dict(descendants(self.front.pid)) if self.front else {}
        mark = f"ALLOTMENT_INSTANCE={self.identity}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                marked = mark in (entry / "environ").read_bytes()
            except OSError:
                continue
            started = start_ticks(int(entry.name)) if marked else None
            if started is not None:
                found[int(entry.name)] = started
        return found

    def find(self, *words: str) -> int:
        """The process with these words on its command line, the oldest if there are several."""
        rows = []
        for pid, started in self.processes().items():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if all(word in line for word in words):
                rows.append((started, pid))
        assert rows, f"no process with {words}"
        return min(rows)[1]

    def stop(self) -> int:
        """Ctrl-C; the exit status."""
        self.front.send_signal(signal.SIGINT)
        return self.front.wait(60)


def survivors(processes: dict[int, int]) -> dict[int, str]:
    """Those of these processes that still live."""
    return {
        pid: Path(f"/proc/{pid}/comm").read_text() for pid, started in processes.items() if start_ticks(pid) == started
    }


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    """An installation without the demo; stopped and removed at the end."""
    parent = Path(tempfile.mkdtemp(prefix="allotment-run-", dir="/tmp"))
    parent.chmod(0o711)
    installed = Installation(parent / "data")
    try:
        yield installed
    finally:
        if installed.front and installed.front.poll() is None:
            installed.stop()
        shutil.rmtree(parent, ignore_errors=True)
