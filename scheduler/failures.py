"""Why a program failed, from the last lines that its ranks printed, and whether trying again can help.

Jeon et al. (Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads, ATC'19) found three in ten
jobs killed or failed, many of them tried again in vain: a wrong path or a missing module stays wrong. They propose to
tell classes of failures apart, to try again only what the infrastructure did, and to stop what fails in the same way.
The patterns are ours. Standard library only, and nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

LINES_MAX, LINE_MAX, SIGNATURE_MAX = 300, 1_000, 200
"""Of each rank so many of its last lines are looked at, and so much of each."""


class Origin(StrEnum):
    """Whose it is."""

    OWN = "own"
    """The program's, its data's or its settings': it happens again."""
    INFRASTRUCTURE = "infrastructure"
    """The network's, the storage's or the node's: it may be gone, or elsewhere."""
    UNKNOWN = "unknown"


class FailureClass(StrEnum):
    """What failed."""

    IMPORT = "import"
    SYNTAX = "syntax"
    COMMAND = "command"
    ARGUMENTS = "arguments"
    MISSING_FILE = "missing_file"
    PERMISSION = "permission"
    QUOTA = "quota"
    DEVICE = "device"
    GPU_MEMORY = "gpu_memory"
    HOST_MEMORY = "host_memory"
    CODE = "code"
    COLLECTIVE = "collective"
    RENDEZVOUS = "rendezvous"
    NETWORK = "network"
    STORAGE = "storage"
    DISK_FULL = "disk_full"
    GPU_FAULT = "gpu_fault"
    CRASH = "crash"
    KILLED = "killed"
    UNKNOWN = "unknown"


_OWN, _INFRASTRUCTURE = Origin.OWN, Origin.INFRASTRUCTURE
ORIGINS = {
    FailureClass.IMPORT: _OWN,
    FailureClass.SYNTAX: _OWN,
    FailureClass.COMMAND: _OWN,
    FailureClass.ARGUMENTS: _OWN,
    FailureClass.MISSING_FILE: _OWN,
    FailureClass.PERMISSION: _OWN,
    FailureClass.QUOTA: _OWN,
    FailureClass.DEVICE: _OWN,
    FailureClass.GPU_MEMORY: _OWN,
    FailureClass.HOST_MEMORY: _OWN,
    FailureClass.CODE: _OWN,
    FailureClass.COLLECTIVE: _INFRASTRUCTURE,
    FailureClass.RENDEZVOUS: _INFRASTRUCTURE,
    FailureClass.NETWORK: _INFRASTRUCTURE,
    FailureClass.STORAGE: _INFRASTRUCTURE,
    FailureClass.DISK_FULL: _INFRASTRUCTURE,
    FailureClass.GPU_FAULT: _INFRASTRUCTURE,
    FailureClass.CRASH: Origin.UNKNOWN,
    FailureClass.KILLED: Origin.UNKNOWN,
    FailureClass.UNKNOWN: Origin.UNKNOWN,
}

