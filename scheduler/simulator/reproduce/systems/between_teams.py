"""Orders among tenants whose published results are worked examples: Hadoop's fair shares, and dominant resources."""

from __future__ import annotations

import json
from collections.abc import Sequence

from scheduler.engine import Portion, fair_shares
from scheduler.simulator.scenario import parse
from scheduler.simulator.world import order_at

from .told import Numbers, System, SystemRow, nothing

HADOOP: Sequence[tuple[str, int, Sequence[Portion], Sequence[int]]] = (
    ("maxima 100, 50, 11, 3", 40, [Portion(1, 0, most) for most in (100, 50, 11, 3)], (13, 13, 11, 3)),
    ("minima 20, 18, 0, 2", 40, [Portion(1, least) for least in (20, 18, 0, 2)], (20, 18, 0, 2)),
    ("weights 2, 1, 1, 0.5", 45, [Portion(weight) for weight in (2, 1, 1, 0.5)], (20, 10, 10, 5)),
    (
        "these, and maxima 10, 11, 30, 20",
        45,
        [Portion(weight, 0, most) for weight, most in ((2, 10), (1, 11), (1, 30), (0.5, 20))],
        (10, 11, 16, 8),
    ),
    (
        "these, and minima 20, 0, 5, 15",
        45,
        [Portion(weight, least) for weight, least in ((2, 20), (1, 0), (1, 5), (0.5, 15))],
        (20, 5, 5, 15),
    ),
)
"""The values of Hadoop's own tests: what is split, among whom, and the shares."""
CORES, MEMORY_GIB = 9, 18
TASKS = {"A": (1, 4), "B": (3, 1)}
"""Of the paper's example: cores (which stand for the cluster's devices) and GB of a task of each user."""


def hadoop_rows(_: Sequence[Numbers]) -> list[SystemRow]:
    """Each table of shares."""
    found = []
    for words, total, portions, shares in HADOOP:
        published = ", ".join(map(str, shares))
        ours = ", ".join(map(str, fair_shares(total, portions)))
        found.append(SystemRow(f"shares of {total}: {words}", published, ours, ours == published, "the same"))
    return found


def dominant_rows(_: Sequence[Numbers]) -> list[SystemRow]:
    """The paper's two users, simulated: how many tasks of each run, and what they dominate."""
    workloads = [
        {
            "id": f"{leaf}{number}",
            "leaf": leaf,
            "submit": 0,
            "gpus": cores,
            "memory_gib": gib,
            "min_runtime": "1h",
            "duration": "1h",
        }
        for leaf, (cores, gib) in TASKS.items()
        for number in range(CORES)
    ]
    file = {
        "cluster": {"nodes": {"all": CORES}, "memory_gib": MEMORY_GIB},
        "tree": dict.fromkeys(TASKS, 1),
        "policy": {"tree_order": "drf"},
        "workloads": workloads,
    }
    snapshot = order_at(parse(json.dumps(file)), 60)[1]
    run = [sum(name.startswith(leaf) for name in snapshot.runs) for leaf in TASKS]
    shares = [snapshot.tree.figures(60)[leaf].standing["dominant_share"] for leaf in TASKS]
    ours = f"A {run[0]}, B {run[1]}"
    parts = ", ".join(f"{part}/{whole}" for part, whole in shares)
    return [
        SystemRow("tasks of two users on 9 cores and 18 GB", "A 3, B 2", ours, ours == "A 3, B 2", "the same"),
        SystemRow("their dominant shares", "2/3, 2/3", parts, parts == "2/3, 2/3", "the same"),
    ]


YARN = System("Hadoop's Fair Scheduler (its own tests)", 0, nothing, hadoop_rows)
DRF = System("Dominant Resource Fairness (Ghodsi et al., NSDI 2011)", 0, nothing, dominant_rows)
