"""An invented research laboratory as a scenario: teams, researchers as closed loops, an unfriendly world."""

from __future__ import annotations

from typing import Any

from .assumptions import Assumptions
from .chance import Chance
from .faults import faults
from .kinds import GPUS_PER_NODE
from .loops import Laboratory
from .teams import DAY_S, teams

__all__ = ["GPUS_PER_NODE", "Assumptions", "research_lab"]

NODES_PER_RACK = 16


def research_lab(
    chance: Chance, *, seed: int, days: int, gpus: int, assume: Assumptions | None = None
) -> dict[str, Any]:
    """A scenario file's object.

    Args:
        chance: where every choice comes from.
        seed: what `chance` was seeded with, for the name.
        days: how long it lasts.
        gpus: of the cluster, a multiple of 8 and at least 64.
        assume: what is assumed (default: as documented in `Assumptions`).
    """
    assume = Assumptions() if assume is None else assume
    nodes = gpus // GPUS_PER_NODE
    everybody = teams(chance, assume, days=days, gpus=gpus)
    tree = {
        team.name: {"shares": team.shares, "cap_gpus": team.cap_gpus, "children": dict.fromkeys(team.people, 1)}
        for team in everybody
    }
    return {
        "name": f"research lab, seed {seed}, {days} days, {gpus} GPUs",
        "cluster": {"nodes": nodes, "gpus_per_node": GPUS_PER_NODE, "nodes_per_rack": NODES_PER_RACK},
        "tree": tree,
        "policy": {"scheduler": "contracts", "grace_s": 60, "pass_every_s": 60},
        "workloads": Laboratory(chance, assume, days=days, gpus=gpus, teams=everybody).workloads(),
        "events": faults(chance, assume, nodes=nodes, days=days),
        "until": days * DAY_S,
    }
