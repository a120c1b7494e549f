"""Where a rank runs and as whom: its Unix user, its workload's directory, its environment, its limits."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

from scheduler.executors.agent_config import SYSTEM_PATH, Config, Refusal
from scheduler.executors.base import CODE, DesiredRank


class Surroundings:
    """What this node gives its ranks."""

    def __init__(self, config: Config, state: Path, work: Path) -> None:
        """`state` is the agent's own folder; in `work` workloads have their directories."""
        self._config, self._state, self._work = config, state, work
        self._is_root = os.geteuid() == 0
        self._parent = os.getppid()

    def specify(self, want: DesiredRank) -> dict[str, Any]:
        """What the minder needs to know.

        Raises:
            Refusal: it names no command or no proper directory, there is no user to run it as, or its directory is
                another's.
        """
        if not want.command or not CODE.fullmatch(want.workload):
            raise Refusal("no command" if not want.command else f"{want.workload!r} is no name for a directory")
        uid = self._uid_for(want.owner) if self._is_root else None
        directory = self._directory_for(want.workload, uid)
        return {
            "uid": uid,
            "command": want.command,
            "environment": self._environment_for(want, directory),
            "memory_bytes": want.memory_mib * 1024 * 1024,
            "processes": self._config.processes_max if self._is_root else 0,
            "output_max_bytes": self._config.output_max_kib * 1024,
            "contact": str(self._state / "contact.json"),
            "tied_to": self._parent if self._config.tie else None,
        }

    def _uid_for(self, owner: int) -> int:
        """The Unix user of a person's workloads: neither root's, ours, nor that of any account of this machine."""
        first, last = self._config.uid_bounds
        uid = first + owner
        if uid > last:
            raise Refusal(f"no user left for owner {owner} in {self._config.uids}")
        try:
            account = pwd.getpwuid(uid)
        except KeyError:
            return uid
        raise Refusal(f"user {uid} for owner {owner} is the account {account.pw_name}; choose other uids")

    def _directory_for(self, workload: str, uid: int | None) -> Path:
        """The workload's own directory, closed to others; what it saved in an earlier run is there."""
        directory = self._work / workload
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
        if uid is not None and found.st_uid == os.geteuid():
            os.chown(directory, uid, uid, follow_symlinks=False)
        elif uid is not None and found.st_uid != uid:
            raise Refusal(f"the working directory of {workload} belongs to another user")
        return directory

    def _environment_for(self, want: DesiredRank, directory: Path) -> dict[str, str]:
        """A clean environment: the owner's variables, and over them what tells a rank its part in the gang."""
        programs = [str(self._state / "programs")] if self._config.programs else []
        path = want.environment.get("PATH", SYSTEM_PATH)
        devices = ",".join(str(index) for index in want.devices)
        own = {
            "HOME": str(directory),
            "TMPDIR": str(directory),
            "LANG": "C.UTF-8",
        }
        gang = {
            "CUDA_VISIBLE_DEVICES": devices if want.unit == "gpu" else "",
            "RANK": str(want.rank),
            "LOCAL_RANK": "0",
            "WORLD_SIZE": str(len(want.nodes)),
            "NODE_RANK": str(want.rank),
            "NNODES": str(len(want.nodes)),
            "MASTER_ADDR": want.master,
            "MASTER_PORT": str(20_000 + want.run % 10_000),
            "ALLOTMENT_WORKLOAD": want.workload,
            "ALLOTMENT_RUN": str(want.run),
            "ALLOTMENT_NODE": self._config.node,
            "ALLOTMENT_DIRECTORY": str(directory),
            "ALLOTMENT_NODES": ",".join(want.nodes),
            "ALLOTMENT_DEVICES": devices,
            "ALLOTMENT_CHECKPOINT": str(directory / want.checkpoint) if want.checkpoint else "",
            "ALLOTMENT_GRACE_S": str(want.grace_s),
            "ALLOTMENT_PROGRESS_S": str(want.progress_s),
        }
        return own | want.environment | gang | {"PATH": ":".join([*programs, path])}
