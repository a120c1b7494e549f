"""An invented research laboratory as a scenario: teams, researchers as closed loops, an unfriendly world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .assumptions import Assumptions
from .chance import Chance
from .faults import faults
from .kinds import GPUS_PER_NODE
from .loops import Laboratory
from .teams import DAY_S, teams

__all__ = ["Assumptions", "Invented", "check_size", "invent", "research_lab"]

NODES_PER_RACK = 16
MOST_DAYS = 366
LEAST_GPUS = 64
MOST_GPUS = 100_000


@dataclass(frozen=True, slots=True)
class Invented:
    """A laboratory: the scenario file's object, and what the file does not say.

    Attributes:
        scenario: as scenario-format.md has it.
        bursty: the budget nodes of the teams that ask for much now and then, and for next to nothing else.
    """

    scenario: dict[str, Any]
    bursty: tuple[str, ...]


def invent(chance: Chance, *, seed: int, days: int, gpus: int, assume: Assumptions | None = None) -> Invented:
    """A laboratory.

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
    scenario = {
        "name": f"research lab, seed {seed}, {days} days, {gpus} GPUs",
        "cluster": {"nodes": nodes, "gpus_per_node": GPUS_PER_NODE, "nodes_per_rack": NODES_PER_RACK},
        "tree": tree,
        "policy": {"scheduler": "contracts", "grace_s": 60, "pass_every_s": 60},
        "workloads": Laboratory(chance, assume, days=days, gpus=gpus, teams=everybody).workloads(),
        "events": faults(chance, assume, nodes=nodes, days=days),
        "until": days * DAY_S,
    }
    return Invented(scenario, tuple(team.name for team in everybody if team.is_bursty))


def check_size(*, days: int, gpus: int) -> tuple[str, str] | None:
    """What is wrong with a laboratory's size: the option at fault and what it must be, or None."""
    if not 1 <= days <= MOST_DAYS:
        return "--days", f"must be from 1 to {MOST_DAYS}, but is {days}"
    if gpus % GPUS_PER_NODE or not LEAST_GPUS <= gpus <= MOST_GPUS:
        return "--gpus", f"must be a multiple of {GPUS_PER_NODE} from {LEAST_GPUS} to {MOST_GPUS:,}, but is {gpus:,}"
    return None


def research_lab(chance: Chance, *, seed: int, days: int, gpus: int) -> dict[str, Any]:
    """The scenario file's object of a laboratory."""
    return invent(chance, seed=seed, days=days, gpus=gpus).scenario
