"""`manage.py slurm_whatif --sacct FILE --out report.html`: what would budgets have done on your cluster?

Needs no database. The file is what this prints, on a machine with Slurm (add a span of days that suits):

    sacct -P -a -X -D -S 2026-01-01 -E 2026-02-01 --format=JobIDRaw,Account,User,Partition,State,Submit,Start,End,\
ElapsedRaw,TimelimitRaw,AllocTRES,ReqTRES,NNodes,NodeList,ExitCode
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from django.core.management.base import CommandParser

from scheduler.executors.slurm import Unreadable, accounts, history, nodes
from scheduler.management import slurm_report
from scheduler.management.files import CommandOnFiles, fail, read_duration_option, read_text, write_text
from scheduler.management.slurm_report import Side
from scheduler.management.slurm_scenario import Choices, NothingThere, Past, past_of, real_outcome
from scheduler.simulator import ScenarioError, simulate
from scheduler.simulator.comparison import figures

Read = TypeVar("Read")
PLAIN = ("easy", "fifo", "fifo-skip")


class Command(CommandOnFiles):
    """From a site's records to a report."""

    help = "Simulate a Slurm site's recorded jobs under budgets and contracts, and write a report of both side by side."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument(
            "--sacct", metavar="FILE", required=True, help='records of jobs (sacct -P); "-" reads stdin'
        )
        parser.add_argument("--sacctmgr", metavar="FILE", help="the account tree (sacctmgr -P show assoc)")
        parser.add_argument("--sinfo", metavar="FILE", help=f"the nodes: {' '.join(nodes.SINFO)}")
        parser.add_argument("--out", metavar="FILE", required=True, help="the report: .html, or .md for Markdown")
        parser.add_argument("--scenario", metavar="FILE", help="also write the scenario that was simulated")
        parser.add_argument("--min-runtime-cap", default="1h", metavar="DURATION", help="longest contract (default 1h)")
        parser.add_argument(
            "--shares", choices=("used", "equal"), default="used", help="where there is no account tree"
        )
        parser.add_argument("--not-resumable", action="store_true", help="what is preempted is lost (default: goes on)")
        parser.add_argument("--restart-cost", default="5m", metavar="DURATION", help="work repeated then (default 5m)")
        parser.add_argument("--beside", choices=PLAIN, help="a plain scheduler simulated as a third column")

    def handle(self, **options: Any) -> None:
        """Read, simulate, write."""
        cap_s = read_duration_option("--min-runtime-cap", options["min_runtime_cap"])
        cost_s = read_duration_option("--restart-cost", options["restart_cost"])
        choices = Choices(cap_s, options["shares"], not options["not_resumable"], cost_s, "Slurm, as recorded")
        past = self._past(options, choices)
        sides = self._sides(past, options["beside"])
        told = [*slurm_report.assumptions(cap_s, None if options["not_resumable"] else cost_s), *past.notes]
        write = slurm_report.as_markdown if options["out"].endswith(".md") else slurm_report.as_html
        write_text(options["out"], write(past, sides, told))
        for line in slurm_report.verdict(sides):
            self.stdout.write(line)
        self.stdout.write(
            f"{len(past.works):,} jobs on {len(past.scenario.nodes):,} nodes; written to {options['out']}"
        )

    def _past(self, options: dict[str, Any], choices: Choices) -> Past:
        jobs = _read(options["sacct"], history.read)
        tree = None if options["sacctmgr"] is None else _read(options["sacctmgr"], accounts.read)
        seen = None if options["sinfo"] is None else _read(options["sinfo"], nodes.read_sinfo)
        if seen is not None:
            seen = nodes.with_places(seen, {})
        try:
            past, text = past_of(jobs, tree, seen, choices)
        except (NothingThere, ScenarioError) as error:
            fail(options["sacct"], str(error))
        if options["scenario"] is not None:
            write_text(options["scenario"], text)
        return past

    def _sides(self, past: Past, beside: str | None) -> list[Side]:
        real = Side("as it was", "what Slurm really did, as its records say.", figures(real_outcome(past)))
        ours = simulate(past.scenario, is_explained=False)
        sides = [real, Side("contracts", "the same jobs under budgets, fair share and contracts.", figures(ours))]
        if beside is not None:
            plain = simulate(replace(past.scenario, scheduler=beside), is_explained=False)
            about = "a plain scheduler, simulated on the same jobs: how much of the difference is the simulation's."
            sides.append(Side(beside, about, figures(plain)))
        return sides


def _read(name: str, reader: Callable[[str, str], Read]) -> Read:
    try:
        return reader(name, read_text(name))
    except Unreadable as error:
        fail(name, str(error).removeprefix(f"{name}, ").removeprefix(f"{name}: "))
