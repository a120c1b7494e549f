"""HiveD: what quotas cost a tenant that needs whole nodes, and what cells do, on the work of the study of sharing."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.simulator.lab.chance import Chance
from scheduler.simulator.study import sharing

from .told import Numbers, System, SystemRow, spread

DAYS = 28
"""As many as the study tells (docs/studies.md)."""
MINUTE_S = 60


def run(chance: Chance) -> Numbers:
    """One seed: how long the gangs wait in each way of sharing, and how much longer than apart, in minutes."""
    work = sharing.jobs(chance, DAYS)
    waits = {way: sharing.delays(work, sharing.room_of(way)) for way in sharing.WAYS}
    found: dict[str, float] = {}
    for way in sharing.WAYS:
        gangs = sharing.figures(work, waits[way], waits[sharing.APART])[sharing.GANGS]
        found[f"{way} mean"] = gangs["mean_s"] / MINUTE_S
        found[f"{way} longer"] = gangs["longer_most_s"] / MINUTE_S
    return found


def rows(found: Sequence[Numbers]) -> list[SystemRow]:
    """What was published, and what comes out."""
    most = f"up to {sharing.PUBLISHED_MIN:,} min"
    return [
        SystemRow(
            "a gang waits longer than in its tenant's own cluster, at most: by quotas, small work packed",
            most,
            spread(found, f"{sharing.PACKED} longer", minutes),
            remark="the worst of a month, which hangs on how long small work lasts; published of a trace on 2,232 GPUs",
        ),
        SystemRow(
            "the same by quotas, small work spread",
            most,
            spread(found, f"{sharing.SPREAD} longer", minutes),
            remark="nothing is preempted here, so that gangs hardly run while some GPU of each node is taken",
        ),
        SystemRow(
            "the same by cells",
            "none",
            spread(found, f"{sharing.CELLS} longer", minutes),
            all(each[f"{sharing.CELLS} longer"] == 0 for each in found),
            "none in each seed",
            "job for job: each waits exactly as long as in a cluster of its tenant's own",
        ),
        SystemRow(
            "mean wait of gangs: by quotas, small work packed",
            "",
            spread(found, f"{sharing.PACKED} mean", minutes),
        ),
        SystemRow("the same by cells", "", spread(found, f"{sharing.CELLS} mean", minutes)),
    ]


def minutes(value: float) -> str:
    """Whole minutes."""
    return f"{value:,.0f} min"


HIVED = System("HiveD (Zhao et al., OSDI 2020)", 5, run, rows)
