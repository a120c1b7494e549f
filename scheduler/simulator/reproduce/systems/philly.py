"""Philly: what spreading a gang over servers costs in GPU-hours, by the engine where it has no other place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from scheduler.engine import locality
from scheduler.simulator.scenario import Scenario, parse
from scheduler.simulator.world import simulate

from .told import Numbers, System, SystemRow, nothing, percent, times

GANG_GPUS, NODE_GPUS, SERVERS = 16, 8, 8
"""The gang that was measured, and how many nodes of what size are there."""
HOURS = 10
"""What it takes on two servers. Work that holds the rest lasts as long as a contract may."""
HELD_HOURS = 8
RELAXED_HOURS = 2
"""After so long it may go anywhere."""
NEAR = 0.01


def _gpu_h(servers: int) -> float:
    """GPU-hours of the gang where so much is free on each node that it has to be over so many of them."""
    outcome = simulate(_crowded(servers))
    (gang,) = [each for each in outcome.runs if each.job.job.id == "gang"]
    assert len(gang.holdings) == servers, "the work that holds the rest leaves it nothing else"
    return gang.held_milli_s(outcome.end_s) / 1_000 / 3_600


def _crowded(servers: int) -> Scenario:
    free = GANG_GPUS // servers
    names = [f"h{number}" for number in range(servers)]
    held: list[dict[str, Any]] = [
        {"id": name, "leaf": "A", "submit": 0, "gpus": NODE_GPUS - free, "node": name,
         "min_runtime": f"{HELD_HOURS}h", "duration": f"{HELD_HOURS}h"}
        for name in names
        if free < NODE_GPUS
    ]  # fmt: skip
    gang = {"id": "gang", "leaf": "B", "submit": 60, "gpus": GANG_GPUS, "duration": f"{HOURS}h", "locality": 3}
    return parse(
        json.dumps(
            {
                "cluster": {"nodes": dict.fromkeys(names, NODE_GPUS)},
                "tree": {"A": 1, "B": 1},
                "policy": {"locality_waits_s": [0, 0, f"{RELAXED_HOURS}h"]},
                "workloads": [*held, gang],
            }
        )
    )


def rows(found: Sequence[Numbers]) -> list[SystemRow]:
    """What was published, and what comes out."""
    gpu_h = {servers: _gpu_h(servers) for servers in (2, 4, SERVERS)}
    told = [
        (f"GPU-hours of the same gang of {GANG_GPUS} on {SERVERS} servers, against 2", SERVERS),
        ("on 4 servers (published: from memory)", 4),
    ]
    lines = []
    for figure, servers in told:
        published, ours = locality.price(2, servers), gpu_h[servers] / gpu_h[2]
        is_near = abs(ours / published - 1) < NEAR
        lines.append(SystemRow(figure, times(published), times(ours), is_near, "within 1 %"))
    worth = locality.wait_worth_s(2, SERVERS, HOURS * 3_600) / (HOURS * 3_600)
    remark = "by the published utilization (43.66, 40.94 and 28.56 %): what is spread runs as much longer"
    what = "what waiting for 2 servers is worth, of the time that it takes there"
    return [*lines, SystemRow(what, percent(locality.price(2, SERVERS) - 1), percent(worth), remark=remark)]


PHILLY = System("Locality (Philly, ATC'19)", 0, nothing, rows)
