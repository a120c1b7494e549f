"""Nodes that fail, and are repaired."""

from __future__ import annotations

from typing import Any

from .assumptions import Assumptions
from .chance import Chance
from .kinds import HOUR_S
from .teams import DAY_S

CAN_BE_DRAINED = 0.7
"""The part of the faults after which what runs on the node may go on for now; else it is down at once."""


def faults(chance: Chance, assume: Assumptions, *, nodes: int, days: int) -> list[dict[str, Any]]:
    """Events, in the order of time: a node becomes unhealthy or is down at once, and is healthy again."""
    events: list[dict[str, Any]] = []
    width = max(3, len(str(nodes)))
    between_s = assume.fault_days * DAY_S
    for index in range(1, nodes + 1):
        name = f"n{index:0{width}d}"
        at_s = round(chance.expovariate(1 / between_s))
        while at_s < days * DAY_S:
            events.append({"at": at_s, "node": name, "health": _how(chance)})
            at_s += round(chance.uniform(assume.repair_least_h, assume.repair_most_h) * HOUR_S)
            events.append({"at": at_s, "node": name, "health": "healthy"})
            at_s += round(chance.expovariate(1 / between_s))
    return sorted(events, key=lambda event: (event["at"], event["node"]))


def _how(chance: Chance) -> str:
    return "unhealthy" if chance.random() < CAN_BE_DRAINED else "down"
