"""`manage.py reproduce`: the published results beside ours, from invented laboratories. Needs no database."""

from __future__ import annotations

import re
import sys
from typing import Any

from django.core.management.base import CommandParser

from scheduler.management.experiments import carry_out_all
from scheduler.management.files import CommandOnFiles, fail
from scheduler.management.reproduction_tables import print_sensitivity, print_table, row_as_json
from scheduler.simulator.lab import check_size
from scheduler.simulator.reproduce import SCHEDULERS, BySchedulers, Experiment, table
from scheduler.simulator.reproduce.sensitivity import Change, changes, variations

MOST_SEEDS = 100


class Command(CommandOnFiles):
    """Simulate laboratories under contracts and under what they are compared with."""

    help = "Print the published results beside those of invented laboratories."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("--seeds", default="1-5", metavar="SEEDS", help='such as "1-5" or "1,3,8" (default 1-5)')
        parser.add_argument("--days", type=int, default=30, metavar="D", help="how long each lasts (default 30)")
        parser.add_argument("--gpus", type=int, default=1_024, metavar="G", help="of the cluster (default 1,024)")
        parser.add_argument(
            "--sensitivity", action="store_true", help="vary each assumption by a quarter up and down instead"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, **options: Any) -> None:
        """Simulate, and print."""
        seeds = read_seeds(options["seeds"])
        days, gpus = options["days"], options["gpus"]
        if (fault := check_size(days=days, gpus=gpus)) is not None:
            fail(*fault)
        if options["sensitivity"]:
            self._print_sensitivity(seeds, days, gpus, as_json=options["json"])
            return
        experiments = [Experiment(seed, days, gpus, scheduler) for seed in seeds for scheduler in SCHEDULERS]
        found = self._by_schedulers(experiments)
        rows = table(found)
        if options["json"]:
            by_seed = {str(seed): dict(figures) for seed, figures in zip(seeds, found, strict=True)}
            self.print_json({"days": days, "gpus": gpus, "table": [row_as_json(row) for row in rows], "seeds": by_seed})
        else:
            self.stdout.write(_what(seeds, days, gpus))
            print_table(self.stdout.write, rows)

    def _print_sensitivity(self, seeds: list[int], days: int, gpus: int, *, as_json: bool) -> None:
        """The base first, then each assumption a quarter less and a quarter more, on the same seeds."""
        worlds = [None, *variations()]
        experiments = [
            Experiment(seed, days, gpus, scheduler, *([] if world is None else [world.assume]))
            for world in worlds
            for seed in seeds
            for scheduler in SCHEDULERS
        ]
        found = self._by_schedulers(experiments)
        tables = [table(found[index : index + len(seeds)]) for index in range(0, len(found), len(seeds))]
        listed: list[Change] = changes(tables[0], list(zip(variations(), tables[1:], strict=True)))
        if as_json:
            self.print_json(
                {
                    "days": days,
                    "gpus": gpus,
                    "seeds": seeds,
                    "base": {row.line.name: row.median for row in tables[0]},
                    "changes": [change.as_json() for change in listed],
                }
            )
        else:
            self.stdout.write(_what(seeds, days, gpus))
            print_sensitivity(self.stdout.write, tables[0], listed)

    def _by_schedulers(self, experiments: list[Experiment]) -> list[BySchedulers]:
        """The figures, three schedulers together as they were asked for."""

        def say(experiment: Experiment, done: int) -> None:
            sys.stderr.write(f"{done} of {len(experiments)}: seed {experiment.seed} under {experiment.scheduler}\n")

        figures = carry_out_all(experiments, say)
        size = len(SCHEDULERS)
        return [
            dict(zip(SCHEDULERS, figures[index : index + size], strict=True)) for index in range(0, len(figures), size)
        ]


def _what(seeds: list[int], days: int, gpus: int) -> str:
    spell = "1 day" if days == 1 else f"{days} days"
    names = ", ".join(map(str, seeds))
    return f"{spell}, {gpus:,} GPUs, {'seed' if len(seeds) == 1 else 'seeds'} {names}"


def read_seeds(value: str) -> list[int]:
    """Whole numbers and ranges: "1-5", "1,3,8-10".

    Raises:
        CommandError: it is neither, or there are too many.
    """
    seeds: list[int] = []
    for part in value.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,9})(?:-([0-9]{1,9}))?\s*", part, re.ASCII)
        if found is None:
            fail("--seeds", f'must be numbers and ranges such as "1-5" or "1,3,8", but is "{value}"')
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            fail("--seeds", f"the range {part.strip()} runs backwards")
        if len(seeds) + last - first >= MOST_SEEDS:
            fail("--seeds", f"must be at most {MOST_SEEDS}")
        seeds += [seed for seed in range(first, last + 1) if seed not in seeds]
    return seeds
