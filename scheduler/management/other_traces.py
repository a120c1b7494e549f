"""`manage.py import_trace FILE --format swf|alibaba|csv --out FILE`: what differs between these formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from django.core.management.base import CommandParser

from scheduler.management.files import fail, read_duration_option, read_text, write_text
from scheduler.simulator.counted import CountedJob
from scheduler.traces import TraceError, alibaba, counted, swf
from scheduler.traces.scenarios import GPUS_PER_NODE, ONE_TEAM, scenario

FORMATS = ("swf", "alibaba", "csv")
BEST_EFFORT = "BE"
"""Alibaba's class of pods that are promised nothing."""
Read = TypeVar("Read")


class Trace(NamedTuple):
    """A trace's jobs, the cluster for them, and what else is worth saying about it."""

    jobs: Sequence[CountedJob]
    cluster: Mapping[str, Any]
    uncharged_teams: Sequence[str] = ()
    remark: str = ""


def add_options(parser: CommandParser) -> None:
    """The option that only these formats have."""
    parser.add_argument("--nodes", metavar="FILE", help="alibaba: the list of nodes (CSV)")


def to_scenario(options: Mapping[str, Any], write: Callable[[str], object]) -> None:
    """Read a trace of one of `FORMATS`, and write it as a scenario. All teams have equal shares.

    Raises:
        CommandError: names the option, or file, row and field at fault.
    """
    name = options["file"]
    if options["to"] != "scenario":
        fail("--to", f"must be scenario with --format {options['format']}")
    if not options["out"]:
        fail("--out", "is needed with --to scenario")
    for option in ("shares", "start", "until"):
        if options[option] is not None:
            fail(f"--{'from' if option == 'start' else option}", "belongs to --format philly")
    if options["nodes"] is not None and options["format"] != "alibaba":
        fail("--nodes", "belongs to --format alibaba")
    if options["gpus"] is not None and options["gpus"] < 1:
        fail("--gpus", f"must be at least 1, but is {options['gpus']}")
    cap_s = read_duration_option("--min-runtime-cap", options["min_runtime_cap"])
    trace = {"swf": _swf, "alibaba": _alibaba, "csv": _csv}[options["format"]](options)
    if not trace.jobs:
        fail(name, "has no jobs")
    jobs = [job if job.team else job._replace(team=ONE_TEAM) for job in trace.jobs]
    found = scenario(
        jobs,
        name=name,
        cluster=trace.cluster,
        shares={job.team: 1 for job in jobs},
        cap_s=cap_s,
        uncharged_teams=trace.uncharged_teams,
    )
    write_text(options["out"], json.dumps(found))
    write(f"{len(jobs):,} jobs of {len(found['tree'])} teams written to {options['out']}{trace.remark}")


def _swf(options: Mapping[str, Any]) -> Trace:
    """Processors stand for GPUs; the header says how many there are, and on how many nodes."""
    log = _read(options["file"], swf.read)
    processors = log.number("MaxProcs") if options["gpus"] is None else options["gpus"]
    if processors is None:
        fail("--gpus", f"is needed: the header of {options['file']} has no MaxProcs")
    nodes = log.number("MaxNodes") or 1
    per_node = processors // nodes if processors % nodes == 0 else 1
    return Trace(log.jobs, _nodes(processors, per_node))


def _alibaba(options: Mapping[str, Any]) -> Trace:
    if options["nodes"] is None:
        fail("--nodes", "is needed with --format alibaba: the list of nodes")
    if options["gpus"] is not None:
        fail("--gpus", "is what --nodes lists with --format alibaba")
    pods = _read(options["file"], alibaba.read)
    nodes = _read(options["nodes"], alibaba.read_nodes)
    if not nodes.gpus:
        fail(options["nodes"], "has no nodes with GPUs")
    classes: dict[str, list[str]] = {}
    for node, model in nodes.model.items():
        classes.setdefault(model, []).append(node)
    cluster = {"nodes": nodes.gpus} | ({"classes": classes} if classes else {})
    remark = f"; left out: {pods.without_gpu:,} pods without GPUs, {pods.never_ran:,} that never ran"
    return Trace(pods.jobs, cluster, (BEST_EFFORT,), remark)


def _csv(options: Mapping[str, Any]) -> Trace:
    if options["gpus"] is None:
        fail("--gpus", "is needed with --format csv: how many there are")
    return Trace(_read(options["file"], counted.read), _nodes(options["gpus"], GPUS_PER_NODE))


def _nodes(gpus: int, per_node: int) -> dict[str, int]:
    if gpus % per_node:
        fail("--gpus", f"must be a multiple of {per_node}, but is {gpus}")
    return {"nodes": gpus // per_node, "gpus_per_node": per_node}


def _read(name: str, reader: Callable[[str], Read]) -> Read:
    try:
        return reader(read_text(name))
    except TraceError as error:
        fail(name, str(error))
