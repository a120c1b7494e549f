"""The Standard Workload Format of the Parallel Workloads Archive, version 2.2: 18 numbers a line, comments after ";".

Fields used: 1 job number, 2 submit time, 4 run time, 5 allocated processors, 8 requested processors, 9 requested time,
11 status, 12 user. -1 means that the log does not know. A run time of -1 counts as 0, as for jobs cancelled before they
started. Lines of status 2, 3 and 4 are parts of a job that has a line of its own, and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from scheduler.simulator.counted import CountedJob

from .rows import LARGEST, TraceError

FIELDS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time used",
    "used memory", "requested processors", "requested time", "requested memory", "status", "user", "group",
    "executable", "queue", "partition", "preceding job", "think time",
)  # fmt: skip
PARTS_OF_A_JOB = (2, 3, 4)
UNKNOWN = -1


class SwfLog(NamedTuple):
    """A log: what its header says, by label, and its jobs in the order of the file. Sizes count processors."""

    header: Mapping[str, str]
    jobs: list[CountedJob]

    def number(self, label: str) -> int | None:
        """A whole number of the header, such as MaxProcs; None where it is missing or says nothing."""
        value = self.header.get(label, "")
        return int(value) if value.isascii() and value.isdigit() and 0 < int(value) <= LARGEST else None


def is_swf(content: str) -> bool:
    """Whether a text looks like a log: it begins with a comment, or with as many words as a job has fields."""
    first = content.lstrip().partition("\n")[0]
    return first.startswith(";") or len(first.split()) == len(FIELDS)


def read(content: str) -> SwfLog:
    """All jobs.

    Raises:
        TraceError: names row and field.
    """
    header: dict[str, str] = {}
    jobs: list[CountedJob] = []
    rows: dict[str, int] = {}
    for row, line in enumerate(content.split("\n"), start=1):
        if line.startswith(";"):
            label, colon, value = line[1:].partition(":")
            if colon:
                header.setdefault(label.strip(), value.strip())
        elif line.strip():
            job = _job(row, line.split())
            if job is not None:
                first_row = rows.setdefault(job.id, row)
                if first_row != row:
                    raise TraceError(row, FIELDS[0], f"{job.id} is in row {first_row} already")
                jobs.append(job)
    return SwfLog(header, jobs)


def _job(row: int, values: list[str]) -> CountedJob | None:
    if len(values) != len(FIELDS):
        raise TraceError(row, "", f"has {len(values)} fields, a job has {len(FIELDS)}")
    if _whole(row, values, 11) in PARTS_OF_A_JOB:
        return None
    processors = _whole(row, values, 8)
    if processors == UNKNOWN:
        processors = _whole(row, values, 5)
    if processors < 1:
        raise TraceError(row, FIELDS[7], f"must be at least 1, but is {values[7]}")
    submit_s, run_s, requested_s = (_whole(row, values, field) for field in (2, 4, 9))
    if submit_s < 0:
        raise TraceError(row, FIELDS[1], f"must not be negative, but is {values[1]}")
    return CountedJob(
        id=values[0],
        submit_s=submit_s,
        duration_s=max(0, run_s),
        size_milli=processors * 1_000,
        team=f"user {values[11]}",
        estimate_s=None if requested_s == UNKNOWN else requested_s,
    )


def _whole(row: int, values: list[str], field: int) -> int:
    """The whole number in a field, counted from 1; fractions of a second are cut."""
    value = values[field - 1]
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise TraceError(row, FIELDS[field - 1], f"must be a number, not {value!r}") from None
    if not number.is_finite() or number.copy_abs() > LARGEST or number < UNKNOWN:
        raise TraceError(row, FIELDS[field - 1], f"must be a number from -1 to {LARGEST}, not {value!r}")
    return int(number)