_PATTERNS: dict[FailureClass, tuple[str, ...]] = {
    FailureClass.GPU_FAULT: (
        r"uncorrectable ECC",
        r"fallen off the bus",
        r"CUDA error: (?:an )?uncorrectable",
        r"\bNVRM: Xid\b",
    ),
    FailureClass.GPU_MEMORY: (
        r"CUDA out of memory",
        r"HIP out of memory",
        r"CUBLAS_STATUS_ALLOC_FAILED",
        r"RESOURCE_EXHAUSTED",
    ),
    FailureClass.DEVICE: (
        r"invalid device ordinal",
        r"no CUDA-capable device",
        r"CUDA driver version is insufficient",
        r"no kernel image is available",
    ),
    FailureClass.RENDEZVOUS: (
        r"Rendezvous\w*Error",
        r"EADDRINUSE",
        r"Address already in use",
        r"DistStoreError",
        r"timed out waiting for clients",
    ),
    FailureClass.COLLECTIVE: (
        r"\bNCCL\b.*(?:error|timeout|timed out|abort)",
        r"nccl(?:System|Remote)Error",
        r"collective operation timeout",
        r"DistBackendError",
        r"Connection closed by (?:remote )?peer",
        r"\bMPI_ABORT\b",
    ),
    FailureClass.STORAGE: (
        r"Stale (?:NFS )?file handle",
        r"Input/output error",
        r"Remote I/O error",
        r"Transport endpoint is not connected",
        r"\bSlowDown\b",
    ),
    FailureClass.QUOTA: (r"Disk quota exceeded",),
    FailureClass.DISK_FULL: (r"No space left on device",),
    FailureClass.NETWORK: (
        r"Connection(?:Reset|Refused|Aborted)Error",
        r"BrokenPipeError",
        r"\b(?:Read)?TimeoutError\b",
        r"Temporary failure in name resolution",
        r"Network is unreachable",
        r"No route to host",
        r"Connection (?:timed out|reset by peer|refused)",
    ),
    FailureClass.IMPORT: (
        r"\b(?:ModuleNotFoundError|ImportError)\b",
        r"cannot open shared object file",
        r"version `\S+' not found",
    ),
    FailureClass.SYNTAX: (r"\b(?:SyntaxError|IndentationError|TabError)\b", r"syntax error near"),
    FailureClass.ARGUMENTS: (
        r"error: (?:unrecognized arguments|the following arguments are required|argument )",
        r"[Nn]o such option",
    ),
    FailureClass.COMMAND: (r"command not found", r": not found$", r"executable file not found"),
    FailureClass.PERMISSION: (r"PermissionError", r"Permission denied", r"Access ?Denied", r"40[13] Client Error"),
    FailureClass.MISSING_FILE: (
        r"FileNotFoundError",
        r"NotADirectoryError",
        r"No such file or directory",
        r"NoSuchKey",
        r"404 Client Error",
    ),
    FailureClass.HOST_MEMORY: (
        r"\bMemoryError\b",
        r"std::bad_alloc",
        r"[Oo]ut of memory: [Kk]illed",
        r"oom-kill",
        r"Cannot allocate memory",
        r"is killed by signal: Killed",
    ),
    FailureClass.CRASH: (r"Segmentation fault", r"core dumped", r"Fatal Python error", r"\bSIG(?:SEGV|ABRT)\b"),
    FailureClass.CODE: (
        r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)(?::|$)",
        r"device-side assert",
        r"illegal memory access",
        r"Assertion .*failed",
    ),
}
"""What a line says, by what it is. They are asked in this order, and the first that matches counts: an exception's name
says less than what it is about.
"""
_COMPILED = [(kind, re.compile("|".join(patterns))) for kind, patterns in _PATTERNS.items()]
_ANY = re.compile("|".join(pattern for patterns in _PATTERNS.values() for pattern in patterns))
_WRAPPERS = re.compile(
    r"ChildFailedError|subprocess\.CalledProcessError|^srun: error|Sending process \d+ closing signal|exitcode\s*:"
)
"""Launchers that only say that something below them failed."""
_LEADER = re.compile(r"^\s*(?:\[[^\]]{1,80}\]\s*:?\s*)+|^\s*\d{4}-\d\d-\d\d[T ][\d:.,Z+-]+\s*")
"""What launchers and loggers put in front: `[rank0]:`, an instant."""
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b|\d+(?:\.\d+)*")

EXIT_CLASSES = {
    126: FailureClass.COMMAND,
    127: FailureClass.COMMAND,
    -4: FailureClass.CRASH,
    -6: FailureClass.CRASH,
    -7: FailureClass.CRASH,
    -8: FailureClass.CRASH,
    -9: FailureClass.KILLED,
    -11: FailureClass.CRASH,
    132: FailureClass.CRASH,
    134: FailureClass.CRASH,
    135: FailureClass.CRASH,
    136: FailureClass.CRASH,
    137: FailureClass.KILLED,
    139: FailureClass.CRASH,
}
"""What an exit code says alone; minus a signal, or 128 more than it where a shell stood between."""


class Failure(NamedTuple):
    """Why a run failed.

    Attributes:
        kind: what failed.
        line: the line that says so; empty where none does.
        signature: the same without what differs from run to run, to tell whether it failed so before.
    """

    kind: FailureClass
    line: str
    signature: str

    @property
    def origin(self) -> Origin:
        """Whose it is."""
        return ORIGINS[self.kind]

    @property
    def may_pass(self) -> bool:
        """Whether trying again can help."""
        return self.origin != Origin.OWN


def failure_of(outputs: Iterable[str], exit_code: int | None) -> Failure:
    """Why a run failed.

    In what a rank printed the last line that says anything counts. Among ranks, one whose own program failed goes
    before those that lost touch with it, and these before ranks that say nothing.

    Args:
        outputs: what each rank printed, or the end of it.
        exit_code: the run's: minus the signal where one ended it; None if nobody knows.
    """
    found = [failure for text in outputs if (failure := _said(text)) is not None]
    for origin in (Origin.OWN, Origin.INFRASTRUCTURE, Origin.UNKNOWN):
        for failure in found:
            if failure.origin == origin:
                return failure
    kind = EXIT_CLASSES.get(exit_code or 0, FailureClass.UNKNOWN)
    return Failure(kind, "", "" if exit_code is None else f"exit {exit_code}")


def _said(text: str) -> Failure | None:
    """The last line of a rank that says why it failed."""
    for raw in reversed(text.splitlines()[-LINES_MAX:]):
        line = _LEADER.sub("", raw[:LINE_MAX]).strip()
        if line and _ANY.search(line) and not _WRAPPERS.search(line):
            kind = next(kind for kind, pattern in _COMPILED if pattern.search(line))
            return Failure(kind, line, signature_of(line))
    return None


def signature_of(line: str) -> str:
    """A line without numbers and addresses."""
    return _VARYING.sub("#", line)[:SIGNATURE_MAX]
