"""`manage.py compare [FILE]`: policies side by side over seeds, with how sure each difference is. Needs no database.

FILE is a scenario; without it laboratories are invented. With --trace it is a trace, with --cluster a stretch of stored
history. Runs are spread over this machine's cores.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandParser

from scheduler.management import comparison_runs as runs
from scheduler.management import cores
from scheduler.management.commands.reproduce import read_seeds
from scheduler.management.comparison_page import comparison_page
from scheduler.management.comparison_tables import csv_text, print_comparison
from scheduler.management.files import CommandOnFiles, check_folder, write_text
from scheduler.simulator.measures import MEASURES, Measures
from scheduler.simulator.named_policies import EVERY, EVERY_PLACEMENT, NamedPolicy, registered
from scheduler.simulator.placements import PLACEMENTS
from scheduler.simulator.policy_table import Line, table


class Command(CommandOnFiles):
    """Compare policies."""

    help = "Run policies on the same work, seed by seed; print figures with 95 % intervals, and paired differences."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        runs.add_options(parser)
        known = " ".join(each.name for each in registered())
        places = "; ".join(f"{word}={'/'.join(values)}" for word, values in PLACEMENTS.items())
        parser.add_argument(
            "--policy",
            action="append",
            metavar="NAME",
            help="a scheduler, or contracts with knobs; once for each; the first is what the others are compared with; "
            f'"{EVERY}" are {known}; knobs are written "contracts,leaf_order=tiresias,lookback_s=3d", and so are '
            f'placements: {places}; "{EVERY_PLACEMENT}" are all of these that need nothing of the work '
            "(default: contracts and fifo-skip; counted, fifo and tiresias)",
        )
        parser.add_argument("--seeds", default="1-5", metavar="SEEDS", help='such as "1-5" or "7" (default 1-5)')
        parser.add_argument("--processes", type=int, metavar="N", help="at a time (default: one a core)")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--csv", metavar="OUT", help="write a row for each policy and figure")
        parser.add_argument("--html", metavar="OUT", help="write charts and tables as one HTML file")

    def handle(self, **options: Any) -> None:
        """Run all of it, and print."""
        if options["cluster"] is not None:
            import django

            django.setup()  # a command on files runs without
        seeds = read_seeds(options["seeds"])
        cores.check_processes(options["processes"])
        if options["html"] is not None:
            check_folder(options["html"])
        asked = runs.read(options, options["policy"] or runs.usual(options), len(seeds))
        for line in runs.ignored(asked):
            sys.stderr.write(f"{line}\n")
        listed = [runs.Run(policy, seed, seeds[0]) for seed in seeds for policy in asked.policies]

        def say(run: runs.Run, done: int) -> None:
            sys.stderr.write(f"{done} of {len(listed)}: seed {run.seed} under {run.policy.name}\n")

        found = cores.carry_out(runs.carry_out, asked.work, listed, say, options["processes"])
        number = len(asked.policies)
        by_policy = [found[place::number] for place in range(number)]
        self._print(asked, seeds, by_policy, options)

    def _print(
        self, asked: runs.Asked, seeds: Sequence[int], by_policy: Sequence[Sequence[Measures]], options: dict[str, Any]
    ) -> None:
        lines = table(by_policy, asked.again)
        names = [policy.name for policy in asked.policies]
        if options["csv"] is not None:
            write_text(options["csv"], csv_text(names, lines))
        told = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"
        about = f"{asked.name}; {told}: {runs.WORDS[asked.again]}."
        if options["html"] is not None:
            write_text(options["html"], comparison_page(about, names, lines, asked.real))
        if options["json"]:
            self.print_json(
                {
                    "work": asked.name,
                    "seeds": list(seeds),
                    "again": asked.again,
                    "measures": [each._asdict() for each in MEASURES],
                    "policies": [
                        _policy(policy, line, of_it)
                        for policy, line, of_it in zip(asked.policies, lines, by_policy, strict=True)
                    ],
                    "real": asked.real,
                }
            )
            return
        self.stdout.write(about)
        print_comparison(self.stdout.write, names, lines, asked.real)


def _policy(policy: NamedPolicy, line: Line, of_it: Sequence[Measures]) -> dict[str, Any]:
    """One policy as JSON."""
    return {
        "name": policy.name,
        "policy": dict(policy.knobs),
        "placement": dict(policy.placement),
        "measures": line,
        "runs": list(of_it),
    }
