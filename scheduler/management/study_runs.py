"""The runs of a study, spread over this machine's cores."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from scheduler.management import cores
from scheduler.simulator import Scenario, parse
from scheduler.simulator.lab import research_lab
from scheduler.simulator.placements import with_topology
from scheduler.simulator.study import fragmentation, gaming, network, packing, relaxing, sharing_engine
from scheduler.simulator.study.strategies import Strategy
from scheduler.simulator.variants import jittered, with_policy


class Source(NamedTuple):
    """Where scenarios come from: a file's, or invented laboratories of `days` and `gpus`.

    `restart_cost_s` is what every restart repeats, and `max_contract_s` the longest contract; None: as the scenario
    has it. `pods` are a trace's, for the study of packing. `nodes_per` says how many nodes a rack, rail or leaf has.
    """

    scenario: Scenario | None
    days: int = 0
    gpus: int = 0
    restart_cost_s: int | None = None
    max_contract_s: int | None = None
    pods: Pods | None = None
    nodes_per: Mapping[str, int] = {}

    def of(self, seed: int, first_seed: int) -> Scenario:
        """The scenario of a seed. A file's own comes with the first one, and a little differently with each other.

        Raises:
            ScenarioError: the longest contract is out of its bounds.
        """
        if self.scenario is None:
            lab = research_lab(random.Random(seed), seed=seed, days=self.days, gpus=self.gpus)
            found = parse(json.dumps(lab))
        else:
            found = self.scenario if seed == first_seed else jittered(self.scenario, random.Random(seed))
        if self.restart_cost_s is not None:
            found = replace(found, jobs=[replace(job, restart_cost_s=self.restart_cost_s) for job in found.jobs])
        if self.max_contract_s is not None:
            found = with_policy(found, {"min_runtime_max_s": self.max_contract_s})
        return with_topology(found, self.nodes_per) if self.nodes_per else found


class FragmentationRun(NamedTuple):
    """One run of the fragmentation study."""

    seed: int
    variant: fragmentation.Variant

    def carry_out(self, source: Source, first_seed: int) -> dict[str, Any]:
        """Its figures."""
        return fragmentation.run(source.of(self.seed, first_seed), self.variant)


class GamingRun(NamedTuple):
    """One run of the gaming study. `team` is None for the middle one."""

    seed: int
    demand: int
    strategy: Strategy
    team: str | None

    def carry_out(self, source: Source, first_seed: int) -> dict[str, Any]:
        """Its figures."""
        scenario = source.of(self.seed, first_seed)
        team = gaming.middle_team(scenario) if self.team is None else self.team
        return gaming.play(scenario, team, self.strategy, self.demand)


class NetworkRun(NamedTuple):
    """The same gangs in each way of placing them on the network."""

    seed: int
    minutes: int
    mix: str

    def carry_out(self, source: Source, first_seed: int) -> dict[str, Any]:
        """Its figures. Gangs are drawn by the seed alone."""
        return network.run(self.seed, self.minutes, self.mix, random.Random)


class PairsRun(NamedTuple):
    """Every two models on one link."""

    seed: int
    minutes: int

    def carry_out(self, source: Source, first_seed: int) -> dict[str, Any]:
        """Its figures."""
        return {"pairs": network.pairs(self.seed, self.minutes, random.Random)}


class SharingRun(NamedTuple):
    """The same jobs of two tenants in each way of sharing."""

    seed: int
    days: int

    def carry_out(self, source: Source, first_seed: int) -> dict[str, Any]:
        """Its figures. Jobs are drawn by the seed alone."""
        return sharing_engine.run(self.seed, self.days, random.Random)


class Pods(NamedTuple):
    """A trace of pods, all of them and those that ran, and its nodes."""

    nodes: Sequence[packing.Left]
    every: Sequence[packing.Pod]
    ran: Sequence[packing.Pod]


class PackingRun(NamedTuple):
    """Pods of a trace fill its nodes by one rule."""

    seed: int
    rule: str

    def carry_out(self, source: Source, first_seed: int) -> dict[str, Any]:
        """Its figures."""
        assert source.pods is not None
        pods = source.pods.every
        found = packing.fill(source.pods.nodes, pods, self.rule, partial(random.Random(self.seed).choice, pods))
        return {"seed": self.seed, **found}


class ReplayRun(NamedTuple):
    """The same pods when they really came."""

    def carry_out(self, source: Source, first_seed: int) -> dict[str, Any]:
        """Its figures."""
        assert source.pods is not None
        return packing.replay(source.pods.nodes, source.pods.ran)


class LocalityRun(NamedTuple):
    """One run of the study of locality."""

    seed: int
    variant: relaxing.Variant
    spreading_cost: bool

    def carry_out(self, source: Source, first_seed: int) -> dict[str, Any]:
        """Its figures."""
        scenario = source.of(self.seed, first_seed)
        found = relaxing.run(scenario, self.variant, spreading_cost=self.spreading_cost)
        return {"seed": self.seed, **found}


Run = FragmentationRun | GamingRun | LocalityRun | NetworkRun | PairsRun | SharingRun | PackingRun | ReplayRun


def carry_out_all(
    runs: Sequence[Run], source: Source, processes: int | None, on_done: Callable[[int, int], None]
) -> list[dict[str, Any]]:
    """The figures of each run, in the order asked.

    Args:
        runs: what is simulated.
        source: where the scenarios come from.
        processes: how many at a time; None: one a core.
        on_done: told how many have ended, of how many.

    Raises:
        ScenarioError: of a run whose scenario can't be varied so.
    """

    def say(_: Run, done: int) -> None:
        on_done(done, len(runs))

    return cores.carry_out(_carry_out, (source, getattr(runs[0], "seed", 0)), runs, say, processes)


def _carry_out(given: tuple[Source, int], run: Run) -> dict[str, Any]:
    return run.carry_out(*given)
