"""What jobs did, as `sacct` lists it, live or from a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduler.executors.slurm.jobs import ENDED, GOING, STARTING, WAITING
from scheduler.executors.slurm.reading import BAR, Row, lines_of, table

COLUMNS = (
    "JobIDRaw", "Account", "User", "Partition", "State", "Submit", "Start", "End", "ElapsedRaw", "TimelimitRaw",
    "AllocTRES", "ReqTRES", "NNodes", "NodeList", "ExitCode", "JobName",
)  # fmt: skip
NEEDED = ("Account", "User", "State", "Submit", "Start", "End")
UNIT = "\x1f"
"""Stands in no name, unlike "|"."""
DELIMITERS = (UNIT, BAR, ",", ";", "\t")
_ID = re.compile(r"[0-9]{1,12}(?:_[0-9]{1,9}|\+[0-9]{1,5})?(?:_\[[0-9,%-]*\])?")


def list_of(start: str, end: str, cluster: str = "") -> list[str]:
    """The command that lists all that ran, waited or ended between two instants (2026-03-02T12:00:00, UTC)."""
    among = [f"--clusters={cluster}"] if cluster else []
    return [
        *("sacct", "--parsable2", f"--delimiter={UNIT}", "--allusers", "--allocations", "--duplicates", *among),
        *(f"--starttime={start}", f"--endtime={end}", f"--format={','.join(COLUMNS)}"),
    ]


@dataclass(frozen=True, slots=True)
class PastJob:
    """One allocation, or what waited and never got one (then `started_at` is None). A requeued job has several.

    `limit_s` is None where there is none; `gpus` what it held, or asked for.
    """

    id: str
    account: str
    user: str
    partition: str
    state: str
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    limit_s: int | None
    gpus: int
    cpus: int
    node_count: int
    nodes: Sequence[str]
    exit_code: int
    name: str = ""

    @property
    def ran_s(self) -> int:
        """How long it held what it held; 0 if it never did, or still does."""
        if self.started_at is None or self.ended_at is None:
            return 0
        return max(0, int((self.ended_at - self.started_at).total_seconds()))


def read(source: str, text: str) -> list[PastJob]:
    """Jobs in the order of the file; steps (12.batch, 12.0) are left out. The delimiter is found out.

    Raises:
        Unreadable: names line and column.
    """
    rows = table(source, text, NEEDED, delimiter=_delimiter(text))
    if rows and "JobIDRaw" not in rows[0].cells and "JobID" not in rows[0].cells:
        raise rows[0].fault("JobID", "this column is missing")
    return [job for row in rows if (job := _job(row)) is not None]


def _delimiter(text: str) -> str:
    first = next((line for _number, line in lines_of(text)), "")
    return next((each for each in DELIMITERS if each in first), BAR)


def _job(row: Row) -> PastJob | None:
    job_id = row.need("JobIDRaw" if "JobIDRaw" in row.cells else "JobID")
    if "." in job_id:
        return None
    if not _ID.fullmatch(job_id):
        raise row.fault("JobID", f"is not a job's: {job_id[:60]!r}")
    state = row.need("State").split()[0].rstrip("+")
    if state not in ENDED | GOING | STARTING | WAITING:
        raise row.fault("State", f"is not known: {state[:60]!r}")
    submitted_at, started_at, ended_at = (row.instant(name) for name in ("Submit", "Start", "End"))
    if submitted_at is None:
        raise row.fault("Submit", "is empty")
    if state in GOING or state in WAITING - {"REQUEUED"}:
        ended_at = None  # a time limit's, if anything
    if started_at is not None and ended_at is not None and ended_at < started_at:
        raise row.fault("End", f"{ended_at:%Y-%m-%dT%H:%M:%S} is before the start")
    held = row.tres("AllocTRES") if "AllocTRES" in row.cells else {}
    asked = row.tres("ReqTRES") if "ReqTRES" in row.cells else {}
    return PastJob(
        id=job_id,
        account=row.text("Account").lower(),
        user=row.text("User"),
        partition=row.text("Partition") if "Partition" in row.cells else "",
        state=state,
        submitted_at=submitted_at,
        started_at=started_at if state not in WAITING - {"REQUEUED"} else None,
        ended_at=ended_at,
        limit_s=_limit_s(row),
        gpus=_most(held, asked, "gres/gpu") or _old_gpus(row),
        cpus=_most(held, asked, "cpu") or (row.whole("AllocCPUS", missing=0) if "AllocCPUS" in row.cells else 0),
        node_count=row.whole("NNodes", missing=0) if "NNodes" in row.cells else 0,
        nodes=row.hosts("NodeList") if "NodeList" in row.cells else [],
        exit_code=row.exit_code("ExitCode") if "ExitCode" in row.cells else 0,
        name=row.text("JobName") if "JobName" in row.cells else "",
    )


def _most(held: dict[str, int], asked: dict[str, int], name: str) -> int:
    """What it held, or, where it held nothing, asked for; of GPUs also where only their kinds are named."""
    for each in (held, asked):
        if name in each:
            return each[name]
        by_kind = sum(amount for key, amount in each.items() if key.startswith(f"{name}:"))
        if by_kind:
            return by_kind
    return 0


def _old_gpus(row: Row) -> int:
    """From AllocGRES or ReqGRES of Slurm before 20.11: "gpu:4"."""
    for name in ("AllocGRES", "ReqGRES"):
        match = re.search(r"gpu(?::[A-Za-z_][A-Za-z0-9_]*)?:(\d{1,6})", row.cells.get(name, ""))
        if match:
            return int(match[1])
    return 0


def _limit_s(row: Row) -> int | None:
    """Minutes in `TimelimitRaw`; words where there is none."""
    said = row.cells.get("TimelimitRaw", "").strip()
    if not said or said.upper() in ("UNLIMITED", "PARTITION_LIMIT", "N/A"):
        return None
    return row.whole("TimelimitRaw") * 60
