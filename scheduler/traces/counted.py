"""Traces as jobs to count GPUs with (`simulator.counting`), whichever format a file has.

Two formats are read here: the normalised CSV with job_id, submit_time, duration, num_gpus and vc; and Tiresias's, which
has num_gpu and no team.
"""

from __future__ import annotations

from scheduler.simulator.counted import CountedJob

from . import alibaba, swf
from .rows import Row, TraceError, header_of, read_rows

NORMALISED = ("job_id", "submit_time", "duration", "num_gpus", "vc")
TIRESIAS = ("job_id", "submit_time", "duration", "num_gpu")


def read_any(content: str) -> list[CountedJob]:
    """All jobs of a CSV as below, of a log in the Standard Workload Format, or of Alibaba's pods.

    Raises:
        TraceError: names row and field.
    """
    if swf.is_swf(content):
        return swf.read(content).jobs
    if "gpu_milli" in header_of(content):
        return alibaba.read(content).jobs
    return read(content)


def read(content: str) -> list[CountedJob]:
    """All jobs of a normalised CSV, or of one with Tiresias's columns, in the order of the file.

    Raises:
        TraceError: names row and field.
    """
    header = header_of(content)
    columns = TIRESIAS if "num_gpu" in header and "num_gpus" not in header else NORMALISED
    jobs: list[CountedJob] = []
    rows: dict[str, int] = {}
    for row in read_rows(content, columns):
        job = _job(row, columns[3])
        first_row = rows.setdefault(job.id, row.line)
        if first_row != row.line:
            raise TraceError(row.line, "job_id", f"{job.id!r} is in row {first_row} already")
        jobs.append(job)
    return jobs


def _job(row: Row, size: str) -> CountedJob:
    return CountedJob(
        id=row.text("job_id"),
        submit_s=row.whole("submit_time", at_least=0),
        duration_s=row.whole("duration", at_least=0),
        size_milli=1_000 * row.whole(size, at_least=1),
        team=row.text("vc") if size == "num_gpus" else "",
    )
