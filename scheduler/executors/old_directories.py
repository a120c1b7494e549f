"""Working directories that nothing here uses any more: the portal is asked, and those it names are removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from scheduler.executors.base import CODE
from scheduler.executors.heartbeat import DIRECTORIES_MAX
from scheduler.executors.minder import boottime_s

ASK_EVERY_S = 3_600
UNTOUCHED_S = 3_600
"""What was changed within this time is not asked about."""
REMOVING = ".removing-"


class OldDirectories:
    """Those of one work folder, which agents may share."""

    def __init__(self, work: Path, every_s: int = ASK_EVERY_S, untouched_s: int = UNTOUCHED_S) -> None:
        self._work, self._every_s, self._untouched_s = work, every_s, untouched_s
        self._next_s = boottime_s() + min(every_s, 60)
        self._asked: list[str] = []

    def to_ask(self, used: Collection[str]) -> list[str]:
        """Directories to ask the portal about: now and then, at most so many, and none that a rank here uses."""
        now_s = boottime_s()
        if now_s < self._next_s:
            return []
        self._next_s = now_s + self._every_s
        self._asked = sorted(self._old(used))[:DIRECTORIES_MAX]
        return self._asked

    def remove(self, names: Iterable[str], used: Collection[str]) -> list[threading.Thread]:
        """Remove those of them that the portal named, beside the agent; they are out of the way at once."""
        threads = []
        for name in set(names) & set(self._asked) - set(used):
            gone = self._work / f"{REMOVING}{name}"
            with contextlib.suppress(OSError):  # another agent was quicker
                (self._work / name).rename(gone)
                threads.append(threading.Thread(target=shutil.rmtree, args=(gone, True), daemon=True))
                threads[-1].start()
        return threads

    def _old(self, used: Collection[str]) -> Iterable[str]:
        latest = time.time() - self._untouched_s
        with os.scandir(self._work) as entries:
            for entry in entries:
                if entry.name.startswith(REMOVING):  # its agent was killed meanwhile
                    shutil.rmtree(entry.path, ignore_errors=True)
                elif CODE.fullmatch(entry.name) and entry.name not in used and entry.is_dir(follow_symlinks=False):
                    with contextlib.suppress(OSError):
                        if entry.stat(follow_symlinks=False).st_mtime < latest:
                            yield entry.name
