"""`manage.py import_trace FILE --format philly`: turn a trace into a scenario file. Needs no database."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

from django.core.management.base import CommandParser

from scheduler.management.files import CommandOnFiles, fail, read_duration_option, read_text, write_text
from scheduler.traces import TraceError, philly

FORMATS = ("philly",)
Read = TypeVar("Read")


class Command(CommandOnFiles):
    """Read a trace of another scheduler."""

    help = "Turn a trace into a scenario file that `simulate` runs."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("file", metavar="FILE", help='the trace; "-" reads standard input')
        parser.add_argument("--format", required=True, choices=FORMATS, help="whose format it has")
        parser.add_argument("--shares", required=True, metavar="FILE", help="the teams' quotas in nodes (CSV)")
        parser.add_argument("--other-shares", type=int, default=1, metavar="N", help="of each other team (default 1)")
        parser.add_argument("--from", dest="start", metavar="DATE", help="first day (default: the trace's)")
        parser.add_argument("--until", metavar="DATE", help="the day after the last (default: the trace's)")
        parser.add_argument("--gpus", type=int, default=512, metavar="N", help="of the cluster (default 512)")
        parser.add_argument("--min-runtime-cap", default="1h", metavar="DURATION", help="longest contract (default 1h)")
        parser.add_argument("--out", required=True, metavar="FILE", help="where to write the scenario")

    def handle(self, **options: Any) -> None:
        """Read, choose, write."""
        jobs = _read(options["file"], philly.read)
        shares = _read(options["shares"], philly.read_shares)
        if not jobs:
            fail(options["file"], "has no jobs")
        nodes, rest = divmod(options["gpus"], philly.GPUS_PER_NODE)
        if rest or nodes < 1:
            fail("--gpus", f"must be a multiple of {philly.GPUS_PER_NODE}, but is {options['gpus']}")
        if options["other_shares"] < 0:
            fail("--other-shares", f"must not be negative, but is {options['other_shares']}")
        first = jobs[0].submitted_at.date()
        last = jobs[-1].submitted_at.date() + timedelta(days=1)
        start = _day("--from", options["start"], first)
        until = _day("--until", options["until"], last)
        if until <= start:
            fail("--until", f"must be after --from, {start}, but is {until}")
        scenario = philly.scenario(
            jobs,
            shares,
            name=f"Philly, {start} to {until - timedelta(days=1)}",
            start_at=_midnight(start),
            until_at=_midnight(until),
            nodes=nodes,
            cap_s=read_duration_option("--min-runtime-cap", options["min_runtime_cap"]),
            other_shares=options["other_shares"],
        )
        if not scenario["workloads"]:
            fail("--from", f"no job was submitted from {start} until {until}; the trace has {first} to {last}")
        write_text(options["out"], json.dumps(scenario))
        self.stdout.write(
            f"{len(scenario['workloads']):,} jobs of {len(scenario['tree'])} teams written to {options['out']}"
        )


def _read(name: str, reader: Callable[[str], Read]) -> Read:
    try:
        return reader(read_text(name))
    except TraceError as error:
        fail(name, str(error))


def _day(option: str, value: str | None, default: date) -> date:
    if value is None:
        return default
    try:
        return date.fromisoformat(value)
    except ValueError:
        fail(option, f"must be a date like 2017-10-09, not {value!r}")


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
