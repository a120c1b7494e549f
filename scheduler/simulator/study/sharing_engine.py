"""The study of sharing under the engine itself: shares alone, quotas, private cells, and two clusters apart.

The very jobs of sharing.py, each funded with a contract that lasts as long as it does, so that nobody is preempted in
any of these ways. Shares let a tenant have more than its half while the other asks for less; a quota is a maximum of
half the GPUs, wherever they are. With cells each tenant has as many whole nodes of its own as a cluster apart would
give it, bound to real ones only while they are used (engine/private.py). Each with small work spread over nodes that
have room, or packed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scheduler.engine import BudgetNode, CellCounts, Node, Packing, Policy

from .. import scenario, world
from ..lab.chance import Chance
from . import sharing

SHARES, QUOTAS, CELLS, APART = KINDS = ("shares", "quotas", "cells", "apart")
PACKINGS = {"spread": Packing.WORST_FIT, "packed": Packing.BEST_FIT}
LONGEST_S = 400 * 86_400
"""No contract is cut: what is looked at is where work stands, and not how long."""
POLICY = Policy(
    min_runtime_min_s=1,
    min_runtime_max_s=LONGEST_S,
    reservations=0,  # a promise is one for the whole cluster, and would be one for each of two apart
    grace_s=0,
    pass_every_s=scenario.PASS_EVERY_S,
)


def way_of(kind: str, packing: str) -> str:
    """What one of KINDS is called with one of PACKINGS."""
    return f"{kind}, {packing}"


WAYS = tuple(way_of(kind, packing) for packing in PACKINGS for kind in KINDS)


def run(seed: int, days: int, rng_of: Callable[[int], Chance]) -> dict[str, Any]:
    """What sharing.py finds for a seed, with the same jobs under the engine as `engine`."""
    work = sharing.jobs(rng_of(seed), days)
    waits = {way: delays(work, way) for way in WAYS}
    engine = {}
    for way in WAYS:
        apart = waits[way_of(APART, way.split(", ")[1])]
        engine[way] = sharing.figures(work, waits[way], apart)
    return {**sharing.run(seed, days, rng_of), "engine": engine}


def delays(work: Sequence[sharing.Job], way: str) -> list[float]:
    """How long each job waits, in seconds, in one of WAYS."""
    kind, packing = way.split(", ")
    half = sharing.NODES // 2
    if kind == APART:
        found = [_waits(work, [tenant], half, packing) for tenant in sharing.TENANTS]
    else:
        bounds: dict[str, Any] = {}
        if kind == QUOTAS:
            bounds["maximum_milli"] = half * sharing.NODE_GPUS * 1_000
        elif kind == CELLS:
            bounds["cells"] = CellCounts(node=half)
        found = [_waits(work, sharing.TENANTS, sharing.NODES, packing, **bounds)]
    by_number = {number: waited_s for each in found for number, waited_s in each.items()}
    return [by_number[number] for number in range(len(work))]


def _waits(
    work: Sequence[sharing.Job], tenants: Sequence[str], nodes: int, packing: str, **bounds: Any
) -> dict[int, float]:
    """By its number, how long each job of these tenants waits where they have equal shares of so many nodes."""
    tree = [BudgetNode(scenario.ROOT, None, 1, 1)]
    tree += [BudgetNode(name, scenario.ROOT, 1, len(tenants), **bounds) for name in tenants]
    lived = world.World(
        scenario.Scenario(
            name="sharing",
            nodes=[Node(f"n{index:02d}", sharing.NODE_GPUS * 1_000) for index in range(1, nodes + 1)],
            tree=tree,
            policy=POLICY,
            jobs=[_job(number, job) for number, job in enumerate(work) if job.tenant in tenants],
        ),
        is_explained=False,
    )
    lived.snapshot.packing = PACKINGS[packing]
    lived.run()
    found: dict[int, float] = {}
    for record in lived.outcome.jobs:
        assert record.first_start_s is not None, f"{record.job.id} never started"
        found[int(record.job.id)] = record.first_start_s - record.submitted_s
    return found


def _job(number: int, job: sharing.Job) -> scenario.Job:
    """A job with its number as its id; whole seconds, as the engine has them."""
    lasts_s = max(1, round(job.runs_s))
    return scenario.Job(
        id=f"{number:07d}",
        leaf=job.tenant,
        size_milli=job.gpus * 1_000,
        min_runtime_s=lasts_s,
        duration_s=lasts_s,
        submit_s=int(job.arrives_s),
    )
