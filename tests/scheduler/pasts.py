"""A simulated scenario stored as a cluster's past, as an import would store it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from budgets.models import BudgetNode, Cluster
from scheduler.services import history
from scheduler.services.history import PastNode, PastRun, PastWorkload
from scheduler.simulator import Scenario, parse, simulate
from scheduler.simulator.records import JobRecord, Outcome, RunRecord


def simulated(**file: Any) -> Outcome:
    """What becomes of a scenario file."""
    return simulate(parse(json.dumps(file)))


def store(cluster: Cluster, outcome: Outcome, leaves: Mapping[str, BudgetNode], start: datetime) -> None:
    """Store it as what happened from `start` on."""

    def at(second: int | None) -> datetime | None:
        return None if second is None else start + timedelta(seconds=second)

    def past_run(run: RunRecord) -> PastRun:
        return PastRun(
            started_at=at(run.start_s),
            running_at=at(run.running_s),
            contract_ends_at=at(run.contract_end_s),
            stop_asked_at=at(run.told_s),
            ended_at=at(run.end_s),
            end_reason=run.end_reason or "",
            preempted_by=run.preempted_by,
            size_milli=run.size_milli,
            is_funded=run.is_funded,
            holdings=run.holdings,
        )

    def past_workload(record: JobRecord) -> PastWorkload:
        return PastWorkload(
            leaf=leaves[record.job.leaf],
            owner=None,
            code=record.job.id,
            size_milli=record.job.size_milli,
            min_runtime_s=record.job.min_runtime_s,
            state=record.state,
            submitted_at=at(record.submitted_s),
            ended_at=at(record.end_s),
            is_resumable=record.job.is_resumable,
            priority=record.job.priority,
            preemptions=record.preemptions,
            progress_s=record.progress_s,
            runs=[past_run(run) for run in record.runs],
        )

    history.add_nodes(cluster, [_past_node(node.name, outcome.scenario, start) for node in outcome.scenario.nodes])
    history.add(cluster, [past_workload(record) for record in outcome.jobs if record.state is not None])


def _past_node(name: str, scenario: Scenario, start: datetime) -> PastNode:
    node = next(node for node in scenario.nodes if node.name == name)
    spells, state, since = [], "healthy", start - timedelta(days=1)
    for event in scenario.events:
        if event.kind == "health" and event.subject == name:
            at = start + timedelta(seconds=event.at_s)
            spells.append((state, since, at))
            state, since = {"unhealthy": "draining"}.get(event.health, event.health), at
    return PastNode(name, node.capacity_milli // 1_000, [*spells, (state, since, None)], rack=node.rack)


def lines(outcome: Outcome, since_s: int = 0) -> list[tuple[Any, ...]]:
    """Every run that started from then on, as one compares them."""
    found = [
        (run.start_s, run.job.job.id, run.running_s, run.end_s, run.is_funded, run.end_reason, dict(run.holdings))
        for run in outcome.runs
        if run.start_s >= since_s
    ]
    return sorted(found, key=lambda line: line[:2])
