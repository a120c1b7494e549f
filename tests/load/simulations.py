"""Stored simulations: forty small ones, and one of a month of a thousand GPUs under two policies."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime
from random import Random
from typing import Any

from scheduler.models import Simulation, SimulationPart
from scheduler.queries import overviews
from scheduler.simulator import parse, simulate
from scheduler.simulator.comparison import figures
from scheduler.simulator.recorded import FORMAT
from tests.load.people import House

SMALL, LARGE_RUNS, NODES, DEVICES, MONTH_S = 40, 50_000, 128, 8, 30 * 86_400
FILE: dict[str, Any] = {
    "name": "small",
    "cluster": {"nodes": {"h1": 8}},
    "tree": {"A": 1, "B": 1},
    "workloads": [
        {"id": "a1", "leaf": "A", "submit": 0, "gpus": 8, "min_runtime": "1h", "duration": "4h"},
        {"id": "b1", "leaf": "B", "submit": "10m", "gpus": 8, "min_runtime": "1h", "duration": "1h"},
    ],
}


def keep(house: House, chance: Random) -> tuple[int, int]:
    """Store them all as they would be when they have run. Ids of a small one and of the large one."""
    told = figures(simulate(parse(json.dumps(FILE))))
    scenario = zlib.compress(json.dumps(FILE).encode())
    by = house.people["res0000"]
    ended = datetime.now(UTC)
    rows = Simulation.objects.bulk_create(
        Simulation(
            kind="comparison", title=f"small {number}.json", made_by=by, asked={}, scenario=scenario, state="finished",
            ended_at=ended,
        )
        for number in range(SMALL + 1)
    )  # fmt: skip
    tree = [[node.code, None] for node in house.programs]
    tree += [[node.code, house.programs[number // 100].code] for number, node in enumerate(house.projects)]
    large = {"nodes": {code: _node_figures(parent, chance) for code, parent in [["", None], *_below_root(tree)]}}
    for row in rows:
        is_large = row is rows[-1]
        SimulationPart.objects.bulk_create(
            SimulationPart(
                simulation=row, number=number, name=name, change={} if number == 1 else {"policy": {"scheduler": name}},
                state="finished", progress_percent=100, ended_at=ended, took_ms=2_000,
                figures={**told, **large} if is_large else told, runs=_runs(tree, chance) if is_large else None,
            )
            for number, name in enumerate(("contracts", "fifo"), 1)
        )  # fmt: skip
    overviews.keep(rows[-1])
    return rows[0].pk, rows[-1].pk


def _below_root(tree: list[list[Any]]) -> list[list[Any]]:
    return [[code, parent or ""] for code, parent in tree]


def _node_figures(parent: str | None, chance: Random) -> dict[str, Any]:
    charged = chance.randrange(10**12)
    return {"parent": parent, "charged_milli_s": charged, "uncharged_milli_s": charged // 5,
            "owed_milli_s": charged * 2, "delivery": 0.5}  # fmt: skip


def _runs(tree: list[list[Any]], chance: Random) -> bytes:
    """A month in which each GPU pair of each node ran one thing after the other."""
    leaves = [code for code, parent in tree if parent]
    lanes = NODES * DEVICES // 2
    each = LARGE_RUNS // lanes
    length_s = MONTH_S // each
    workloads, runs = [], []
    for lane in range(lanes):
        for place in range(each):
            start = place * length_s + chance.randrange(length_s // 4)
            end = (place + 1) * length_s
            leaf = leaves[int(len(leaves) * chance.random() ** 3)]
            workloads.append([f"w{len(workloads)}", leaf, 2_000, 3_600, max(0, start - 900), start, end, "finished"])
            runs.append([len(workloads) - 1, start, start, start + 3_600, None, end, 1, 0, None, [lane // 4, 2_000]])
    runs.sort(key=lambda run: run[1])
    stored = {
        "format": FORMAT,
        "end": MONTH_S,
        "nodes": [[f"n{number:03d}", DEVICES * 1_000, f"r{number // 16}"] for number in range(NODES)],
        "tree": tree,
        "workloads": workloads,
        "reasons": ["finished"],
        "runs": runs,
        "unfit": [],
    }
    return zlib.compress(json.dumps(stored, separators=(",", ":")).encode())
