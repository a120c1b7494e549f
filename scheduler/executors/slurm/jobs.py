"""Jobs, as `squeue` lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduler.executors.slurm.reading import Row, columns

FIELDS = (
    "JobID", "State", "UserName", "Account", "Partition", "RestartCnt", "NumNodes", "tres-alloc", "SubmitTime",
    "StartTime", "EndTime", "exit_code", "PriorityLong", "NodeList", "ReqNodes", "Reason", "Comment", "Name",
)  # fmt: skip
"""The last three are free text of people, or nearly."""
LIST = (
    "squeue",
    "--all",
    "--noheader",
    "--states=all",
    "--array-unique",
    "-O",
    ",".join(f"{name}:|" for name in FIELDS),
)

WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
STARTING = frozenset({"CONFIGURING"})
GOING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
NODE_ENDED = frozenset({"NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED"})
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY"}) | NODE_ENDED
STATES = WAITING | STARTING | GOING | ENDED


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `exit_code` is minus the signal where one ended it; `gpus` what it holds in all, `cpus` likewise."""

    id: int
    state: str
    user: str
    account: str
    partition: str
    restarts: int
    node_count: int
    gpus: int
    cpus: int
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int
    priority: int
    nodes: Sequence[str]
    wanted_nodes: Sequence[str]
    reason: str
    comment: str
    name: str

    @property
    def is_held(self) -> bool:
        """Whether Slurm does not look at it."""
        return self.state in WAITING and self.priority == 0

    @property
    def holds(self) -> bool:
        """Whether it holds nodes."""
        return self.state in GOING or self.state in STARTING


def read(text: str) -> list[Job]:
    """The jobs that `LIST` printed, by id.

    Raises:
        Unreadable: names line and column.
    """
    found = [_job(row) for row in columns("squeue", text, FIELDS)]
    return sorted(found, key=lambda job: job.id)


def _job(row: Row) -> Job:
    state = row.need("State")
    if state not in STATES:
        raise row.fault("State", f"is not known: {state[:60]!r}")
    held = row.tres("tres-alloc")
    return Job(
        id=row.whole("JobID", at_least=1),
        state=state,
        user=row.need("UserName"),
        account=row.text("Account"),
        partition=row.text("Partition"),
        restarts=row.whole("RestartCnt"),
        node_count=_count(row),
        gpus=held.get("gres/gpu", 0),
        cpus=held.get("cpu", 0),
        submitted_at=row.instant("SubmitTime"),
        started_at=row.instant("StartTime"),
        ended_at=row.instant("EndTime"),
        exit_code=_exit_code(row),
        priority=row.whole("PriorityLong", missing=0),
        nodes=row.hosts("NodeList"),
        wanted_nodes=row.hosts("ReqNodes"),
        reason=row.text("Reason"),
        comment=row.text("Comment"),
        name=row.text("Name"),
    )


def _count(row: Row) -> int:
    """How many nodes; of "2-4" the least."""
    said = row.need("NumNodes").partition("-")[0]
    if not said.isascii() or not said.isdigit() or len(said) > 7:
        raise row.fault("NumNodes", f"must be a whole number, not {said[:60]!r}")
    return int(said)


def _exit_code(row: Row) -> int:
    """From what wait() gave: the status in the second byte, a signal in the first."""
    waited = row.whole("exit_code", missing=0)
    if waited > 0xFFFF:
        return 255
    signal = waited & 0x7F
    return -signal if 0 < signal <= 64 else waited >> 8
