"""CASSINI: placements and time shifts on a shared network, on its testbed as a fluid (`manage.py study network`)."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.simulator.lab.chance import Chance
from scheduler.simulator.study import network

from .told import Numbers, System, SystemRow, medians, spread, times

MINUTES = 10
PAIR_MINUTES = 1
LEAST_EXCESS_GAIN = 5.0
"""Of pairs that are fully compatible: a sixth of what was published, and far from what luck gives."""


def run(chance: Chance) -> Numbers:
    """One seed: how many times better than what."""

    def same(_: str) -> Chance:
        return chance

    found = network.run(0, MINUTES, network.IN_STEP, same)
    pairs = [row for row in network.pairs(0, PAIR_MINUTES, same) if row["score"] == 1]
    ours = found["ways"][network.Way("first free", "shifted").name]
    numbers: dict[str, float] = {}
    for against in (network.Way("first free", "own"), network.Way("random", "own")):
        other = found["ways"][against.name]
        numbers[f"mean, {against.host}"] = other["completion_mean_s"] / ours["completion_mean_s"]
        numbers[f"tail, {against.host}"] = other["completion_p95_s"] / ours["completion_p95_s"]
    for name, figure in (("excess", "excess_gbit"), ("iterations", "slowdown")):
        before, after = (sum(row[shifts][figure] for row in pairs) for shifts in ("unshifted", "shifted"))
        numbers[f"{name}, pairs"] = before / after
    return numbers


def rows(found: Sequence[Numbers]) -> list[SystemRow]:
    """What was published, and what comes out."""
    up_to = {name: f"up to {value:g}x" for name, value in network.PUBLISHED.items()}
    middle = medians(found)
    return [
        SystemRow(
            "completion, mean, against a host that takes the first free servers",
            up_to["mean"],
            spread(found, "mean, first free", times),
            remark="profiles are ours and not measured; two gangs at most share a link here, and nothing that runs is "
            "moved",
        ),
        SystemRow(
            "the same, 95th percentile",
            up_to["tail"],
            spread(found, "tail, first free", times),
            remark="where hardly any gangs are fully compatible, shifts do not last, and the slowest stay as slow",
        ),
        SystemRow("completion, mean, against random places", "", spread(found, "mean, random", times)),
        SystemRow("the same, 95th percentile", "", spread(found, "tail, random", times)),
        SystemRow(
            "asked of a link beyond what it carries, two with score 1, no shifts",
            f"{up_to['excess']} fewer ECN marks",
            spread(found, "excess, pairs", times),
            middle["excess, pairs"] >= LEAST_EXCESS_GAIN,
            f"at least {times(LEAST_EXCESS_GAIN)}",
            "nothing here marks packets: the excess stands for marks",
        ),
        SystemRow("the same: iterations", "", spread(found, "iterations, pairs", times)),
    ]


CASSINI = System("CASSINI (Rajasekaran et al., NSDI 2024)", 3, run, rows)
