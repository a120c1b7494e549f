"""A small disk of its own, and what fills it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from portal.supervisor.place import is_root

PIECE = b"\0" * 65_536


@contextmanager
def small_disk(size_mib: int) -> Iterator[Path]:
    """A folder on a disk of that size; skips loudly where we may not mount one."""
    if not is_root():
        pytest.skip("NO SMALL DISK: only root can mount one")
    folder = Path(tempfile.mkdtemp(prefix="allotment-disk-", dir="/tmp"))
    folder.chmod(0o711)
    options = f"size={size_mib}m,mode=711"
    done = subprocess.run(
        ("mount", "-t", "tmpfs", "-o", options, "allotment-test", str(folder)), check=False, capture_output=True
    )
    if done.returncode:
        folder.rmdir()
        pytest.skip(f"NO SMALL DISK: it cannot be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(("umount", "--lazy", str(folder)), check=True)
        folder.rmdir()


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """The disk has no room left."""
    ballast = folder / "ballast"
    fill(ballast)
    try:
        yield
    finally:
        ballast.unlink()


def fill(ballast: Path) -> None:
    """Until nothing more can be written; again, for what has been given back meanwhile."""
    with ballast.open("ab", buffering=0) as file:
        for piece in (PIECE, PIECE[:1]):
            try:
                while os.write(file.fileno(), piece):
                    pass
            except OSError:
                continue
