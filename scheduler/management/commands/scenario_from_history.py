"""`manage.py scenario_from_history --cluster NAME --from DAY --until DAY --out FILE`: stored history as a scenario."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from budgets import queries
from budgets.errors import InputError
from budgets.models import Cluster
from scheduler.management.files import CommandOnFiles, fail, read_text, write_text
from scheduler.management.tables import duration_text
from scheduler.queries import stretch
from scheduler.queries.stretch import Stretch
from scheduler.simulator import Scenario, ScenarioError, parse, simulate
from scheduler.simulator.comparison import figures, wait_error, waits_by_workload
from scheduler.simulator.variants import with_more
from scheduler.simulator.written import as_file


class Command(CommandOnFiles):
    """Write a stretch of a cluster's history as a scenario file."""

    help = "Write a stretch of a cluster's history as a scenario file that `simulate` runs."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("--cluster", required=True, metavar="NAME", help="whose history")
        parser.add_argument(
            "--from", dest="start", metavar="WHEN", help="a day or an instant (default: 4 weeks before)"
        )
        parser.add_argument("--until", metavar="WHEN", help="a day or an instant (default: the last whole hour)")
        parser.add_argument("--add", metavar="FILE", help="lay the work in this file over it")
        parser.add_argument("--out", metavar="FILE", help="where to write the scenario")
        parser.add_argument("--check", action="store_true", help="replay it, and print how far off it is")

    def handle(self, **options: Any) -> None:
        """Read, write, check."""
        if options["out"] is None and not options["check"]:
            fail("--out", "is missing: where to write the scenario, or --check")
        found = read_stretch(options["cluster"], options["start"], options["until"])
        scenario = found.scenario
        if options["add"] is not None:
            scenario = added(scenario, options["add"])
        text = json.dumps(as_file(scenario))
        if options["out"] is not None:
            write_text(options["out"], text)
            self.stdout.write(f"{len(scenario.jobs):,} workloads of {scenario.name} written to {options['out']}")
        for note in found.notes:
            self.stdout.write(note)
        if options["check"]:
            self._check(found, parse(text))

    def _check(self, found: Stretch, scenario: Scenario) -> None:
        again = simulate(scenario, is_explained=False)
        off = wait_error(waits_by_workload(found.real), again)
        really, replayed = figures(found.real), figures(again)
        self.stdout.write(f"\n  {'':14}{'really':>12}{'replayed':>12}")
        for name in ("occupancy", "delivery"):
            self.stdout.write(f"  {name:14}{_percent(really[name]):>12}{_percent(replayed[name]):>12}")
        self.stdout.write(f"  {'preemptions':14}{really['preemptions']:>12,}{replayed['preemptions']:>12,}")
        for name, waits in really["waits"].items():
            if waits["count"]:
                texts = (duration_text(each["waits"][name]["median_s"]) for each in (really, replayed))
                self.stdout.write("  {:14}{:>12}{:>12}".format(f"wait, {name}"[:14], *texts))
        self.stdout.write(
            f"Of {off['compared']:,} workloads that started in both, the wait of half is off by at most "
            f"{duration_text(off['median_off_s'])}, of nine in ten by at most {duration_text(off['p90_off_s'])}."
        )


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{100 * ratio:.1f} %"


def read_stretch(name: str, start: str | None, until: str | None) -> Stretch:
    """The stretch that the options say.

    Raises:
        CommandError: names the option at fault.
    """
    try:
        return stretch.read(*bounds(name, start, until))
    except InputError as error:
        fail(f"--{error.field}", error.message)


def bounds(name: str, start: str | None, until: str | None) -> tuple[Cluster, datetime, datetime]:
    """The cluster, and from when until when.

    Raises:
        CommandError: names the option at fault.
    """
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        fail("--cluster", f"there is no cluster {name!r}")
    now = timezone.now()
    end = now.replace(minute=0, second=0, microsecond=0) if until is None else _instant("--until", until)
    begin = end - timedelta(weeks=4) if start is None else _instant("--from", start)
    if end > now:
        fail("--until", "is still to come: only what is over can be replayed")
    return cluster, begin, end


def _instant(option: str, value: str) -> datetime:
    """A day of the organisation ("2026-07-02") or an instant ("2026-07-02T12:00", in its zone unless it says one)."""
    try:
        day, at = parse_date(value), parse_datetime(value)
    except ValueError:
        day = at = None
    if day is not None:
        return queries.midnight(day)
    if at is None:
        fail(option, f"must be a day such as 2026-07-02, or an instant such as 2026-07-02T12:00, not {value!r}")
    return at if at.tzinfo is not None else timezone.make_aware(at, timezone.get_default_timezone())


def added(scenario: Scenario, name: str) -> Scenario:
    """The scenario with the work in a file laid over it.

    Raises:
        CommandError: names the file and the key at fault.
    """
    try:
        return with_more(scenario, read_text(name))
    except ScenarioError as error:
        fail(name, str(error))
