"""`manage.py simulate --trace FILE --gpus N --scheduler NAME --placement count`: a trace on a plain number of GPUs."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from django.core.management.base import CommandParser

from scheduler.management.files import fail, read_text, write_text
from scheduler.simulator.counted import CannotReplay, CountedJob, Stay
from scheduler.simulator.counting import COUNTING_SCHEDULERS, replay
from scheduler.simulator.report import percentile
from scheduler.traces import TraceError, counted
from scheduler.traces.rows import LARGEST

RUN_COLUMNS = ("job_id", "start", "end", "preemptions")
PLACEMENTS = ("count",)


def add_options(parser: CommandParser) -> None:
    """The options that belong to a trace."""
    options = parser.add_argument_group("a trace instead of a scenario")
    options.add_argument("--trace", metavar="FILE", help='a CSV of jobs; "-" reads standard input')
    options.add_argument("--gpus", type=int, metavar="N", help="how many there are")
    options.add_argument("--scheduler", metavar="NAME", help=f"one of {', '.join(COUNTING_SCHEDULERS)}")
    options.add_argument("--placement", metavar="NAME", help="count: wherever GPUs are free (the only one)")
    options.add_argument("--promote-knob", metavar="X", help="tiresias: X times what one has executed it waits at most")
    options.add_argument("--runs-csv", metavar="OUT", help=f"write {','.join(RUN_COLUMNS)}")


def is_asked_for(options: Mapping[str, Any]) -> bool:
    """Whether the command line is about a trace.

    Raises:
        CommandError: it is about both a scenario and a trace, or about neither.
    """
    if options["trace"] is None:
        for option in ("gpus", "scheduler", "placement", "promote_knob", "runs_csv"):
            if options[option] is not None:
                fail(f"--{option.replace('_', '-')}", "belongs to --trace FILE")
        if options["file"] is None:
            fail("FILE", "is missing: a scenario, or --trace FILE")
        return False
    if options["file"] is not None:
        fail("FILE", f"{options['file']!r} is a scenario, and --trace is given: only one of both can run")
    for option in ("order_at", "until", "add"):
        if options[option] is not None:
            fail(f"--{option.replace('_', '-')}", "belongs to a scenario, not to --trace")
    return True


def run(options: Mapping[str, Any], write: Callable[[str], object]) -> None:
    """Replay the trace, write its runs if asked, and print the figures (scenario-format.md).

    Raises:
        CommandError: names the option, or file, row and field at fault.
    """
    began_s = time.perf_counter()
    scheduler = _one_of("--scheduler", options["scheduler"], tuple(COUNTING_SCHEDULERS))
    _one_of("--placement", options["placement"] or "count", PLACEMENTS)
    promote_knob = _promote_knob(options["promote_knob"], scheduler)
    capacity_milli = _capacity_milli(options["gpus"])
    jobs = read_jobs(options["trace"])
    try:
        stays = replay(jobs, capacity_milli, scheduler, promote_knob)
    except CannotReplay as error:
        fail(options["trace"], str(error))
    if options["runs_csv"] is not None:
        write_text(options["runs_csv"], _runs_csv(jobs, stays))
    figures = _figures(jobs, stays) | {"wall_s": round(time.perf_counter() - began_s, 6)}
    if options["json"]:
        write(json.dumps(figures))
    else:
        for name, value in figures.items():
            write(f"  {name:14}{value:>18,}")


def read_jobs(name: str) -> list[CountedJob]:
    """The jobs of a trace, at least one.

    Raises:
        CommandError: names the file, and row and field at fault.
    """
    try:
        jobs = counted.read_any(read_text(name))
    except TraceError as error:
        fail(name, str(error))
    if not jobs:
        fail(name, "has no jobs")
    return jobs


def _capacity_milli(gpus: int | None) -> int:
    if gpus is None:
        fail("--gpus", "is missing: how many there are")
    if not 1 <= gpus <= LARGEST:
        fail("--gpus", f"must be from 1 to {LARGEST}, but is {gpus}")
    return gpus * 1_000


def _promote_knob(value: str | None, scheduler: str) -> Fraction:
    if value is None:
        return Fraction(0)
    if scheduler != "tiresias":
        fail("--promote-knob", f"belongs to tiresias, not to {scheduler}")
    if not re.fullmatch(r"[0-9]{1,9}([.][0-9]{1,9})?", value):
        fail("--promote-knob", f"must be a number such as 0.5 or 8, not {value[:40]!r}")
    return Fraction(value)


def _one_of(option: str, value: str | None, known: Sequence[str]) -> str:
    if value is None:
        fail(option, f"is missing: one of {', '.join(known)}")
    if value not in known:
        fail(option, f"must be one of {', '.join(known)}, not {value!r}")
    return value


def _figures(jobs: Sequence[CountedJob], stays: Sequence[Stay]) -> dict[str, Any]:
    """Completion times (end minus submission), with nearest-rank percentiles as everywhere."""
    completions_s = [stay.end_s - job.submit_s for job, stay in zip(jobs, stays, strict=True)]
    return {
        "jobs": len(jobs),
        "mean_jct_s": round(sum(completions_s) / len(jobs), 3),
        "median_jct_s": percentile(completions_s, 50),
        "p90_jct_s": percentile(completions_s, 90),
        "makespan_s": max(stay.end_s for stay in stays) - min(job.submit_s for job in jobs),
        "preemptions": sum(stay.preemptions for stay in stays),
    }


def _runs_csv(jobs: Sequence[CountedJob], stays: Sequence[Stay]) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(RUN_COLUMNS)
    table.writerows((job.id, *stay) for job, stay in zip(jobs, stays, strict=True))
    return out.getvalue()
