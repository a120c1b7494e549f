"""How long an ordinary pass takes on a full cluster: snapshot built, decided, every waiting workload explained.

    .venv/bin/python -m benchmarks.live_pass [NODES QUEUED]

Default: 512 nodes of 8 GPUs, about 4,000 running, 5,000 queued, 15 teams of 10 leaves. Prints one line of JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import replace
from typing import Any

from scheduler.engine import (
    Action,
    BudgetNode,
    Claim,
    LeafUse,
    Node,
    Plan,
    Policy,
    Reservation,
    Run,
    Snapshot,
    Workload,
    decide,
)

GPUS_PER_NODE = 8
TEAMS = 15
LEAVES_PER_TEAM = 10
NOW_S = 10_000_000
SEED = 1
REPEATS = 5


def tree() -> tuple[list[BudgetNode], list[str]]:
    """Fifteen teams of ten equal leaves."""
    rows = [BudgetNode("", None, 1, 1)]
    leaves = []
    whole = sum(range(1, TEAMS + 1))
    for team in range(1, TEAMS + 1):
        rows.append(BudgetNode(f"t{team}", "", team, whole))
        for leaf in range(LEAVES_PER_TEAM):
            name = f"t{team}l{leaf}"
            leaves.append(name)
            rows.append(BudgetNode(name, f"t{team}", 1, LEAVES_PER_TEAM))
    return rows, leaves


def running(chance: random.Random, nodes: int, leaves: list[str]) -> list[Run]:
    """Nodes full of single GPUs, half nodes and whole nodes; a fifth unallocated, half of the contracts over."""
    runs: list[Run] = []
    for node in range(nodes):
        left = GPUS_PER_NODE
        while left:
            gpus = min(left, chance.choice((1, 1, 1, 1, 1, 1, 2, 4)))
            left -= gpus
            started_s = NOW_S - chance.randint(0, 14_400)
            runs.append(
                Run(
                    id=f"r{len(runs)}/1",
                    workload=f"r{len(runs)}",
                    leaf=chance.choice(leaves),
                    holdings={f"n{node:05d}": gpus * 1_000},
                    funded=chance.random() < 0.8,
                    min_runtime_s=7_200,
                    started_s=started_s,
                    running_s=started_s,
                )
            )
    return runs


def main() -> None:
    """Build, decide, print."""
    nodes, queued = (int(value) for value in sys.argv[1:3]) if len(sys.argv) > 2 else (512, 5_000)
    chance = random.Random(SEED)
    rows, leaves = tree()
    runs = running(chance, nodes, leaves)
    queue = [
        Workload(
            id=f"w{index}",
            leaf=chance.choice(leaves),
            size_milli=chance.choice((1, 1, 2, 4, 8, 16, 64)) * 1_000,
            min_runtime_s=chance.choice((0, 900, 3_600, 14_400)),
            submitted_s=NOW_S - chance.randint(0, 100_000),
            priority=chance.choice((0, 0, 0, 1)),
        )
        for index in range(queued)
    ]
    use = {leaf: LeafUse(chance.randint(0, 10**12), chance.randint(0, 10**11)) for leaf in leaves}
    hosts = [Node(f"n{index:05d}", GPUS_PER_NODE * 1_000, f"r{index // 16}") for index in range(nodes)]
    parts = {"now_s": NOW_S, "tree": rows, "use": use, "nodes": hosts, "queue": queue}
    first = decide(Snapshot.build(runs=runs, **parts), Policy())
    parts.update(after(first, runs))  # what it took is taken: an ordinary pass finds little more to do
    built_s: list[float] = []
    decided_s: list[float] = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        snapshot = Snapshot.build(**parts)
        built = time.perf_counter()
        plan = decide(snapshot, Policy())
        decided_s.append(time.perf_counter() - built)
        built_s.append(built - began)
    actions: dict[str, int] = {}
    for decision in plan.decisions:
        actions[decision.action] = actions.get(decision.action, 0) + 1
    figures = {
        "nodes": nodes,
        "running": len(runs),
        "queued": queued,
        "build_ms": round(1_000 * min(built_s)),
        "decide_ms": round(1_000 * min(decided_s)),
        "decisions": actions,
    }
    print(json.dumps(figures))


def after(plan: Plan, runs: list[Run]) -> dict[str, Any]:
    """The runs, claims and reservations that a plan leaves behind, before anyone has left."""
    told = {decision.run for decision in plan.decisions if decision.action is Action.PREEMPT}
    claims = [
        Claim(each.workload, each.holdings, tuple(each.reason.numbers["waits_for"]), NOW_S)
        for each in plan.decisions
        if each.action is Action.CLAIM
    ]
    reservations = [
        Reservation(each.workload, each.reason.numbers["at_s"], each.holdings, (), NOW_S)
        for each in plan.decisions
        if each.action is Action.RESERVE
    ]
    leaving = [replace(run, leave_by_s=NOW_S + 60) if run.id in told else run for run in runs]
    return {"runs": leaving, "claims": claims, "reservations": reservations}


if __name__ == "__main__":
    main()
