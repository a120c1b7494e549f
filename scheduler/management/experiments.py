"""Experiments on all cores, in whatever order they end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from scheduler.management import cores
from scheduler.simulator.reproduce import Experiment, Figures, carry_out


def carry_out_all(experiments: Sequence[Experiment], on_done: Callable[[Experiment, int], None]) -> list[Figures]:
    """The figures of each, in the order asked.

    Args:
        experiments: what is simulated.
        on_done: told each that has ended, and how many have.
    """
    return cores.carry_out(_carry_out, None, experiments, on_done)


def _carry_out(_: None, experiment: Experiment) -> Figures:
    return carry_out(experiment, random.Random(experiment.seed))
