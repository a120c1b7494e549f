"""`manage.py generate research-lab`: an invented scenario file. Needs no database."""

from __future__ import annotations

import json
import random
from typing import Any

from django.core.management.base import CommandParser

from scheduler.management.files import CommandOnFiles, fail, write_text
from scheduler.simulator.lab import check_size, research_lab

KINDS = ("research-lab",)


class Command(CommandOnFiles):
    """Invent a scenario from a seed."""

    help = "Write an invented scenario; the same seed gives the same file."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("kind", metavar="KIND", choices=KINDS, help=f"one of {', '.join(KINDS)}")
        parser.add_argument("--seed", type=int, required=True, metavar="N", help="where all chance comes from")
        parser.add_argument("--days", type=int, default=30, metavar="D", help="how long it lasts (default 30)")
        parser.add_argument("--gpus", type=int, default=1_024, metavar="G", help="of the cluster (default 1,024)")
        parser.add_argument("--out", metavar="FILE", help="where to write it (default: standard output)")

    def handle(self, **options: Any) -> None:
        """Invent and write."""
        days, gpus = options["days"], options["gpus"]
        if (fault := check_size(days=days, gpus=gpus)) is not None:
            fail(*fault)
        scenario = research_lab(random.Random(options["seed"]), seed=options["seed"], days=days, gpus=gpus)
        if options["out"] is None:
            self.print_json(scenario)
            return
        write_text(options["out"], json.dumps(scenario))
        self.stdout.write(f"{len(scenario['workloads']):,} workloads of {days} days written to {options['out']}")
