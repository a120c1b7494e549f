"""A memory limit that counts all of a rank's processes together: a control group, where this machine permits one.

Version 2 where its memory controller is there (systemd's default), else the memory hierarchy of version 1. An agent
that runs as a systemd unit with `Delegate=yes` and `DelegateSubgroup=agent` makes its groups inside its own unit.
"""

from __future__ import annotations

import contextlib
import os

ROOT = "/sys/fs/cgroup"
NAME = "allotment"
DELEGATED = "agent"


def base(root: str = ROOT) -> str | None:
    """The folder in which groups with a memory limit can be made; None where that is not permitted here."""
    try:
        if os.path.exists(f"{root}/cgroup.controllers"):
            if "memory" not in _read(f"{root}/cgroup.controllers").split():
                return None
            parent = _delegated(root) or root
            _enable(parent)
        elif os.path.exists(f"{root}/memory/memory.limit_in_bytes"):
            parent = f"{root}/memory"
        else:
            return None
        folder = f"{parent}/{NAME}"
        os.makedirs(folder, exist_ok=True)
        if os.path.exists(f"{folder}/cgroup.subtree_control"):
            _enable(folder)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def make(folder: str, memory_bytes: int) -> bool:
    """Make a group with this limit; whether it was possible."""
    try:
        os.makedirs(folder, exist_ok=True)
        if os.path.exists(f"{folder}/memory.max"):
            _write(f"{folder}/memory.max", str(memory_bytes))
            with contextlib.suppress(OSError):  # no swap here, then none to forbid
                _write(f"{folder}/memory.swap.max", "0")
            _write(f"{folder}/memory.oom.group", "1")
        else:
            _write(f"{folder}/memory.limit_in_bytes", str(memory_bytes))
    except OSError:
        remove(folder)
        return False
    return True


def enter(folder: str) -> None:
    """Have this process, and all that it starts, count there."""
    _write(f"{folder}/cgroup.procs", "0")


def ran_out(folder: str) -> bool:
    """Whether the kernel has killed something there because of its limit."""
    for name in ("memory.events", "memory.oom_control"):
        with contextlib.suppress(OSError):
            for line in _read(f"{folder}/{name}").splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    return value != "0"
    return False


def remove(folder: str) -> None:
    """Remove a group that nothing is in any more."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _delegated(root: str) -> str | None:
    """The unit's own group, where systemd put the agent into a group of it."""
    for line in _read("/proc/self/cgroup").splitlines():
        number, _, path = line.split(":", 2)
        if number == "0" and path.endswith(f"/{DELEGATED}"):
            return root + path.removesuffix(f"/{DELEGATED}")
    return None


def _enable(folder: str) -> None:
    if "memory" not in _read(f"{folder}/cgroup.subtree_control").split():
        _write(f"{folder}/cgroup.subtree_control", "+memory")


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
