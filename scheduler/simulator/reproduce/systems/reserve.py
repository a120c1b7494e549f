"""Alibaba PAI: reserve and pack, against placement that knows no classes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from scheduler.simulator.lab.chance import Chance
from scheduler.simulator.scenario import parse
from scheduler.simulator.world import simulate

from .told import Numbers, System, SystemRow, percent, spread

FAST, SLOW = 2, 6
"""Nodes of 8 GPUs: some V100, most T4, as in PAI, where high-end GPUs are few."""
JOBS = 500
HIGH = 0.2
"""So many need the fast ones, and wait for them."""
LOAD = 0.8
LOG_MEAN, LOG_DEVIATION = 7.5, 1.2
GPUS = ((1, 80), (2, 12), (4, 8))
RESERVE = 4
RANKED = {"class_order": ["V100", "T4"], "high_end_classes": ["V100"], "high_end_reserve": RESERVE}


def run(chance: Chance) -> Numbers:
    """One seed: mean waits of all, and of those that need V100, without classes in the policy and with them."""
    work = _work(chance)
    found: dict[str, float] = {}
    for name, policy in (("plain", {}), ("ranked", RANKED)):
        outcome = simulate(parse(json.dumps(work | {"policy": policy})), is_explained=False)
        waits = {each.job.id: each.runs[0].start_s - each.submitted_s for each in outcome.jobs if each.runs}
        found[f"{name} all"] = fmean(waits.values())
        found[f"{name} high"] = fmean(wait for job, wait in waits.items() if job.startswith("high"))
    for which in ("all", "high"):
        found[f"cut {which}"] = (
            1 - found[f"ranked {which}"] / found[f"plain {which}"] if found[f"plain {which}"] else 0.0
        )
    return found


def _work(chance: Chance) -> dict[str, Any]:
    jobs: list[dict[str, Any]] = []
    sizes, weights = zip(*GPUS, strict=True)
    for number in range(JOBS):
        is_high = chance.random() < HIGH
        job: dict[str, Any] = {
            "gpus": chance.choices(sizes, weights)[0],
            "duration": round(chance.lognormvariate(LOG_MEAN, LOG_DEVIATION)),
        }
        if is_high:
            job |= {"high": True, "gpu_class": "V100"}
        jobs.append({"id": f"{'high' if is_high else 'low'}{number}", "leaf": "A", **job})
    every_s = sum(job["gpus"] * job["duration"] for job in jobs) / (LOAD * 8 * (FAST + SLOW) * JOBS)
    at_s = 0.0
    for job in jobs:
        at_s += chance.expovariate(1 / every_s)
        job["submit"] = round(at_s)
    names = [f"n{number}" for number in range(FAST + SLOW)]
    fast = names[SLOW // 2 : SLOW // 2 + FAST]  # in the middle, so that names favour nobody
    classes = {"V100": fast, "T4": [name for name in names if name not in fast]}
    return {
        "cluster": {"nodes": dict.fromkeys(names, 8), "classes": classes},
        "tree": {"A": 1},
        "workloads": jobs,
    }


def rows(found: Sequence[Numbers]) -> list[SystemRow]:
    """What was published, and what comes out."""
    cuts = [each["cut high"] for each in found]
    return [
        SystemRow(
            "mean wait of work that needs V100, less by reserve and pack",
            "68 %",
            spread(found, "cut high", percent),
            min(cuts) > 0,
            "less in each seed",
            "published against load balancing on 1,800 nodes; here invented work on 64 GPUs, against best fit by name",
        ),
        SystemRow(
            "mean wait of all, less",
            "45 %",
            spread(found, "cut all", percent),
            remark="what is kept free for some, others wait for: it hangs on how much of the work needs V100",
        ),
    ]


RESERVE_AND_PACK = System("Alibaba PAI (NSDI'22): reserve and pack by GPU class", 5, run, rows)
