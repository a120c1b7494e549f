"""Themis: finish-time fairness by auction, against least attained service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.simulator.finish_times import rho
from scheduler.simulator.lab.chance import Chance
from scheduler.simulator.world import simulate

from .told import Numbers, System, SystemRow, medians, spread, times
from .work import contended, on_nodes

NODES = {f"n{number:02d}": 4 for number in range(1, 17)}
"""64 GPUs, as many as the testbed has, by four."""
UNDER: Mapping[str, Mapping[str, Any]] = {
    "auction": {"scheduler": "themis"},
    "order": {"leaf_order": "themis"},
    "attained": {"leaf_order": "tiresias"},
}
PUBLISHED_GAIN = 2.25


def run(chance: Chance) -> Numbers:
    """One seed: the worst rho under each."""
    jobs = contended(chance)
    found = {name: float(rho(simulate(on_nodes(jobs, NODES, policy)))["max"] or 0) for name, policy in UNDER.items()}
    return {**found, "gain": found["attained"] / found["auction"], "order gain": found["attained"] / found["order"]}


def rows(found: Sequence[Numbers]) -> list[SystemRow]:
    """What was published, and what comes out."""
    middle = medians(found)
    return [
        SystemRow(
            "the worst rho, by auction",
            "about 1.2",
            spread(found, "auction", times),
            remark="theirs is of elastic programs, and counts by the programs that contend; here gangs of fixed size "
            "that can't use more, counted by GPUs (as Shockwave's evaluation does), and the worst of 150",
        ),
        SystemRow("the worst rho, attained service", "", spread(found, "attained", times)),
        SystemRow(
            "fairer than attained service, by auction",
            f"more than {times(PUBLISHED_GAIN)}",
            spread(found, "gain", times),
            middle["gain"] >= PUBLISHED_GAIN,
            f"at least {times(PUBLISHED_GAIN)}",
            "rho worked out alike for both, after the fact",
        ),
        SystemRow(
            "more cluster-efficient, by auction",
            "5 to 250 %",
            "–",
            remark="in GPU time for the same work; here nobody takes time to start, to leave or where it is spread, so "
            "that it is the same under each",
        ),
        SystemRow(
            "fairer than attained service, as an order inside a project",
            "",
            spread(found, "order gain", times),
            remark="not fairer: it leases nothing, and takes over only from who has half the rho, so that it stops "
            "nearly nobody",
        ),
    ]


THEMIS = System("Themis (Mahajan et al., NSDI 2020)", 6, run, rows)
