"""Alibaba's GPU cluster trace of 2023 (openb): a list of pods, and a list of nodes.

Pods: name, num_gpu, gpu_milli (thousandths of one GPU, 1,000 for each whole one), qos, creation_time, deletion_time,
scheduled_time (empty for a pod that never ran). Nodes: sn, gpu, and the model of their GPUs, which is their class. The
trace names no user: a pod's quality of service stands in for its team. Cores and memory (cpu_milli, memory_mib) are
read for the study of packing alone.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler.simulator.counted import CountedJob
from scheduler.simulator.study.packing import Left, Pod

from .rows import Row, TraceError, header_of, read_rows

COLUMNS = ("name", "num_gpu", "gpu_milli", "qos", "creation_time", "deletion_time", "scheduled_time")
NODE_COLUMNS = ("sn", "gpu")
SHAPE = ("cpu_milli", "memory_mib")
MODEL = "model"
WHOLE_MILLI = 1_000


class Pods(NamedTuple):
    """The pods that ran on GPUs, in the order of the file, and how many others there were."""

    jobs: list[CountedJob]
    without_gpu: int
    never_ran: int


def read(content: str) -> Pods:
    """All pods.

    Raises:
        TraceError: names row and field.
    """
    jobs: list[CountedJob] = []
    rows: dict[str, int] = {}
    without_gpu = never_ran = 0
    for row in read_rows(content, COLUMNS):
        first_row = rows.setdefault(row.text("name"), row.line)
        if first_row != row.line:
            raise TraceError(row.line, "name", f"{row.text('name')!r} is in row {first_row} already")
        if not row.whole("num_gpu", at_least=0):
            without_gpu += 1
        elif not row.has("scheduled_time"):
            never_ran += 1
        else:
            jobs.append(_job(row))
    return Pods(jobs, without_gpu, never_ran)


def _job(row: Row) -> CountedJob:
    gpus, milli = row.whole("num_gpu", at_least=1), row.whole("gpu_milli", at_least=1)
    if milli > WHOLE_MILLI or (gpus > 1 and milli != WHOLE_MILLI):
        raise TraceError(row.line, "gpu_milli", f"must be at most {WHOLE_MILLI}, and that for whole GPUs, not {milli}")
    created_s, scheduled_s = row.whole("creation_time", at_least=0), row.whole("scheduled_time", at_least=0)
    deleted_s = row.whole("deletion_time", at_least=0)
    if scheduled_s < created_s:
        raise TraceError(row.line, "scheduled_time", f"{scheduled_s} is before creation_time, {created_s}")
    if deleted_s < scheduled_s:
        raise TraceError(row.line, "deletion_time", f"{deleted_s} is before scheduled_time, {scheduled_s}")
    return CountedJob(
        id=row.text("name"),
        submit_s=created_s,
        duration_s=deleted_s - scheduled_s,
        size_milli=gpus * milli,
        team=row.text("qos"),
    )


class Nodes(NamedTuple):
    """GPUs by node, without the nodes that have none, and the model of these GPUs, where the list says it."""

    gpus: dict[str, int]
    model: dict[str, str]


def read_nodes(content: str) -> Nodes:
    """The nodes that have GPUs.

    Raises:
        TraceError: names row and field.
    """
    nodes = Nodes({}, {})
    says_model = MODEL in header_of(content)
    for row in read_rows(content, (*NODE_COLUMNS, MODEL) if says_model else NODE_COLUMNS):
        name, gpus = row.text("sn"), row.whole("gpu", at_least=0)
        if name in nodes.gpus:
            raise TraceError(row.line, "sn", f"node {name!r} is given twice")
        if gpus:
            nodes.gpus[name] = gpus
            if says_model and row.has(MODEL):
                nodes.model[name] = row.text(MODEL)
    return nodes


def read_shapes(content: str) -> tuple[list[Pod], list[Pod]]:
    """All pods with cores and memory, also those without GPUs, as to packing; and those of them that ran, with times.

    Raises:
        TraceError: names row and field.
    """
    every: list[Pod] = []
    ran: list[Pod] = []
    for row in read_rows(content, (*COLUMNS, *SHAPE)):
        gpus = row.whole("num_gpu", at_least=0)
        size_milli = gpus * row.whole("gpu_milli", at_least=1) if gpus else 0
        pod = Pod(row.whole("cpu_milli", at_least=0), row.whole("memory_mib", at_least=0), size_milli)
        every.append(pod)
        if row.has("scheduled_time"):
            created_s, began_s = row.whole("creation_time", at_least=0), row.whole("scheduled_time", at_least=0)
            ended_s = row.whole("deletion_time", at_least=began_s)
            ran.append(pod._replace(created_s=created_s, runs_s=ended_s - began_s))
    return every, ran


def read_lefts(content: str) -> list[Left]:
    """The nodes that have GPUs with their cores and memory, nothing of which is taken.

    Raises:
        TraceError: names row and field.
    """
    rows = read_rows(content, (*NODE_COLUMNS, *SHAPE))
    found = [(row.whole("gpu", at_least=0), [row.whole(name, at_least=0) for name in SHAPE]) for row in rows]
    return [Left(cpu_milli, memory_mib, gpus) for gpus, (cpu_milli, memory_mib) in found if gpus]
