"""`manage.py reproduce`: the published results beside ours, from invented laboratories and work. Needs no database."""

from __future__ import annotations

import re
import sys
from typing import Any

from django.core.management.base import CommandParser

from scheduler.management.experiments import SystemRun, carry_out_all, carry_out_systems
from scheduler.management.files import CommandOnFiles, fail
from scheduler.management.reproduction_tables import (
    print_sensitivity,
    print_system,
    print_table,
    row_as_json,
    system_as_json,
)
from scheduler.simulator.lab import check_size
from scheduler.simulator.reproduce import SCHEDULERS, BySchedulers, Experiment, table
from scheduler.simulator.reproduce.sensitivity import Change, changes, variations
from scheduler.simulator.reproduce.systems import SYSTEMS, SystemRow

MOST_SEEDS = 100
LABORATORY = "laboratory"


class Command(CommandOnFiles):
    """Simulate laboratories under contracts and others, and other systems on work of their kind."""

    help = "Print published results, of contracts and of other systems, beside what comes out here."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("--seeds", default="1-5", metavar="SEEDS", help='such as "1-5" or "1,3,8" (default 1-5)')
        parser.add_argument("--days", type=int, default=30, metavar="D", help="how long each lasts (default 30)")
        parser.add_argument("--gpus", type=int, default=1_024, metavar="G", help="of the cluster (default 1,024)")
        parser.add_argument(
            "--only", metavar="NAMES", help=f"some of {', '.join((LABORATORY, *SYSTEMS))}, with commas (default: all)"
        )
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
            if options["only"] is not None:
                fail("--only", f"--sensitivity is about the {LABORATORY} alone")
            self._print_sensitivity(seeds, days, gpus, as_json=options["json"])
            return
        chosen = _chosen(options["only"])
        result: dict[str, Any] = {}
        if LABORATORY in chosen:
            experiments = [Experiment(seed, days, gpus, scheduler) for seed in seeds for scheduler in SCHEDULERS]
            found = self._by_schedulers(experiments)
            rows = table(found)
            by_seed = {str(seed): dict(figures) for seed, figures in zip(seeds, found, strict=True)}
            result |= {"days": days, "gpus": gpus, "table": [row_as_json(row) for row in rows], "seeds": by_seed}
            if not options["json"]:
                self.stdout.write(_what(seeds, days, gpus))
                print_table(self.stdout.write, rows)
        systems = self._systems([name for name in chosen if name != LABORATORY])
        if options["json"]:
            told = [system_as_json(name, SYSTEMS[name], each) for name, each in systems.items()]
            self.print_json(result | {"systems": told})
            return
        for name, each in systems.items():
            print_system(self.stdout.write, SYSTEMS[name], each)

    def _systems(self, names: list[str]) -> dict[str, list[SystemRow]]:
        """The rows of each, all their seeds on all cores."""
        runs = [SystemRun(name, seed) for name in names for seed in range(1, SYSTEMS[name].seeds + 1)]

        def say(run: SystemRun, done: int) -> None:
            sys.stderr.write(f"{done} of {len(runs)}: {run.name}, seed {run.seed}\n")

        found = dict(zip(runs, carry_out_systems(runs, say), strict=True)) if runs else {}
        return {
            name: SYSTEMS[name].rows([found[SystemRun(name, seed)] for seed in range(1, SYSTEMS[name].seeds + 1)])
            for name in names
        }

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


def _chosen(value: str | None) -> list[str]:
    """What of the laboratory and the systems is asked for, in their order.

    Raises:
        CommandError: one is neither.
    """
    known = [LABORATORY, *SYSTEMS]
    if value is None:
        return known
    names = [part.strip() for part in value.split(",")]
    for name in names:
        if name not in known:
            fail("--only", f"must be some of {', '.join(known)}, not {name!r}")
    return [name for name in known if name in names]


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
