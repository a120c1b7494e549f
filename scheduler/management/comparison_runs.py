"""The runs of a comparison of policies over seeds, and where their work comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from django.core.management.base import CommandParser

from scheduler.management.files import fail, read_text
from scheduler.management.trace_mode import read_jobs
from scheduler.simulator import Scenario, ScenarioError, parse, policy_table
from scheduler.simulator.counted import CannotReplay, CountedJob
from scheduler.simulator.counting import COUNTING_SCHEDULERS, replay
from scheduler.simulator.intervals import Again
from scheduler.simulator.lab import check_size, research_lab
from scheduler.simulator.measures import Measures, measure_counted, measure_history
from scheduler.simulator.named_policies import EVERY, NamedPolicy, read_all
from scheduler.simulator.resampled import can_be_resampled_counted, resampled_counted
from scheduler.simulator.schedulers import counts_devices_alone
from scheduler.simulator.variants import with_more
from scheduler.traces.rows import LARGEST
from scheduler.traces.scenarios import GPUS_PER_NODE, on_plain_nodes

COUNT, NODES = "count", "nodes"
LAB_DAYS, LAB_GPUS = 4, 128
"""Of an invented laboratory, so that five seeds of three policies take about a minute on two cores."""
WORDS = {
    Again.INVENTED: "each seed is a laboratory of its own; means with 95 % intervals over them",
    Again.DRAWN: "from the second seed on its arrivals are drawn anew in blocks of six hours of the same time of day; "
    "the history itself, with 95 % intervals from the spread of the drawn ones",
    Again.MOVED: "from the second seed on its work comes a little differently (up to 10 min and a tenth of its "
    "duration); means with 95 % intervals over them, of luck alone",
    Again.ALONE: "one history, no intervals",
}


class Laboratories(NamedTuple):
    """Invented ones, a seed each."""

    days: int
    gpus: int

    def measures(self, policy: NamedPolicy, seed: int, first_seed: int) -> Measures:
        """One run."""
        lab = research_lab(Random(seed), seed=seed, days=self.days, gpus=self.gpus)
        return policy_table.run(parse(json.dumps(lab)), policy)


class OneScenario(NamedTuple):
    """A file, a trace on nodes or a stretch of history; other seeds are the same again."""

    scenario: Scenario
    again: Again

    def measures(self, policy: NamedPolicy, seed: int, first_seed: int) -> Measures:
        """One run."""
        chance = None if seed == first_seed else Random(seed)
        return policy_table.run(policy_table.again(self.scenario, self.again, chance), policy)


class CountedTrace(NamedTuple):
    """A trace on a plain number of GPUs, under a scheduler that counts them."""

    jobs: Sequence[CountedJob]
    capacity_milli: int
    again: Again

    def measures(self, policy: NamedPolicy, seed: int, first_seed: int) -> Measures:
        """One run."""
        jobs = self.jobs if seed == first_seed else resampled_counted(self.jobs, Random(seed))
        return measure_counted(jobs, replay(jobs, self.capacity_milli, policy.name), self.capacity_milli)


Work = Laboratories | OneScenario | CountedTrace


class Run(NamedTuple):
    """One policy on the work of one seed."""

    policy: NamedPolicy
    seed: int
    first_seed: int


def carry_out(work: Work, run: Run) -> Measures:
    """What it came to."""
    return work.measures(run.policy, run.seed, run.first_seed)


class Asked(NamedTuple):
    """What is compared: the work with its name, the policies, what the seeds are, and what really happened."""

    work: Work
    name: str
    policies: Sequence[NamedPolicy]
    again: Again
    real: Measures | None = None


def ignored(asked: Asked) -> list[str]:
    """A line for each policy that heeds less of the work than others do."""
    if not isinstance(asked.work, OneScenario):
        return []
    schedulers = [policy.knobs.get("scheduler", "") for policy in asked.policies]
    return [line for name in schedulers if (line := counts_devices_alone(asked.work.scenario, name))]


# --- the command line -------------------------------------------------------------------------------------------------


def add_options(parser: CommandParser) -> None:
    """Where the work comes from."""
    parser.add_argument("file", metavar="FILE", nargs="?", help='a scenario; "-" reads standard input')
    parser.add_argument("--cluster", metavar="NAME", help="its history instead")
    parser.add_argument("--from", dest="start", metavar="WHEN", help="with --cluster (default: 4 weeks before)")
    parser.add_argument("--until", metavar="WHEN", help="with --cluster (default: the last whole hour)")
    parser.add_argument("--trace", metavar="FILE", help="a trace instead: CSV, SWF or Alibaba's pods; needs --gpus")
    parser.add_argument(
        "--placement", choices=(NODES, COUNT), help="with --trace: on nodes of 8 GPUs (default), or GPUs only counted"
    )
    parser.add_argument("--days", type=int, metavar="D", help=f"of an invented laboratory (default {LAB_DAYS})")
    parser.add_argument("--gpus", type=int, metavar="G", help=f"of it (default {LAB_GPUS}), or for --trace")
    parser.add_argument("--add", metavar="FILE", help="lay the work in this file over a scenario or history")


def usual(options: Mapping[str, Any]) -> Sequence[str]:
    """The policies that are compared if nothing else is said."""
    return ("fifo", "tiresias") if options["placement"] == COUNT else ("contracts", "fifo-skip")


def read(options: Mapping[str, Any], names: Sequence[str], seeds: int) -> Asked:
    """What the command line asks for. Without a file, a cluster or a trace it is invented laboratories.

    Raises:
        CommandError: names the option, or file and key, at fault.
    """
    sources = [name for name in ("file", "cluster", "trace") if options[name] is not None]
    if len(sources) > 1:
        fail("FILE" if "file" in sources else "--cluster", f"or --{sources[-1]}: only one of both can be compared on")
    source = sources[0] if sources else "lab"
    for option, wanted in (
        ("start", ("cluster",)),
        ("until", ("cluster",)),
        ("placement", ("trace",)),
        ("days", ("lab",)),
        ("gpus", ("lab", "trace")),
        ("add", ("file", "cluster")),
    ):
        if options[option] is not None and source not in wanted:
            fail("--from" if option == "start" else f"--{option}", f"does not belong to {_called(source)}")
    if source == "trace" and options["placement"] == COUNT:
        return _counted(options, names, seeds)
    try:
        policies = read_all(names)
    except ScenarioError as error:
        fail("--policy", str(error))
    if source == "lab":
        return _laboratories(options, policies, seeds)
    real = None
    if source == "cluster":
        from scheduler.management.commands.scenario_from_history import read_stretch

        stretch = read_stretch(options["cluster"], options["start"], options["until"])
        scenario, real = stretch.scenario, measure_history(stretch.real)
    elif source == "trace":
        scenario = _trace_on_nodes(options["trace"], options["gpus"])
    else:
        scenario = _parsed(options["file"], read_text(options["file"]))
    if options["add"] is not None:
        try:
            scenario = with_more(scenario, read_text(options["add"]))
        except ScenarioError as error:
            fail(options["add"], str(error))
    _check(scenario, policies, seeds)
    again = policy_table.how_again(scenario, seeds)
    return Asked(OneScenario(scenario, again), scenario.name or options[source], policies, again, real)


def _called(source: str) -> str:
    return {
        "file": "a scenario",
        "cluster": "a cluster's history",
        "trace": "a trace",
        "lab": "invented laboratories, and no FILE, --cluster or --trace is given",
    }[source]


def _check(scenario: Scenario, policies: Sequence[NamedPolicy], seeds: int) -> None:
    try:
        policy_table.check_number(len(policies), seeds)
    except ScenarioError as error:
        fail(f"--{error.path}", error.message)
    try:
        policy_table.check(scenario, policies)
    except ScenarioError as error:
        fail("--policy", str(error))


def _parsed(name: str, content: str) -> Scenario:
    try:
        scenario = parse(content)
    except ScenarioError as error:
        fail(name, str(error))
    if not scenario.jobs:
        fail(name, "workloads: there are none")
    return scenario


def _laboratories(options: Mapping[str, Any], policies: Sequence[NamedPolicy], seeds: int) -> Asked:
    days = LAB_DAYS if options["days"] is None else options["days"]
    gpus = LAB_GPUS if options["gpus"] is None else options["gpus"]
    if (fault := check_size(days=days, gpus=gpus)) is not None:
        fail(*fault)
    smallest = parse(json.dumps(research_lab(Random(0), seed=0, days=1, gpus=64)))
    _check(smallest, policies, seeds)
    name = f"Invented laboratories of {gpus:,} GPUs over {days} {'day' if days == 1 else 'days'}"
    return Asked(Laboratories(days, gpus), name, policies, Again.ALONE if seeds == 1 else Again.INVENTED)


def _trace(name: str, gpus: int | None) -> tuple[list[CountedJob], int]:
    if gpus is None:
        fail("--gpus", "is missing: how many there are for the trace")
    if not 1 <= gpus <= LARGEST:
        fail("--gpus", f"must be from 1 to {LARGEST}, but is {gpus}")
    return read_jobs(name), gpus


def _trace_on_nodes(name: str, gpus: int | None) -> Scenario:
    jobs, gpus = _trace(name, gpus)
    if gpus % GPUS_PER_NODE:
        fail("--gpus", f"must be a multiple of {GPUS_PER_NODE} on nodes, but is {gpus}")
    return _parsed(name, json.dumps(on_plain_nodes(jobs, name=name, gpus=gpus)))


def _counted(options: Mapping[str, Any], names: Sequence[str], seeds: int) -> Asked:
    """Under schedulers that count GPUs; "all" are those that this trace says enough for."""
    jobs, gpus = _trace(options["trace"], options["gpus"])
    capacity_milli = gpus * 1_000
    chosen: list[str] = []
    for name in names:
        if name.strip() == EVERY:
            chosen += [each for each in COUNTING_SCHEDULERS if _fault(jobs, capacity_milli, each) is None]
        else:
            chosen.append(name.strip())
    for name in chosen:
        if name not in COUNTING_SCHEDULERS:
            known = ", ".join(COUNTING_SCHEDULERS)
            fail("--policy", f"must be one of {known} where GPUs are only counted, not {name!r}")
        if (fault := _fault(jobs, capacity_milli, name)) is not None:
            fail(options["trace"], fault)
    if len(set(chosen)) < len(chosen):
        fail("--policy", "one is there twice")
    try:
        policy_table.check_number(len(chosen), seeds)
    except ScenarioError as error:
        fail(f"--{error.path}", error.message)
    again = Again.ALONE if seeds == 1 else Again.DRAWN
    if seeds > 1 and not can_be_resampled_counted(jobs):
        fail("--seeds", "must be one: the trace is shorter than two days, so that nothing can be drawn anew")
    work = CountedTrace(jobs, capacity_milli, again)
    return Asked(work, f"{options['trace']} on {gpus:,} GPUs, counted", [NamedPolicy(name) for name in chosen], again)


def _fault(jobs: Sequence[CountedJob], capacity_milli: int, scheduler: str) -> str | None:
    """Why a trace can't be replayed so, told by those of its jobs that could be why."""
    suspects = {
        max(jobs, key=lambda job: job.size_milli),
        next((job for job in jobs if job.estimate_s is None), jobs[0]),
    }
    try:
        replay(list(suspects), capacity_milli, scheduler)
    except CannotReplay as error:
        return str(error)
    return None
