"""Processes beside a test."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.conftest import REPOSITORY


@contextmanager
def running(argv: list[str], environment: dict[str, str], log: str = "/dev/null") -> Iterator[subprocess.Popen[bytes]]:
    """A process with a group of its own, which is gone afterwards."""
    with open(log, "ab") as file:
        process = subprocess.Popen(
            argv, env=environment, cwd=REPOSITORY, start_new_session=True, stdout=file, stderr=file
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
