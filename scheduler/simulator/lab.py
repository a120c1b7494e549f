"""An invented research laboratory as a scenario: teams, researchers as closed loops, an unfriendly world.

Chance comes in as an argument, so that a seed says everything. What is invented models what was published:

- fifteen teams of very different shares, up to ten researchers each; a researcher has a few workloads open and submits
  the next some time after one ends, so that long waits slow demand down instead of piling it up;
- teams have busy and quiet spells of days;
- debug runs (a contract of at most 15 min), interactive sessions, medium gangs of some nodes, and large gangs of up to
  half the cluster; what a team wants beyond its entitlement is mostly submitted unallocated;
- start-up takes 30 to 120 s, leaving 5 to 60 s, a restart repeats 10 min of work, and every node fails once in 60 days.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

GPUS_PER_NODE = 8
NODES_PER_RACK = 16
TEAMS = 15
MOST_RESEARCHERS_PER_TEAM = 10
GPUS_PER_RESEARCHER = 7  # of the cluster, so that a small one has fewer of them
HOUR_S = 3_600
DAY_S = 86_400
RESTART_COST_S = 600
DAYS_BETWEEN_FAULTS = 60  # of one node


class Chance(Protocol):
    """The part of `random.Random` that is used; the caller seeds it."""

    def random(self) -> float:
        """Uniform in [0, 1)."""

    def uniform(self, a: float, b: float) -> float:
        """Uniform in [a, b]."""

    def randint(self, a: int, b: int) -> int:
        """A whole number in [a, b]."""

    def lognormvariate(self, mu: float, sigma: float) -> float:
        """Log-normal with that mean and deviation of the logarithm."""

    def expovariate(self, lambd: float) -> float:
        """Exponential with that rate."""

    def choice(self, seq: Sequence[Any]) -> Any:
        """One of a sequence."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work. Times in seconds.

    Attributes:
        name: what it is called, and what its workloads' ids carry.
        sizes: GPUs it asks for, each as likely.
        contract: bounds of its contract; (0, 0) is unallocated.
        median_s, spread: of its duration, log-normal.
        longest_s: a bound of the duration.
        think_s: mean time from the end of one to the submission of the next.
    """

    name: str
    sizes: tuple[int, ...]
    contract: tuple[int, int]
    median_s: int
    spread: float
    longest_s: int
    think_s: int

    @property
    def mean_size(self) -> float:
        """GPUs of one on average."""
        return sum(self.sizes) / len(self.sizes)

    @property
    def open_part(self) -> float:
        """The part of its time that a loop of this kind has a workload open, if it never waits."""
        return self.median_s / (self.median_s + self.think_s)


DEBUG = Kind("debug", (1, 1, 2, 4, 8), (300, 900), 480, 0.7, 2_400, 5 * HOUR_S)
SESSION = Kind("session", (1, 1, 2), (HOUR_S, 2 * HOUR_S), 2 * HOUR_S, 0.5, 8 * HOUR_S, 10 * HOUR_S)
MEDIUM = Kind("medium", (4, 8, 8, 16, 16, 32), (HOUR_S, 4 * HOUR_S), 6 * HOUR_S, 0.8, 48 * HOUR_S, 2 * HOUR_S)
FREE = Kind("free", (1, 2, 4, 8, 8, 16), (0, 0), 5 * HOUR_S, 0.9, 36 * HOUR_S, HOUR_S)
FUNDED_DEMAND = 1.1
"""GPUs that a busy team's funded loops ask for, over its entitlement."""
TOTAL_DEMAND = 2.1
"""GPUs that all loops ask for while every team is busy, over the cluster's."""


def research_lab(chance: Chance, *, seed: int, days: int, gpus: int) -> dict[str, Any]:
    """A scenario file's object.

    Args:
        chance: where every choice comes from.
        seed: what `chance` was seeded with, for the name.
        days: how long it lasts.
        gpus: of the cluster, a multiple of 8 and at least 64.
    """
    nodes = gpus // GPUS_PER_NODE
    teams = _teams(chance)
    whole = sum(teams.values())
    workloads: list[dict[str, Any]] = []
    tree: dict[str, Any] = {}
    for team, shares in teams.items():
        entitled = gpus * shares / whole
        people = [f"{team}-p{index:02d}" for index in range(1, _people_per_team(gpus) + 1)]
        tree[team] = {"shares": shares, "cap_gpus": max(1, round(entitled)), "children": dict.fromkeys(people, 1)}
        for start_s, end_s in _busy_spells(chance, days):
            for number, (kind, person) in enumerate(_loops(chance, entitled, gpus, people)):
                loop = f"{person}-{kind.name}-{start_s // HOUR_S}-{number}"
                workloads += _loop(chance, kind, person, loop, start_s, end_s)
    return {
        "name": f"research lab, seed {seed}, {days} days, {gpus} GPUs",
        "cluster": {"nodes": nodes, "gpus_per_node": GPUS_PER_NODE, "nodes_per_rack": NODES_PER_RACK},
        "tree": tree,
        "policy": {"scheduler": "contracts", "grace_s": 60, "pass_every_s": 60},
        "workloads": workloads,
        "events": _faults(chance, nodes, days),
        "until": days * DAY_S,
    }


def _people_per_team(gpus: int) -> int:
    return min(MOST_RESEARCHERS_PER_TEAM, max(1, round(gpus / GPUS_PER_RESEARCHER / TEAMS)))


