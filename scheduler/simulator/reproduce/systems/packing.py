"""Fractions of GPUs: what sharing saves, and how much of a full cluster is out of everybody's reach."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from scheduler.engine import DEVICE_MILLI
from scheduler.simulator.lab.chance import Chance
from scheduler.simulator.study import packing
from scheduler.simulator.study.packing import Left, Pod

from .told import Numbers, System, SystemRow, medians, percent, spread

NODES = 40
"""Of each of the two kinds: 8 GPUs with 96 cores, and 2 with 64."""
PODS = 2_000
FRACTIONS = ((100, 2), (250, 3), (333, 2), (500, 3), (800, 1))
"""Thousandths of a GPU, and how often: ours, as no published list may be copied."""
WHOLE = ((1_000, 16), (2_000, 2), (8_000, 1))
PART_OF_FRACTIONS = 0.8
"""Of the pods. Most instances in PAI ask for less than one GPU."""
CORES = (2, 4, 8, 12)
AGAINST = ("first fit", "best fit", "worst fit")
PUBLISHED_LESS = 0.49
"""By how much less is left, at most, where placement goes by fragmentation (ATC'23; from memory)."""


def run(chance: Chance) -> Numbers:
    """One seed: the same draws under each rule."""
    nodes = [Left(96_000, 768 * 1_024, 8)] * NODES + [Left(64_000, 256 * 1_024, 2)] * NODES
    pods = [_pod(chance) for _ in range(PODS)]
    drawn = [chance.choice(pods) for _ in range(PODS)]
    found: dict[str, float] = {}
    for name in (*AGAINST, packing.SHARED_FIRST, packing.LEAST_STRANDED):
        filled = packing.fill(nodes, pods, name, cycle(drawn).__next__)
        found[f"left {name}"] = 1 - filled["allocated"]
        found[f"saved {name}"] = filled["saved"]
    return found


def _pod(chance: Chance) -> Pod:
    is_part = chance.random() < PART_OF_FRACTIONS
    sizes, weights = zip(*(FRACTIONS if is_part else WHOLE), strict=True)
    size_milli = chance.choices(sizes, weights)[0]
    cores = chance.choice(CORES) * max(1, size_milli // DEVICE_MILLI)
    return Pod(cores * 1_000, cores * 4 * 1_024, size_milli)


def rows(found: Sequence[Numbers]) -> list[SystemRow]:
    """What was published, and what comes out."""
    middle = medians(found)
    least = middle[f"left {packing.LEAST_STRANDED}"]
    best = min(middle[f"left {name}"] for name in AGAINST)
    less = 1 - least / best if best else 0.0
    saved = f"saved {packing.SHARED_FIRST}"
    told = [
        SystemRow(
            "GPUs that sharing saves",
            percent(packing.PUBLISHED_SAVED),
            spread(found, saved, percent),
            middle[saved] > 0.3,
            "more than 30 %",
            "hangs on how many ask for less than one GPU: here invented, 4 of 5 pods; `study packing` on Alibaba's "
            "trace of 2023, where most pods ask for a whole GPU, tells far less",
        ),
        SystemRow(
            "GPUs left over at a demand of 100 %, less by going by fragmentation than by the best other rule",
            f"up to {percent(PUBLISHED_LESS)}",
            percent(less),
            remark="what no rule can fill, such as the rest beside a pod of 0.8 GPU, is left under each; the published "
            "figure is the best of several traces, from memory",
        ),
    ]
    for name in (*AGAINST, packing.SHARED_FIRST, packing.LEAST_STRANDED):
        told.append(SystemRow(f"left over under {name}", "", spread(found, f"left {name}", percent)))
    return told


PACKING = System("Sharing GPUs (PAI, NSDI'22) and fragmentation (ATC'23)", 3, run, rows)
