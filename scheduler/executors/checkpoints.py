"""When a workload last wrote its checkpoint, and which moment of its grace is the best one to stop it.

A workload says where its checkpoint is (a path in its working directory: the file's time counts, or the newest one in
a folder), or calls `allotment-checkpoint [--next-in SECONDS]` whenever it has written one. Standard library only.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Mapping
from typing import Any

NOTE = ".allotment-checkpoint"
"""In the working directory: what `allotment-checkpoint` writes."""
NOTE_MAX_BYTES = 200
ENTRIES_MAX = 1_000
SLACK = 0.25
"""A checkpoint may come so much later than its interval says, and still be worth waiting for."""


class Checkpoints:
    """The checkpoints of one rank. Instants are seconds of CLOCK_BOOTTIME."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """`spec` as the minder has it: `directory`, `checkpoint` (a path or empty), `checkpoint_every_s`."""
        self._note = os.path.join(spec["directory"], NOTE)
        self._path = spec.get("checkpoint") or ""
        self._said_every_s = float(spec.get("checkpoint_every_s") or 0)
        self.last_s: float | None = None
        self._before_s: float | None = None

    def look(self, not_before_s: float) -> float | None:
        """When the last one was written, by the files' times; one from before this run is none."""
        ages = [age for path in (self._note, self._path) if path and (age := age_s(path)) is not None]
        if ages:
            at_s = time.clock_gettime(time.CLOCK_BOOTTIME) - min(ages)
            if at_s >= not_before_s and (self.last_s is None or at_s > self.last_s + 0.01):
                self._before_s, self.last_s = self.last_s, at_s
        return self.last_s

    @property
    def every_s(self) -> float:
        """How long from one to the next: as the last call said, as the submission said, or as was seen; 0 unknown."""
        if (said := next_in_s(self._note)) is not None:
            return said
        if self._said_every_s:
            return self._said_every_s
        return self.last_s - self._before_s if self.last_s is not None and self._before_s is not None else 0.0

    def wait_until_s(self, now_s: float, by_s: float, margin_s: float) -> float | None:
        """Until when a checkpoint that is about to be written is worth waiting for; None: stop at once.

        `margin_s` is left for stopping before `by_s`. A checkpoint that comes too late for that is not waited for.
        """
        if self.last_s is None or not self.every_s:
            return None
        late_s = self.last_s + self.every_s * (1 + SLACK)
        latest_s = by_s - margin_s
        if self.last_s + self.every_s > latest_s or late_s <= now_s:
            return None
        return min(late_s, latest_s)


def age_s(path: str) -> float | None:
    """How old the newest of a file or a folder's files is; None where there is none."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            with os.scandir(path) as entries:
                some = itertools.islice(entries, ENTRIES_MAX)
                times = [entry.stat(follow_symlinks=False).st_mtime for entry in some]
            if not times:
                return None
            return max(time.time() - max(times), 0.0)
        return max(time.time() - os.lstat(path).st_mtime, 0.0)
    except OSError:
        return None


def next_in_s(note: str) -> float | None:
    """What the last call of `allotment-checkpoint` said."""
    try:
        descriptor = os.open(note, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            said = json.loads(file.read(NOTE_MAX_BYTES)).get("next_in_s")
    except (OSError, ValueError, AttributeError):
        return None
    return float(said) if isinstance(said, int | float) and not isinstance(said, bool) and 0 < said < 1e6 else None
