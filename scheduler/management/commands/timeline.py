"""`manage.py timeline FILE --out OUT.html`: GPU timelines of a scenario under two schedulers, side by side, as a file.

Needs no database, and the file needs nothing else: it opens from disk, in light or dark, and prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.contrib.staticfiles import finders
from django.core.management.base import CommandParser

from scheduler.management.files import CommandOnFiles, fail, read_duration_option, read_text, write_text
from scheduler.simulator import Scenario, ScenarioError, parse, simulate
from scheduler.simulator.recorded import pack, unpack
from scheduler.simulator.schedulers import BASELINES
from scheduler.simulator.timeline import Timeline, of_recorded, teams_of
from scheduler.simulator.timeline_cells import View, whole
from scheduler.simulator.timeline_page import Panel, html_file, svg_file
from scheduler.simulator.variants import with_policy

SCHEDULERS = ("contracts", *BASELINES)
SUFFIXES = (".html", ".svg")
SCRIPT = "js/timeline-file.js"


class Command(CommandOnFiles):
    """Draw one scenario under two schedulers."""

    help = "Run a scenario under two schedulers, and write their GPU timelines side by side as an HTML or SVG file."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("file", metavar="FILE", help='a scenario; "-" reads standard input')
        parser.add_argument("--scheduler", choices=SCHEDULERS, default="contracts", help="default: contracts")
        parser.add_argument("--baseline", choices=SCHEDULERS, default="fifo", help="beside it (default: fifo)")
        parser.add_argument("--alone", action="store_true", help="leave the baseline out")
        parser.add_argument("--out", metavar="OUT", required=True, help="the file to write: OUT.html or OUT.svg")
        parser.add_argument("--from", dest="from_", metavar="INSTANT", help="show from then on, such as 2d6h")
        parser.add_argument("--until", metavar="INSTANT", help="show until then")
        parser.add_argument("--nodes", metavar="FIRST:LAST", help="show these nodes only, by their names")

    def handle(self, **options: Any) -> None:
        """Run both, and write."""
        out = options["out"]
        if Path(out).suffix not in SUFFIXES:
            fail("--out", f"must end in .html or .svg, and is {out!r}")
        try:
            scenario = parse(read_text(options["file"]))
        except ScenarioError as error:
            fail(options["file"], str(error))
        names = [options["scheduler"]] if options["alone"] else [options["baseline"], options["scheduler"]]
        panels = []
        for name in names:
            timeline = self.run(scenario, name)
            panels.append(Panel(name, timeline, view_of(timeline, options)))
        title = f"GPU timeline, {scenario.name or options['file']}"
        if Path(out).suffix == ".svg":
            content = svg_file(title, panels)
        else:
            content = html_file(title, panels, script())
        write_text(out, content)
        runs = ", ".join(f"{len({bar.run for bar in panel.timeline.bars}):,} under {panel.name}" for panel in panels)
        self.stdout.write(f"{out}: {len(content.encode()):,} bytes; runs: {runs}")

    def run(self, scenario: Scenario, scheduler: str) -> Timeline:
        """The scenario's timeline under one scheduler."""
        recorded = unpack(pack(simulate(with_policy(scenario, {"scheduler": scheduler}), is_explained=False)))
        return of_recorded(recorded, *teams_of(recorded.parents))


def script() -> str:
    """The zoom of the page."""
    found = finders.find(SCRIPT)
    if found is None:
        raise FileNotFoundError(SCRIPT)
    return Path(found).read_text(encoding="utf-8")


def view_of(timeline: Timeline, options: dict[str, Any]) -> View:
    """What the options ask to see; without any, the whole.

    Raises:
        CommandError: an instant or a node that is not there.
    """
    view = whole(timeline)
    if options["from_"] is not None:
        view = view._replace(from_s=read_duration_option("--from", options["from_"]))
    if options["until"] is not None:
        view = view._replace(until_s=read_duration_option("--until", options["until"]))
    if view.span_s <= 0 or view.from_s >= timeline.now_s:
        fail("--from", f"nothing is between it and the end: the runs end at second {timeline.now_s:,}")
    if options["nodes"] is None:
        return view
    first, colon, last = options["nodes"].partition(":")
    index = timeline.index_of()
    for name in (first, last if colon else first):
        if name not in index:
            fail("--nodes", f"there is no node {name!r}")
    if index[last if colon else first] < index[first]:
        fail("--nodes", f"{last!r} comes before {first!r}")
    return view._replace(first_row=index[first], end_row=index[last if colon else first] + 1)
