"""One laboratory under one scheduler, in the figures that were published."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from scheduler.simulator.lab import Assumptions, invent
from scheduler.simulator.lab.chance import Chance
from scheduler.simulator.records import JobRecord, Outcome
from scheduler.simulator.report import HOUR_S, LARGE_PART, metrics, percentile
from scheduler.simulator.scenario import ROOT, parse
from scheduler.simulator.world import simulate

SERVED_WELL = 0.95
"""The part of what it is owed that a team is given, at least, if it is served well."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is simulated: a seed's laboratory under one scheduler."""

    seed: int
    days: int
    gpus: int
    scheduler: str
    assume: Assumptions = field(default_factory=Assumptions)


Figures = dict[str, float | None]
"""By name; times in seconds, parts of one. None where there was nothing to measure."""


def carry_out(experiment: Experiment, chance: Chance) -> Figures:
    """Invent the laboratory, simulate it, measure.

    Args:
        experiment: what is simulated.
        chance: seeded with the experiment's seed, so that every scheduler gets the same file.
    """
    invented = invent(
        chance, seed=experiment.seed, days=experiment.days, gpus=experiment.gpus, assume=experiment.assume
    )
    scenario = invented.scenario
    scenario["policy"]["scheduler"] = experiment.scheduler
    outcome = simulate(parse(json.dumps(scenario)), is_explained=False)
    return measure(outcome, bursty=invented.bursty, patience_s=round(experiment.assume.patience_h * HOUR_S))


def measure(outcome: Outcome, *, bursty: Iterable[str], patience_s: int) -> Figures:
    """The figures of one outcome, as semantics.md section 10 defines them where it does.

    Args:
        outcome: of a simulation.
        bursty: teams whose compute is added up.
        patience_s: how long a repair waits for its node to become empty before a person is needed.
    """
    told = metrics(outcome)
    nodes = told["nodes"]
    deliveries = [
        nodes[node.id]["delivery"]
        for node in outcome.scenario.tree
        if node.parent == ROOT and nodes[node.id]["delivery"] is not None
    ]
    repairs, with_person = repairs_of(outcome, patience_s)
    return {
        "occupancy": told["occupancy"],
        "delivery": told["delivery"],
        "teams_served_well": sum(part >= SERVED_WELL for part in deliveries),
        "worst_team": min(deliveries, default=None),
        "unallocated": told["unallocated_share"],
        "demand_p5": told["demand"]["p5"],
        "demand_median": told["demand"]["median"],
        "demand_p95": told["demand"]["p95"],
        "submitted": sum(record.state is not None for record in outcome.jobs),
        "preemptions": told["preemptions"],
        **_waits(told["waits"]),
        **_large_so_far(outcome),
        "repairs": repairs,
        "repairs_with_person": with_person,
        "bursty_gpu_h": sum(nodes[name]["charged_gpu_h"] + nodes[name]["uncharged_gpu_h"] for name in bursty),
    }


def _waits(told: dict[str, dict[str, Any]]) -> Figures:
    return {
        "debug_p90_s": told["debug"]["p90_s"],
        "wait_median_s": told["all"]["median_s"],
        "wait_p90_s": told["all"]["p90_s"],
        "large_started": told["large"]["count"],
        "large_median_s": told["large"]["median_s"],
        "large_p90_s": told["large"]["p90_s"],
    }


def _large_so_far(outcome: Outcome) -> Figures:
    """Large gangs with those that have not started yet, who have waited so long at least.

    Without them a scheduler that starves large gangs looks well, for only the lucky ones are counted.
    """
    total_milli = sum(node.capacity_milli for node in outcome.scenario.nodes)
    waits = [
        _wait_so_far_s(record, outcome.end_s)
        for record in outcome.jobs
        if record.job.size_milli * LARGE_PART >= total_milli and record.state not in (None, "refused")
    ]
    return {"large_submitted": len(waits), "large_so_far_p90_s": percentile(waits, 90)}


def _wait_so_far_s(record: JobRecord, end_s: int) -> int:
    started_s = record.first_start_s
    if started_s is None:
        started_s = end_s if record.end_s is None else record.end_s
    return started_s - record.submitted_s


def repairs_of(outcome: Outcome, patience_s: int) -> tuple[int, int]:
    """How many nodes had to be repaired that could still be used at first, and for how many a person was needed.

    A node that is down at once has nobody on it to be asked. One that is merely unhealthy is repaired when it is empty;
    where it has not emptied by itself within the technician's patience, somebody has to ask whoever runs there.
    """
    instants: dict[str, list[int]] = {}
    for event in outcome.scenario.events:
        if event.kind == "health" and event.health == "unhealthy" and event.at_s + patience_s < outcome.end_s:
            instants.setdefault(event.subject, []).append(event.at_s)
    needed: set[tuple[str, int]] = set()
    for run in outcome.runs:
        for name in run.holdings.keys() & instants.keys():
            for at_s in instants[name]:
                if run.start_s <= at_s and (run.end_s is None or run.end_s > at_s + patience_s):
                    needed.add((name, at_s))
    return sum(len(each) for each in instants.values()), len(needed)
