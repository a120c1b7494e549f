"""`manage.py import_trace FILE --format NAME`: turn a trace into a scenario file, or into a cluster's history.

A scenario needs no database.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

from django.core.management.base import CommandParser
from django.db import connection

from scheduler.management import other_traces
from scheduler.management.files import CommandOnFiles, fail, read_duration_option, read_text, write_text
from scheduler.traces import TraceError, philly

FORMATS = ("philly", *other_traces.FORMATS)
SIMULATED_GPUS = 512
"""What a scenario's cluster has unless something else is said."""
Read = TypeVar("Read")


class Command(CommandOnFiles):
    """Read a trace of another scheduler."""

    help = "Turn a trace into a scenario file that `simulate` runs, or store it as the history of a cluster of its own."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("file", metavar="FILE", help='the trace; "-" reads standard input')
        parser.add_argument("--format", required=True, choices=FORMATS, help="whose format it has")
        parser.add_argument("--shares", metavar="FILE", help="philly: the teams' quotas in nodes (CSV)")
        parser.add_argument("--other-shares", type=int, default=1, metavar="N", help="of each other team (default 1)")
        parser.add_argument("--from", dest="start", metavar="DATE", help="first day (default: the trace's)")
        parser.add_argument("--until", metavar="DATE", help="the day after the last (default: the trace's)")
        parser.add_argument("--gpus", type=int, metavar="N", help="of the cluster (default: 512; in a database, all)")
        parser.add_argument("--min-runtime-cap", default="1h", metavar="DURATION", help="longest contract (default 1h)")
        parser.add_argument("--to", choices=("scenario", "database"), default="scenario", help="default: scenario")
        parser.add_argument("--out", metavar="FILE", help="where to write the scenario")
        parser.add_argument("--cluster", metavar="NAME", help="of the new cluster in the database")
        other_traces.add_options(parser)

    def handle(self, **options: Any) -> None:
        """Read, choose, write."""
        if options["format"] in other_traces.FORMATS:
            other_traces.to_scenario(options, self.stdout.write)
            return
        if options["shares"] is None:
            fail("--shares", "is needed with --format philly")
        is_scenario = options["to"] == "scenario"
        needed = "out" if is_scenario else "cluster"
        if not options[needed]:
            fail(f"--{needed}", f"is needed with --to {options['to']}")
        jobs = _read(options["file"], philly.read)
        shares = _read(options["shares"], philly.read_shares)
        if not jobs:
            fail(options["file"], "has no jobs")
        if options["other_shares"] < 0:
            fail("--other-shares", f"must not be negative, but is {options['other_shares']}")
        quotas = {job.team: options["other_shares"] for job in jobs} | shares
        nodes = _nodes(options["gpus"], SIMULATED_GPUS if is_scenario else sum(quotas.values()) * philly.GPUS_PER_NODE)
        first = jobs[0].submitted_at.date()
        last = jobs[-1].submitted_at.date() + timedelta(days=1)
        start = _day("--from", options["start"], first)
        until = _day("--until", options["until"], last)
        if until <= start:
            fail("--until", f"must be after --from, {start}, but is {until}")
        chosen = [job for job in jobs if _midnight(start) <= job.submitted_at < _midnight(until)]
        if not chosen:
            fail("--from", f"no job was submitted from {start} until {until}; the trace has {first} to {last}")
        cap_s = read_duration_option("--min-runtime-cap", options["min_runtime_cap"])
        if not is_scenario:
            self._store(chosen, quotas, nodes=nodes, cap_s=cap_s, cluster=options["cluster"])
            return
        scenario = philly.scenario(
            jobs,
            shares,
            name=f"Philly, {start} to {until - timedelta(days=1)}",
            start_at=_midnight(start),
            until_at=_midnight(until),
            nodes=nodes,
            cap_s=cap_s,
            other_shares=options["other_shares"],
        )
        write_text(options["out"], json.dumps(scenario))
        self.stdout.write(
            f"{len(scenario['workloads']):,} jobs of {len(scenario['tree'])} teams written to {options['out']}"
        )

    def _store(
        self, jobs: list[philly.PhillyJob], quotas: dict[str, int], *, nodes: int, cap_s: int, cluster: str
    ) -> None:
        import django

        django.setup()  # a command on files runs without
        from budgets.errors import InputError
        from scheduler.services import trace_import
        from scheduler.services.trace_import import PastJob

        if connection.vendor != "postgresql":
            fail("--to", "database needs DATABASE_URL")
        past = [PastJob(job.team, job.id, job.submitted_at, job.duration_s, job.gpus) for job in jobs]
        try:
            added = trace_import.store(
                cluster=cluster,
                organisation="Philly",
                jobs=past,
                quotas=quotas,
                nodes=nodes,
                units_per_node=philly.GPUS_PER_NODE,
                cap_s=cap_s,
            )
        except InputError as error:
            fail(error.field or cluster, error.message)
        self.stdout.write(f"{added.workloads:,} jobs of {len(quotas)} teams stored as the history of {cluster}")


def _nodes(gpus: int | None, default: int) -> int:
    nodes, rest = divmod(default if gpus is None else gpus, philly.GPUS_PER_NODE)
    if rest or nodes < 1:
        fail("--gpus", f"must be a multiple of {philly.GPUS_PER_NODE}, but is {gpus}")
    return nodes


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
