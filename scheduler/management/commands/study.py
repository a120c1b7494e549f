"""`manage.py study fragmentation|gaming|locality|network|sharing|packing [FILE]`: published questions, and answers.

FILE is a scenario; without it laboratories are invented. The network is its authors' testbed, who shares are two
tenants of our own, and what is packed is a trace in the folder `--trace`: these take none. Runs are spread over this
machine's cores. Needs no database.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from django.core.management.base import CommandParser

from scheduler.management import cores
from scheduler.management.commands.reproduce import read_seeds
from scheduler.management.files import CommandOnFiles, check_folder, fail, read_duration_option, read_text, write_text
from scheduler.management.study_runs import (
    FragmentationRun,
    GamingRun,
    LocalityRun,
    NetworkRun,
    PackingRun,
    PairsRun,
    Pods,
    ReplayRun,
    Run,
    SharingRun,
    Source,
    carry_out_all,
)
from scheduler.management.tables import duration_text
from scheduler.simulator import ScenarioError, parse
from scheduler.simulator.lab import check_size
from scheduler.simulator.sampled import Sample
from scheduler.simulator.scenario import ROOT
from scheduler.simulator.study import (
    fragmentation,
    gaming,
    network,
    network_page,
    packing,
    packing_page,
    page,
    relaxing,
    sharing,
    sharing_page,
)
from scheduler.simulator.sweeps import KNOBS, said
from scheduler.traces import TraceError, alibaba

STUDIES = ("fragmentation", "gaming", "locality", "network", "sharing", "packing")
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "fragmentation": {"seeds": "1-3", "days": 4, "gpus": 256},
    "gaming": {"seeds": "1-5", "days": 5, "gpus": 64},
    "locality": {"seeds": "1-3", "days": 4, "gpus": 256},
    "network": {"seeds": "1-3", "minutes": 30},
    "sharing": {"seeds": "1-5", "days": 28},
    "packing": {"seeds": "1-3"},
}
"""So that each takes a few minutes on two cores."""
OWN_OPTIONS: Mapping[str, Sequence[str]] = {
    "gaming": ("demand", "team", "restart_cost", "max_contract"),
    "network": ("minutes",),
    "packing": ("trace",),
    "locality": ("spreading_cost", "nodes_per_rack", "nodes_per_rail", "nodes_per_leaf"),
}
"""Options that belong to one study alone."""
PODS, NODES = "*pod_list*.csv", "*node_list*.csv"
"""What the files of a trace of pods are called, in the folder of --trace."""
Read = TypeVar("Read")
MOST_DEMAND = 10
MOST_MINUTES = 600
MOST_DAYS = 366


class Command(CommandOnFiles):
    """Run a study."""

    help = (
        "Study fragmentation under contracts, what gaming a budget gains, what relaxing locality or shifts on the "
        "network are worth, what sharing costs a tenant, or how rules of packing fill a cluster."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("study", metavar="STUDY", choices=STUDIES, help=f"one of {', '.join(STUDIES)}")
        parser.add_argument("file", metavar="FILE", nargs="?", help='a scenario; "-" reads standard input')
        parser.add_argument("--seeds", metavar="SEEDS", help='such as "1-5" or "1,3,8"')
        parser.add_argument("--days", type=int, metavar="D", help="how long an invented laboratory lasts, or sharing")
        parser.add_argument("--gpus", type=int, metavar="G", help="of an invented laboratory")
        parser.add_argument("--demand", metavar="N,N", help="gaming: both twins ask for so many times as much (1,3)")
        parser.add_argument("--team", metavar="NAME", help="gaming: which team plays (default: the middle one)")
        parser.add_argument("--restart-cost", metavar="DURATION", help="gaming: work that every restart repeats")
        parser.add_argument("--max-contract", metavar="DURATION", help="gaming: the longest contract")
        parser.add_argument("--minutes", type=int, metavar="M", help="network: for how long gangs come")
        parser.add_argument(
            "--trace", metavar="DIR", help="packing: a folder with Alibaba's lists of pods and of nodes"
        )
        parser.add_argument(
            "--spreading-cost", choices=("yes", "no"), help="locality: what is spread takes longer, as published (yes)"
        )
        for level in relaxing.CLOSE:
            parser.add_argument(
                f"--nodes-per-{level}",
                type=int,
                metavar="N",
                help=f"locality: put so many nodes after each other in one {level}",
            )
        parser.add_argument("--processes", type=int, metavar="N", help="at a time (default: one a core)")
        parser.add_argument("--html", metavar="OUT", help="write tables and plots as one HTML file")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, **options: Any) -> None:
        """Run all of it, and print."""
        name = options["study"]
        seeds = read_seeds(options["seeds"] or DEFAULTS[name]["seeds"])
        for study, own in OWN_OPTIONS.items():
            for option in own:
                if study != name and options[option] is not None:
                    fail(f"--{option.replace('_', '-')}", f"belongs to the study of {study}")
        cores.check_processes(options["processes"])
        if options["html"] is not None:
            check_folder(options["html"])
        if name == "network":
            self._network(seeds, options)
            return
        if name == "packing":
            self._packing(seeds, options)
            return
        if name == "sharing":
            self._sharing(seeds, options)
            return
        source, about = self._source(options, seeds)
        if name == "locality":
            self._locality(source, about, seeds, options)
        elif name == "fragmentation":
            self._fragmentation(source, about, seeds, options)
        else:
            self._gaming(source, about, seeds, options)

    def _source(self, options: Mapping[str, Any], seeds: Sequence[int]) -> tuple[Source, str]:
        """Where the scenarios come from, and the same in words."""
        told = _seeds_text(seeds)
        if options["file"] is not None:
            for option in ("days", "gpus"):
                if options[option] is not None:
                    fail(f"--{option}", "belongs to an invented laboratory, and a FILE is given")
            try:
                scenario = parse(read_text(options["file"]))
            except ScenarioError as error:
                fail(options["file"], str(error))
            return Source(scenario), f"{scenario.name or options['file']}; {told}, from the second on jittered."
        defaults = DEFAULTS[options["study"]]
        days = defaults["days"] if options["days"] is None else options["days"]
        gpus = defaults["gpus"] if options["gpus"] is None else options["gpus"]
        if (fault := check_size(days=days, gpus=gpus)) is not None:
            fail(*fault)
        return Source(None, days, gpus), f"Invented laboratories of {gpus:,} GPUs over {days} days; {told}."

    def _carry_out(self, runs: Sequence[Run], source: Source, options: Mapping[str, Any]) -> list[dict[str, Any]]:
        def say(done: int, of: int) -> None:
            sys.stderr.write(f"{done} of {of} runs" + ("\r" if done < of else "\n"))

        return carry_out_all(runs, source, options["processes"], say)

    # --- fragmentation ------------------------------------------------------------------------------------------------

    def _fragmentation(self, source: Source, about: str, seeds: Sequence[int], options: Mapping[str, Any]) -> None:
        variants = fragmentation.variants()
        example = source.of(seeds[0], seeds[0])
        for variant in variants:
            try:
                fragmentation.varied(example, variant)
            except ScenarioError as error:
                fail(options["file"] or "--gpus", str(error))
        runs = [FragmentationRun(seed, variant) for variant in variants for seed in seeds]
        found = self._carry_out(runs, source, options)
        samples = found[0]["samples"]
        lines = fragmentation.table([(run.variant, each) for run, each in zip(runs, found, strict=True)])
        self._hand_out(
            options,
            {"study": "fragmentation", "about": about, "rows": lines, "sample_columns": Sample._fields,
             "samples": samples},
            page.fragmentation_page(about, lines, samples),
            lambda: self._print_table(page.FRAGMENTATION_HEAD, page.fragmentation_rows(lines)),
        )  # fmt: skip

    # --- gaming -------------------------------------------------------------------------------------------------------

    def _gaming(self, source: Source, about: str, seeds: Sequence[int], options: Mapping[str, Any]) -> None:
        demands = _demands(options["demand"] or "1,3")
        if options["restart_cost"] is not None:
            cost_s = read_duration_option("--restart-cost", options["restart_cost"])
            source = source._replace(restart_cost_s=cost_s)
            about = f"{about} A restart repeats {duration_text(cost_s)}."
        if options["max_contract"] is not None:
            longest_s = read_duration_option("--max-contract", options["max_contract"])
            knob = KNOBS["min_runtime_max_s"]
            if not knob.least <= longest_s <= knob.most:
                fail("--max-contract", f"must be from {said(knob, knob.least)} to {said(knob, knob.most)}")
            source = source._replace(max_contract_s=longest_s)
            about = f"{about} The longest contract is {duration_text(longest_s)}."
        try:
            example = source.of(seeds[0], seeds[0])
            team = gaming.middle_team(example) if options["team"] is None else options["team"]
            if team not in {node.id for node in example.tree if node.parent == ROOT}:
                fail("--team", f"there is no team {team!r} below the root")
            gaming.with_twin(example, team, gaming.HONEST, max(demands))
        except ScenarioError as error:
            fail(options["file"] or "--gpus", str(error))
        strategies = (gaming.HONEST, *gaming.STRATEGIES)
        runs = [
            GamingRun(seed, demand, strategy, options["team"])
            for demand in demands
            for seed in seeds
            for strategy in strategies
        ]
        found = list(zip(runs, self._carry_out(runs, source, options), strict=True))
        by_demand = {
            demand: gaming.table([(run.seed, run.strategy, each) for run, each in found if run.demand == demand])
            for demand in demands
        }
        told = [
            {"demand": demand, "rows": [line | _said(line) for line in lines]} for demand, lines in by_demand.items()
        ]

        def print_all() -> None:
            for demand, lines in by_demand.items():
                self.stdout.write(f"\n{page.demand_title(demand)}:")
                self._print_table(page.GAMING_HEAD, page.gaming_rows(lines))
                for line in lines:
                    if line["strategy"] != gaming.HONEST.name:
                        self.stdout.write(f"  {line['strategy']}: {gaming.verdict(line)}")

        self._hand_out(
            options,
            {"study": "gaming", "about": about, "demands": told},
            page.gaming_page(about, by_demand),
            print_all,
        )

    # --- locality -----------------------------------------------------------------------------------------------------

    def _locality(self, source: Source, about: str, seeds: Sequence[int], options: Mapping[str, Any]) -> None:
        costs = options["spreading_cost"] != "no"
        about += " What is spread takes longer." if costs else " Spreading costs nothing."
        nodes_per = {level: each for level in relaxing.CLOSE if (each := options[f"nodes_per_{level}"]) is not None}
        for level, each in nodes_per.items():
            if each < 1:
                fail(f"--nodes-per-{level}", f"must be at least 1, but is {each}")
            about += f" {each:,} nodes to a {level}."
        source = source._replace(nodes_per=nodes_per)
        variants = relaxing.variants(source.of(seeds[0], seeds[0]))
        runs = [LocalityRun(seed, variant, costs) for variant in variants for seed in seeds]
        found = self._carry_out(runs, source, options)
        self._hand_out(
            options,
            relaxing.as_json(about, found),
            relaxing.locality_page(about, found),
            lambda: self._print_titled(relaxing.tables(found)),
        )

    # --- network ------------------------------------------------------------------------------------------------------

    def _network(self, seeds: Sequence[int], options: Mapping[str, Any]) -> None:
        _refuse(options, ("file", "days", "gpus"), "the network")
        minutes = DEFAULTS["network"]["minutes"] if options["minutes"] is None else options["minutes"]
        if not 1 <= minutes <= MOST_MINUTES:
            fail("--minutes", f"must be from 1 to {MOST_MINUTES}, but is {minutes}")
        runs: list[Run] = [NetworkRun(seed, minutes, mix) for mix in network.MIXES for seed in seeds]
        runs += [PairsRun(seed, min(minutes, network.PAIR_MINUTES)) for seed in seeds]
        found = self._carry_out(runs, Source(None), options)
        told = network_page.Told(
            f"24 servers of one GPU, two below each of 12 leaves, 50 Gbit/s, 2:1. Gangs come for {minutes} minutes; "
            f"{_seeds_text(seeds)}.",
            {mix: [each for each in found if each.get("mix") == mix] for mix in network.MIXES},
            [row for each in found for row in each.get("pairs", ())],
        )
        self._hand_out(
            options,
            told.as_json(),
            network_page.network_page(told),
            lambda: self._print_titled(network_page.tables(told)),
        )

    # --- sharing ------------------------------------------------------------------------------------------------------

    def _sharing(self, seeds: Sequence[int], options: Mapping[str, Any]) -> None:
        _refuse(options, ("file", "gpus"), "sharing")
        days = DEFAULTS["sharing"]["days"] if options["days"] is None else options["days"]
        if not 1 <= days <= MOST_DAYS:
            fail("--days", f"must be from 1 to {MOST_DAYS}, but is {days}")
        found = self._carry_out([SharingRun(seed, days) for seed in seeds], Source(None), options)
        about = (
            f"{sharing.NODES} nodes of {sharing.NODE_GPUS} GPUs, half for each of two tenants, over {days} days; "
            f"{_seeds_text(seeds)}."
        )
        self._hand_out(
            options,
            sharing_page.as_json(about, found),
            sharing_page.sharing_page(about, found),
            lambda: self._print_titled(sharing_page.tables(found)),
        )

    # --- packing ------------------------------------------------------------------------------------------------------

    def _packing(self, seeds: Sequence[int], options: Mapping[str, Any]) -> None:
        _refuse(options, ("file", "days", "gpus"), "packing")
        if options["trace"] is None:
            fail("--trace", f"is needed: a folder with {PODS} and {NODES}, such as of Alibaba's trace of 2023")
        pods = _pods(Path(options["trace"]))
        runs: list[Run] = [PackingRun(seed, rule) for rule in reversed(packing.RULES) for seed in seeds]
        *found, replayed = self._carry_out([*runs, ReplayRun()], Source(None, pods=pods), options)
        gpus = sum(left.whole for left in pods.nodes)
        about = (
            f"{len(pods.every):,} pods, drawn with replacement onto {len(pods.nodes):,} nodes with {gpus:,} GPUs, "
            f"their cores and memory; means over {_seeds_text(seeds)}."
        )

        def print_all() -> None:
            self._print_titled(packing_page.tables(found))
            self.stdout.write(f"\n{packing_page.replay_told(replayed)}")

        self._hand_out(
            options,
            packing_page.as_json(about, found, replayed),
            packing_page.packing_page(about, found, replayed),
            print_all,
        )

    def _print_titled(self, tables: Sequence[page.Table]) -> None:
        for table in tables:
            self.stdout.write(f"\n{table.title}:")
            self._print_table(table.head, table.rows)

    # --- telling ------------------------------------------------------------------------------------------------------

    def _hand_out(
        self, options: Mapping[str, Any], result: Mapping[str, Any], html: str, print_it: Callable[[], None]
    ) -> None:
        if options["html"] is not None:
            write_text(options["html"], html)
        if options["json"]:
            self.print_json(result)
        else:
            self.stdout.write(str(result["about"]))
            print_it()

    def _print_table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
        for first, *rest in [list(head), *rows]:
            cells = "".join(f"  {cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
            self.stdout.write(f"  {first:{widths[0]}}{cells}")


def _refuse(options: Mapping[str, Any], names: Sequence[str], study: str) -> None:
    """Nothing, if none of these was given.

    Raises:
        CommandError: it does not belong to that study.
    """
    for name in names:
        if options[name] is not None:
            fail("FILE" if name == "file" else f"--{name}", f"does not belong to the study of {study}")


def _pods(folder: Path) -> Pods:
    """The trace in a folder.

    Raises:
        CommandError: a list is missing, or names file, row and field at fault.
    """
    names = []
    for pattern in (PODS, NODES):
        found = sorted(folder.glob(pattern))
        if len(found) != 1:
            fail("--trace", f"{folder} must hold one file {pattern}, and holds {len(found)}")
        names.append(str(found[0]))
    every, ran = _read(names[0], alibaba.read_shapes)
    nodes = _read(names[1], alibaba.read_lefts)
    for name, number in ((names[0], sum(pod.size_milli > 0 for pod in every)), (names[1], len(nodes))):
        if not number:
            fail(name, "has none with GPUs")
    return Pods(nodes, every, ran)


def _read(name: str, reader: Callable[[str], Read]) -> Read:
    try:
        return reader(read_text(name))
    except TraceError as error:
        fail(name, str(error))


def _seeds_text(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"


def _said(line: Mapping[str, Any]) -> dict[str, str]:
    """The verdict on a strategy; nothing on being honest."""
    return {} if line["strategy"] == gaming.HONEST.name else {"verdict": gaming.verdict(line)}


def _demands(value: str) -> list[int]:
    """Whole numbers from 1 to MOST_DEMAND.

    Raises:
        CommandError: it is something else.
    """
    found: list[int] = []
    for part in value.split(","):
        if not (part.strip().isascii() and part.strip().isdigit() and 1 <= int(part) <= MOST_DEMAND):
            fail("--demand", f'must be numbers from 1 to {MOST_DEMAND} such as "1,3", but is "{value}"')
        if int(part) not in found:
            found.append(int(part))
    return found
