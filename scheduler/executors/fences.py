"""What must outlive the agent so that nothing of the past is obeyed: epochs, and the newest run of each workload."""

from __future__ import annotations

import time
from pathlib import Path

from scheduler.executors.minder import read_json, write_json

KEPT_MAX = 5_000
"""Workloads whose newest run is remembered: those started last."""


class Fences:
    """Numbers that only rise, in a file of the agent's folder.

    Attributes:
        epoch: ours, higher than that of any start before.
        portal_epoch: the highest that any portal has said.
    """

    def __init__(self, folder: Path) -> None:
        """Take the next epoch.

        Raises:
            OSError: it cannot be written down.
        """
        self._path = str(folder / "fences.json")
        known = read_json(self._path) or {}
        # Time makes it higher than that of a copy of this folder, too; the clock need not be right for that.
        self.epoch = max(known.get("epoch", 0) + 1, time.time_ns() // 1_000)
        self.portal_epoch: int = known.get("portal_epoch", 0)
        self._newest: dict[str, int] = known.get("newest", {})
        self._store()

    def is_past(self, portal_epoch: int) -> bool:
        """Whether a portal of this epoch has been replaced; a higher one is remembered.

        Raises:
            OSError: it cannot be written down.
        """
        if portal_epoch > self.portal_epoch:
            self.portal_epoch = portal_epoch
            self._store()
        return portal_epoch < self.portal_epoch

    def may_start(self, workload: str, run: int) -> bool:
        """Whether no newer run of the workload has been started here, nor this one before."""
        return run > self._newest.get(workload, 0)

    def started(self, workload: str, run: int) -> None:
        """From now on no run that is not newer may start.

        Raises:
            OSError: it cannot be written down, so it must not be started.
        """
        self._newest.pop(workload, None)
        self._newest[workload] = run
        while len(self._newest) > KEPT_MAX:
            del self._newest[next(iter(self._newest))]
        self._store()

    def _store(self) -> None:
        content = {"epoch": self.epoch, "portal_epoch": self.portal_epoch, "newest": self._newest}
        write_json(self._path, content)