def _fitting(kind: Kind, gpus: int) -> Kind:
    """The same kind of work with gangs that are no more than a thirty-second of a small cluster."""
    return replace(kind, sizes=tuple(min(size, max(1, gpus // 32)) for size in kind.sizes))


def _teams(chance: Chance) -> dict[str, int]:
    """Teams with shares in basis points that add up to the whole; the largest has some ten times the smallest."""
    weights = [chance.lognormvariate(0.0, 0.7) + 0.2 for _ in range(TEAMS)]
    shares = [max(100, round(10_000 * weight / sum(weights))) for weight in weights]
    shares[0] += 10_000 - sum(shares)
    if shares[0] < 100:  # the roundings up were more than the first team had: take them from the largest
        shares[shares.index(max(shares))] -= 100 - shares[0]
        shares[0] = 100
    return {f"t{index:02d}": amount for index, amount in enumerate(shares, start=1)}


def _busy_spells(chance: Chance, days: int) -> list[tuple[int, int]]:
    """[from, until) of a team's busy spells: three to eight days, with half a day to two days between."""
    spells = []
    at_s = -round(chance.uniform(0, 3) * DAY_S)
    while at_s < days * DAY_S:
        end_s = at_s + round(chance.uniform(3, 8) * DAY_S)
        if end_s > 0:
            spells.append((max(0, at_s), min(end_s, days * DAY_S)))
        at_s = end_s + round(chance.uniform(0.5, 2) * DAY_S)
    return spells


def _loops(chance: Chance, entitled: float, gpus: int, people: Sequence[str]) -> list[tuple[Kind, str]]:
    """The closed loops of a busy team: everybody debugs, some have sessions, and gangs up to what the team wants."""
    debug, session, medium, unallocated = (_fitting(kind, gpus) for kind in (DEBUG, SESSION, MEDIUM, FREE))
    loops = [(debug, person) for person in people]
    loops += [(session, person) for person in people if chance.random() < 0.4]
    funded = sum(kind.mean_size * kind.open_part for kind, _ in loops)
    if entitled >= gpus / 20:
        large = _large(chance, entitled, gpus)
        loops.append((large, chance.choice(people)))
        funded += large.mean_size * large.open_part / 2  # it waits for its start, and little else does meanwhile
    while funded < FUNDED_DEMAND * entitled:
        loops.append((medium, chance.choice(people)))
        funded += medium.mean_size * medium.open_part
    free = 0.0
    while free < (TOTAL_DEMAND - FUNDED_DEMAND) * entitled:
        loops.append((unallocated, chance.choice(people)))
        free += unallocated.mean_size * unallocated.open_part
    return loops


def _large(chance: Chance, entitled: float, gpus: int) -> Kind:
    """Gangs of at least a sixteenth of the cluster, at most half of it, and about what the team is entitled to."""
    steps = (0.5, 0.75, 1.0, 1.5, 3.0)
    sizes = {min(max(round(entitled * step), gpus // 16), gpus // 2) for step in steps}
    whole = tuple(sorted(-(-size // GPUS_PER_NODE) * GPUS_PER_NODE for size in sizes))
    think_s = round(chance.uniform(8, 24) * HOUR_S)
    return Kind("large", whole, (2 * HOUR_S, 6 * HOUR_S), 8 * HOUR_S, 0.5, 36 * HOUR_S, think_s)


def _loop(chance: Chance, kind: Kind, person: str, loop: str, start_s: int, end_s: int) -> list[dict[str, Any]]:
    """One workload after the other, enough to fill a spell if none ever waits."""
    rows: list[dict[str, Any]] = []
    at_s = start_s + round(chance.uniform(0, 1) * min(kind.think_s + HOUR_S, (end_s - start_s) / 2))
    while at_s < end_s:
        row = _workload(chance, kind, person, f"{loop}-{len(rows)}")
        if rows:
            row["after"] = rows[-1]["id"]
            row["think"] = round(chance.expovariate(1 / kind.think_s))
            at_s += row["think"]
        else:
            row["submit"] = at_s
        at_s += row["duration"]
        rows.append(row)
    return rows


def _workload(chance: Chance, kind: Kind, person: str, name: str) -> dict[str, Any]:
    contract_s = 60 * round(chance.uniform(*kind.contract) / 60)
    duration_s = min(max(60, round(kind.median_s * chance.lognormvariate(0.0, kind.spread))), kind.longest_s)
    return {
        "id": name,
        "leaf": person,
        "gpus": chance.choice(kind.sizes),
        "min_runtime": contract_s,
        "duration": duration_s,
        "startup": chance.randint(30, 120),
        "exit_delay": chance.randint(5, 60),
        "restart_cost": RESTART_COST_S,
        "estimate": round(duration_s * chance.uniform(1.0, 3.0)),
        "protected": True,
        "level": "HIGH",
    }


def _faults(chance: Chance, nodes: int, days: int) -> list[dict[str, Any]]:
    """Every node fails now and then: mostly it can be drained, else it is dead at once; then it is repaired."""
    events: list[dict[str, Any]] = []
    width = max(3, len(str(nodes)))
    for index in range(1, nodes + 1):
        at_s = round(chance.expovariate(1 / (DAYS_BETWEEN_FAULTS * DAY_S)))
        while at_s < days * DAY_S:
            name = f"n{index:0{width}d}"
            events.append({"at": at_s, "node": name, "health": "unhealthy" if chance.random() < 0.7 else "down"})
            at_s += round(chance.uniform(9, 36) * HOUR_S)
            events.append({"at": at_s, "node": name, "health": "healthy"})
            at_s += round(chance.expovariate(1 / (DAYS_BETWEEN_FAULTS * DAY_S)))
    return sorted(events, key=lambda event: (event["at"], event["node"]))
