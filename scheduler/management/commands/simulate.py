"""`manage.py simulate FILE`: run a scenario, and print what happened and why. Needs no database.

With --trace it runs a trace on a plain number of GPUs instead (`trace_mode`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.core.management.base import CommandParser

from scheduler.management import trace_mode
from scheduler.management.files import CommandOnFiles, fail, read_duration_option, read_text
from scheduler.management.tables import print_result
from scheduler.simulator import (
    Scenario,
    ScenarioError,
    json_text,
    order_at,
    parse,
    served_by_node,
    simulate,
)
from scheduler.simulator.schedulers import counts_devices_alone
from scheduler.simulator.variants import with_more


class Command(CommandOnFiles):
    """Simulate one scenario file."""

    help = "Run a scenario file through the engine, and print what happened and why."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("file", metavar="FILE", nargs="?", help='a scenario; "-" reads standard input')
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--order-at", metavar="INSTANT", help="print the order of the queue at an instant instead")
        parser.add_argument("--until", metavar="INSTANT", help="end then, whatever the file says")
        parser.add_argument("--add", metavar="FILE", help="lay the work in this file over it: its workloads and events")
        parser.add_argument(
            "--spreading-cost", choices=("yes", "no"), help="what is spread takes longer (yes, or as the file says)"
        )
        trace_mode.add_options(parser)

    def handle(self, **options: Any) -> None:
        """Run it."""
        if trace_mode.is_asked_for(options):
            trace_mode.run(options, self.stdout.write)
            return
        name = options["file"]
        try:
            scenario = parse(read_text(name))
        except ScenarioError as error:
            fail(name, str(error))
        if options["add"] is not None:
            try:
                scenario = with_more(scenario, read_text(options["add"]))
            except ScenarioError as error:
                fail(options["add"], str(error))
        if options["until"] is not None:
            scenario = replace(scenario, until_s=read_duration_option("--until", options["until"]))
        if options["order_at"] is not None:
            self._print_order(scenario, read_duration_option("--order-at", options["order_at"]), options["json"])
            return
        if options["spreading_cost"] is not None:
            scenario = replace(scenario, spreading_cost=options["spreading_cost"] == "yes")
        if said := counts_devices_alone(scenario, scenario.scheduler):
            self.stderr.write(said)
        outcome = simulate(scenario, is_explained=options["json"])
        if not options["json"]:
            print_result(self.stdout.write, outcome)
            return
        for piece in json_text(outcome):
            self.stdout.write(piece, ending="")
        self.stdout.write("")

    def _print_order(self, scenario: Scenario, at_s: int, as_json_object: bool) -> None:
        found, snapshot = order_at(scenario, at_s)
        served = served_by_node(snapshot)
        if as_json_object:
            self.print_json({"order": list(found), "served": served})
            return
        for place, workload in enumerate(found, start=1):
            self.stdout.write(f"{place:>5}  {workload}")
