"""Where a rank runs and as whom: its Unix user, its workload's directory, its environment, its limits."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

from scheduler.executors import cgroups
from scheduler.executors.agent_config import SYSTEM_PATH, Config, Refusal
from scheduler.executors.base import CODE, WHOLE_MILLI, DesiredRank
from scheduler.executors.gpus import Gpus


class Surroundings:
    """What this node gives its ranks."""

    def __init__(self, config: Config, state: Path, work: Path, gpus: Gpus | None = None) -> None:
        """`state` is the agent's own folder; in `work` workloads have their directories; `gpus` as NVML knows them."""
        self._config, self._state, self._work, self._gpus = config, state, work, gpus
        self._is_root = os.geteuid() == 0
        self._groups = cgroups.base() if config.memory_limit == "auto" else None
        self._parent = os.getppid()

    def specify(self, want: DesiredRank) -> dict[str, Any]:
        """What the minder needs to know.

        Raises:
            Refusal: it names no command or no proper directory, there is no user to run it as, or its directory is
                another's.
        """
        if not want.command or not CODE.fullmatch(want.workload):
            raise Refusal("no command" if not want.command else f"{want.workload!r} is no name for a directory")
        uid = self.uid_for(want.owner)
        directory = self._directory_for(want.workload, uid)
        return {
            "uid": uid,
            "command": want.command,
            "save_command": want.save_command,
            "environment": self._environment_for(want, directory),
            "secrets": {name: want.environment[name] for name in want.secrets if name in want.environment},
            "checkpoint": str(directory / want.checkpoint) if want.checkpoint else "",
            "checkpoint_every_s": want.checkpoint_every_s,
            "memory_bytes": want.memory_mib * 1024 * 1024,
            "cgroup": self._group_for(want),
            "has_gpus": want.unit == "gpu" and not self._config.pretend,
            "processes": self._config.processes_max if self._is_root else 0,
            "output_max_bytes": self._config.output_max_kib * 1024,
            "contact": str(self._state / "contact.json"),
            "tied_to": self._parent if self._config.tie else None,
        }

    def _group_for(self, want: DesiredRank) -> str | None:
        """A control group with its memory limit; None where it has none, or this machine permits no groups."""
        if self._groups is None or not want.memory_mib:
            return None
        folder = f"{self._groups}/{self._config.cluster}.{self._config.node}.{want.run}.{want.rank}"
        return folder if cgroups.make(folder, want.memory_mib * 1024 * 1024) else None

    def uid_for(self, owner: int) -> int | None:
        """The Unix user of a person's workloads; None where they run as we do.

        Raises:
            Refusal: there is none for them.
        """
        return self._uid_for(owner) if self._is_root else None

    def directory_for(self, workload: str, uid: int | None) -> Path:
        """The workload's own directory, made if need be.

        Raises:
            Refusal: it is another's.
        """
        return self._directory_for(workload, uid)

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
        programs = [str(self._state / "programs")]
        path = want.environment.get("PATH", SYSTEM_PATH)
        devices = ",".join(str(index) for index in want.devices)
        own = {
            "HOME": str(directory),
            "TMPDIR": str(directory),
            "LANG": "C.UTF-8",
        }
        gang = {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # NVML's order, in which devices are counted here
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
            "ALLOTMENT_RESTORED": "1" if want.restores else "",
        }
        return own | want.environment | gang | self._share_of(want) | {"PATH": ":".join([*programs, path])}

    def _share_of(self, want: DesiredRank) -> dict[str, str]:
        """How much of its GPUs is its own, and the bounds by which CUDA's multi-process service keeps it to a part.

        Without that service, which the operator runs, nothing looks at the last two: whoever shares a GPU must then
        mind the first two.
        """
        if want.unit != "gpu" or not want.devices:
            return {}
        memory_mib = self._gpu_memory_mib(want.devices) * want.device_milli // WHOLE_MILLI
        share = {
            "ALLOTMENT_GPU_MILLI": str(want.device_milli * len(want.devices)),
            "ALLOTMENT_GPU_MEMORY_MIB": str(memory_mib) if memory_mib else "",
        }
        if want.device_milli == WHOLE_MILLI:
            return share
        share["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(max(1, want.device_milli * 100 // WHOLE_MILLI))
        if memory_mib:
            share["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={memory_mib}M"  # 0: the only one that it sees
        return share

    def _gpu_memory_mib(self, devices: list[int]) -> int:
        """The memory of each of these GPUs, of unequal ones the least; 0 where that is not known."""
        if self._config.gpu_memory_mib or self._gpus is None:
            return self._config.gpu_memory_mib
        return min(self._gpus.memory_mib(index) for index in devices)
