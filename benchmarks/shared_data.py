"""The traces of other people's clusters that stand beside the repository, and are no part of it."""

from __future__ import annotations

from pathlib import Path

from benchmarks import Missing

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"


def trace(name: str) -> Path:
    """The path of a trace.

    Raises:
        Missing: it is not there.
    """
    path = SHARED / "traces" / name
    if not path.is_file():
        raise Missing(f"needs ../shared/traces/{name}, which is not here")
    return path
