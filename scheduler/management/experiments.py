"""Experiments on all cores, in whatever order they end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from scheduler.management import cores
from scheduler.simulator.reproduce import Experiment, Figures, carry_out
from scheduler.simulator.reproduce.systems import SYSTEMS, Numbers


class SystemRun(NamedTuple):
    """One seed of a published system, which is one of `SYSTEMS`."""

    name: str
    seed: int


def carry_out_all(experiments: Sequence[Experiment], on_done: Callable[[Experiment, int], None]) -> list[Figures]:
    """The figures of each, in the order asked.

    Args:
        experiments: what is simulated.
        on_done: told each that has ended, and how many have.
    """
    return cores.carry_out(_carry_out, None, experiments, on_done)


def _carry_out(_: None, experiment: Experiment) -> Figures:
    return carry_out(experiment, random.Random(experiment.seed))


def carry_out_systems(runs: Sequence[SystemRun], on_done: Callable[[SystemRun, int], None]) -> list[Numbers]:
    """The numbers of each, in the order asked; `on_done` as for `carry_out_all`."""
    return cores.carry_out(_carry_out_system, None, runs, on_done)


def _carry_out_system(_: None, run: SystemRun) -> Numbers:
    return SYSTEMS[run.name].run(random.Random(run.seed))
