"""Whether this node is fit: what its GPUs say, what the operator's own check says, and ranks that will not end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from scheduler.executors import gpus
from scheduler.executors.agent_config import Config, Refusal
from scheduler.executors.heartbeat import MESSAGE_MAX_CHARS, PROBLEMS_MAX
from scheduler.executors.minder import boot_id, boottime_s, read_json, write_json
from scheduler.executors.ranks import Rank

PATIENCE_S = 120
"""A check that takes longer has failed."""
REPAIR_PATIENCE_S = 3_600
ROOM_MIN_MIB = 32
"""With less room than this for what it starts, or writes down itself, a node takes nothing new."""
STUCK_S = 30
"""So long after its grace a rank that still lives is trouble: it hangs in the kernel."""
FAULTS = "faults"
"""In the state folder of an agent with pretend GPUs: each line is a problem. For trying out what then happens."""


class Errand:
    """One command of the operator's, beside the agent."""

    def __init__(self, command: Sequence[str], patience_s: int) -> None:
        """Start it; what cannot be started has failed."""
        self._until_s = boottime_s() + patience_s
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the command)
        self._process: subprocess.Popen[bytes] | None = None
        self.exit_code: int | None = None
        self.last_line = ""
        try:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said, start_new_session=True
            )
        except OSError as error:
            self.exit_code, self.last_line = 127, f"{command[0]}: {error.strerror}"

    def has_ended(self) -> bool:
        """Whether it has; if it takes too long, it is killed."""
        if self._process is None:
            return True
        code = self._process.poll()
        if code is None and boottime_s() >= self._until_s:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            code = self._process.wait()
            self.last_line = "it took too long"
        if code is None:
            return False
        self._process, self.exit_code = None, code
        self._said.seek(0)
        lines = self._said.read(65_536).decode(errors="replace").replace("\0", " ").split("\n")
        self.last_line = self.last_line or next((line.strip() for line in reversed(lines) if line.strip()), "")
        self._said.close()
        return True


class Health:
    """Looks at the node at each heartbeat, and runs the operator's own check now and then."""

    def __init__(self, config: Config, state: Path, work: Path | None = None) -> None:
        """Find the GPUs. `state` and `work` are the folders that need room.

        Raises:
            Refusal: it was to offer all there are, and NVML shows none.
        """
        self._config, self._state = config, state
        self._needs_room = [state] if work is None else [state, work]
        self.gpus: gpus.Gpus | None = None
        self._without = ""
        if not config.pretend and config.gpus:
            self.gpus, self._without = gpus.find()
        if config.gpus < 0 and self.gpus is None:
            raise Refusal(f"gpus: {self._without}")
        self._check: Errand | None = None
        self._next_check_s = 0.0
        self._checked = ""

    @property
    def devices(self) -> int:
        """How many devices the node offers."""
        if self._config.gpus < 0 and self.gpus is not None:
            return len(self.gpus.uuids)
        return self._config.devices

    @property
    def uuids(self) -> list[str]:
        """Of its GPUs, where they have names."""
        return [] if self.gpus is None else self.gpus.uuids[: self.devices]

    @property
    def gpu_class(self) -> str:
        """Of its GPUs, where they say it and are all of one."""
        return "" if self.gpus is None else self.gpus.gpu_class

    def problems(self, ranks: Iterable[Rank]) -> list[str]:
        """What is wrong now, each in one line."""
        found = self._of_gpus() + self._of_disks()
        if self._config.health_command:
            self._look_after_check()
            found += [self._checked] if self._checked else []
        now_s = boottime_s()
        found += [
            f"rank {rank.index} of {rank.workload} does not end"
            for rank in ranks
            if rank.told_by_s is not None and now_s > rank.told_by_s + STUCK_S and not rank.has_ended()
        ]
        return [line[:MESSAGE_MAX_CHARS] for line in found[:PROBLEMS_MAX]]

    def was_repaired(self) -> None:
        """Look again at once, and hold nothing of before against it."""
        if self.gpus is not None:
            self.gpus.forget()
        self._next_check_s = 0.0

    def _of_gpus(self) -> list[str]:
        if self._config.pretend:
            with contextlib.suppress(OSError):
                text = (self._state / FAULTS).read_text(encoding="utf-8", errors="replace")
                return [line.strip() for line in text.splitlines() if line.strip()]
            return []
        if self.gpus is not None:
            return self.gpus.problems()
        missing = [index for index in range(self._config.gpus) if not os.path.exists(f"/dev/nvidia{index}")]
        return [f"GPU {index} is gone: there is no /dev/nvidia{index}" for index in missing]

    def _of_disks(self) -> list[str]:
        """Folders whose disk is full: what starts there would fail for no fault of its own."""
        found: dict[int, str] = {}
        for folder in self._needs_room:
            with contextlib.suppress(OSError):
                room = os.statvfs(folder)
                free_mib = room.f_bavail * room.f_frsize // 2**20
                if free_mib < ROOM_MIN_MIB:
                    found.setdefault(folder.stat().st_dev, f"the disk of {folder} is full: {free_mib} MiB are free")
        return list(found.values())

    def _look_after_check(self) -> None:
        if self._check is None and boottime_s() >= self._next_check_s:
            self._check = Errand(self._config.health_command, PATIENCE_S)
        if self._check is not None and self._check.has_ended():
            code, said = self._check.exit_code, self._check.last_line
            self._checked = f"health check ended with status {code}: {said}" if code else ""
            self._check, self._next_check_s = None, boottime_s() + self._config.health_every_s


class Repairs:
    """The repair that the portal asks for, made here once."""

    def __init__(self, config: Config, state: Path) -> None:
        """What was begun before the agent's last end is over: it may well be that the repair was a restart."""
        self._config, self._path = config, str(state / "repair.json")
        self._errand: Errand | None = None
        self.number: int | None = None
        self.exit_code: int | None = None
        self.message = ""
        if (begun := read_json(self._path)) is not None:
            self.number = begun["number"]
            was_restarted = begun["boot"] != boot_id()
            self.exit_code = 0 if was_restarted else 1
            self.message = "the node was restarted" if was_restarted else "the agent was stopped meanwhile"

    def make_so(self, wanted: int | None) -> bool:
        """Begin the repair of this number, unless it was begun before; whether it was begun now.

        Raises:
            OSError: it cannot be written down, so it is not begun.
        """
        if wanted is None or wanted == self.number or self._errand is not None:
            return False
        self.number, self.exit_code, self.message = wanted, None, ""
        write_json(self._path, {"number": wanted, "boot": boot_id()})  # before: it is begun once, whatever it does
        if self._config.repair_command:
            self._errand = Errand(self._config.repair_command, REPAIR_PATIENCE_S)
        else:
            self.exit_code, self.message = 127, "the node's agent has no repair_command"
        return True

    def said(self) -> dict[str, Any]:
        """How it ended, as a heartbeat says it."""
        if self.number is None or self.exit_code is None:
            return {}
        return {"repair": self.number, "repair_exit_code": self.exit_code, "repair_message": self.message}

    def has_just_ended(self) -> bool:
        """Whether it ended since the last look."""
        if self._errand is None or not self._errand.has_ended():
            return False
        self.exit_code, self.message = self._errand.exit_code, self._errand.last_line[:MESSAGE_MAX_CHARS]
        self._errand = None
        return True
