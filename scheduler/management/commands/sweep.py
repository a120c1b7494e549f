"""`manage.py sweep FILE --knob NAME --values A,B,C`: one knob over several values, in a table.

FILE is a scenario and needs no database; with --cluster it is a stretch of history. The runs are spread over this
machine's cores, or with --workers over the portal's workers, where the result is stored, and has a page.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from django.core.management.base import CommandParser

from scheduler.management import cores
from scheduler.management.files import CommandOnFiles, fail, read_text, write_text
from scheduler.management.tables import duration_text
from scheduler.simulator import Scenario, ScenarioError, parse, simulate
from scheduler.simulator.comparison import figures
from scheduler.simulator.sweeps import KNOBS, Knob, names, parts, read_values, said, table
from scheduler.simulator.variants import changed, with_more

LOOK_EVERY_S = 1.0
TITLES = {
    "occupancy": "occupancy",
    "delivery": "delivery",
    "preemptions": "preempted",
    "debug_median_s": "debug, median",
    "debug_p90_s": "debug, p90",
    "large_median_s": "large, median",
    "large_p90_s": "large, p90",
}
"""Columns for people, waits after the first three; --json and --csv have all."""


class Command(CommandOnFiles):
    """Sweep a knob."""

    help = "Run a scenario, or a stretch of history, with one knob at several values; print medians and their spread."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("file", metavar="FILE", nargs="?", help='a scenario; "-" reads standard input')
        parser.add_argument("--cluster", metavar="NAME", help="its history instead of a file")
        parser.add_argument("--from", dest="start", metavar="WHEN", help="with --cluster (default: 4 weeks before)")
        parser.add_argument("--until", metavar="WHEN", help="with --cluster (default: the last whole hour)")
        parser.add_argument("--add", metavar="FILE", help="lay the work in this file over it")
        parser.add_argument("--knob", required=True, choices=list(KNOBS), help="which one is varied")
        parser.add_argument("--values", required=True, metavar="A,B,C", help="lookback_s: 1d to 28d; "
                            "min_runtime_max_s: 1h to 24h; reservations: 0 to 16")  # fmt: skip
        parser.add_argument("--seeds", type=int, default=1, metavar="N", help="runs of each value (default 1)")
        parser.add_argument("--scheduler", metavar="NAME", help="instead of the scenario's")
        parser.add_argument("--processes", type=int, metavar="N", help="at a time (default: one a core)")
        parser.add_argument("--workers", action="store_true", help="let the portal's workers do it, and store it")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--csv", metavar="OUT", help="write the table with least, median and most of each figure")

    def handle(self, **options: Any) -> None:
        """Run all of it, and print the table."""
        knob = KNOBS[options["knob"]]
        try:
            values = read_values(knob, [_number(value) for value in options["values"].split(",")])
            changes = parts(knob, values, options["seeds"])
        except ScenarioError as error:
            fail("--seeds" if error.path == "seeds" else "--values", error.message)
        cores.check_processes(options["processes"])
        for change in changes:
            if options["scheduler"] is not None:
                change["policy"]["scheduler"] = options["scheduler"]
        if (options["file"] is None) == (options["cluster"] is None):
            fail("FILE", "is missing: a scenario, or --cluster NAME" if options["file"] is None else "or --cluster")
        if options["cluster"] is not None or options["workers"]:
            import django

            django.setup()  # a command on files runs without
        if options["workers"]:
            found = self._by_workers(knob, values, options)
        else:
            found = self._by_processes(_scenario(options), changes, options["processes"])
        rows = [(change["policy"][knob.name], each) for change, each in zip(changes, found, strict=True)]
        self._print(knob, rows, options)

    # --- running ------------------------------------------------------------------------------------------------------

    def _by_processes(
        self, scenario: Scenario, changes: Sequence[Mapping[str, Any]], processes: int | None
    ) -> list[Mapping[str, Any]]:
        for change in changes:
            try:
                changed(scenario, change, None)
            except ScenarioError as error:
                fail("--scheduler" if "scheduler" in error.path else "--values", str(error))

        def say(_: Mapping[str, Any], done: int) -> None:
            self.stderr.write(f"{done} of {len(changes)} runs", ending="\r" if done < len(changes) else "\n")

        return cores.carry_out(_run, scenario, changes, say, processes)

    def _by_workers(self, knob: Knob, values: Sequence[int], options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Store it, let the workers run it, and wait for them; Ctrl-C leaves them at it."""
        from budgets.errors import InputError
        from scheduler.management.commands.scenario_from_history import bounds
        from scheduler.models import Simulation
        from scheduler.queries.simulations import parts_of, progress
        from scheduler.services import simulations

        source: simulations.Source
        if options["cluster"] is not None:
            source = simulations.History(*bounds(options["cluster"], options["start"], options["until"]))
        else:
            source = simulations.File(options["file"], read_text(options["file"]))
        try:
            row = simulations.sweep(
                by=None,
                source=source,
                knob=knob.name,
                values=list(values),
                seeds=options["seeds"],
                policy={"scheduler": options["scheduler"]} if options["scheduler"] else {},
                more=None if options["add"] is None else simulations.File(options["add"], read_text(options["add"])),
            )
        except InputError as error:
            fail(error.field, error.message)
        self.stderr.write(f"simulation {row.pk}")
        while not row.is_over:
            time.sleep(LOOK_EVERY_S)
            row = Simulation.objects.defer("scenario", "measured").get(pk=row.pk)
            self.stderr.write(f"{progress(parts_of(row)).percent} %", ending="\r" if not row.is_over else "\n")
        if row.state != Simulation.State.FINISHED:
            fail(f"simulation {row.pk}", row.error or row.state)
        return [part.figures or {} for part in parts_of(row) if part.number]

    # --- telling ------------------------------------------------------------------------------------------------------

    def _print(self, knob: Knob, rows: Sequence[tuple[int, Mapping[str, Any]]], options: Mapping[str, Any]) -> None:
        lines = table(rows)
        if options["csv"] is not None:
            write_text(options["csv"], _csv(knob, lines, names([figures for _, figures in rows])))
        if options["json"]:
            self.print_json({"knob": knob.name, "rows": lines})
            return
        cells = [[knob.title, *TITLES.values()]]
        cells += [[said(knob, line["value"]), *(_cell(name, line[name]) for name in TITLES)] for line in lines]
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        for first, *rest in cells:
            amounts = "".join(f"  {cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
            self.stdout.write(f"  {first:{widths[0]}}{amounts}")
        if options["seeds"] > 1:
            self.stdout.write(f"The median of {options['seeds']} runs, and from the least to the most of them.")


def _number(value: str) -> int | str:
    value = value.strip()
    return int(value) if value.isascii() and value.isdigit() else value


def _scenario(options: Mapping[str, Any]) -> Scenario:
    if options["cluster"] is not None:
        from scheduler.management.commands.scenario_from_history import read_stretch

        scenario = read_stretch(options["cluster"], options["start"], options["until"]).scenario
    else:
        try:
            scenario = parse(read_text(options["file"]))
        except ScenarioError as error:
            fail(options["file"], str(error))
    if options["add"] is None:
        return scenario
    try:
        return with_more(scenario, read_text(options["add"]))
    except ScenarioError as error:
        fail(options["add"], str(error))


def _cell(name: str, spread: Sequence[Any] | None) -> str:
    if spread is None:
        return "–"
    least, median, most = (_text(name, value) for value in spread)
    return median if least == most else f"{median} ({least}–{most})"


def _text(name: str, value: Any) -> str:
    if name.endswith("_s"):
        return duration_text(value)
    return f"{value:,}" if isinstance(value, int) else f"{100 * value:.1f} %"


def _csv(knob: Knob, lines: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [knob.name, "runs", *(f"{name}_{what}" for name in columns for what in ("least", "median", "most"))]
    )
    for line in lines:
        spreads = [value for name in columns for value in (line[name] or ["", "", ""])]
        writer.writerow([line["value"], line["runs"], *spreads])
    return out.getvalue()


def _run(scenario: Scenario, change: Mapping[str, Any]) -> dict[str, Any]:
    seed = change["seed"]
    return figures(simulate(changed(scenario, change, Random(seed) if seed else None), is_explained=False))
