"""Experiments on all cores: one process each, in whatever order they end."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from scheduler.simulator.reproduce import Experiment, Figures, carry_out


def carry_out_all(experiments: Sequence[Experiment], on_done: Callable[[Experiment, int], None]) -> list[Figures]:
    """The figures of each, in the order asked.

    Args:
        experiments: what is simulated.
        on_done: told each that has ended, and how many have.
    """
    with ProcessPoolExecutor(max_workers=min(len(experiments), os.cpu_count() or 1)) as pool:
        futures = {pool.submit(_carry_out, each): each for each in experiments}
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                on_done(futures[future], done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return [future.result() for future in futures]


def _carry_out(experiment: Experiment) -> Figures:
    return carry_out(experiment, random.Random(experiment.seed))
