"""The runs of a simulation, stored compactly: what a timeline draws, without the scenario or the engine.

The stored form is zlib-compressed JSON, columns by position (docs/developers.md has the table). Instants are whole
seconds from the scenario's start and may be negative for what was running then; amounts are thousandths.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .records import Outcome, RunRecord
from .scenario import ROOT

FORMAT = 1


class RecordedNode(NamedTuple):
    """A host."""

    name: str
    size_milli: int
    rack: str


class RecordedWorkload(NamedTuple):
    """A workload that had a run. `first_start_s` and `end_s` are None for what had not happened by the end."""

    id: str
    leaf: str
    size_milli: int
    min_runtime_s: int
    submitted_s: int
    first_start_s: int | None
    end_s: int | None
    state: str


class RecordedRun(NamedTuple):
    """One holding of devices, [start_s, end_s); `end_s` is None where it went on at the end.

    `workload` is an index into `workloads`, `preempted_by` a workload's id. `holdings` are thousandths by node's name.
    """

    workload: int
    start_s: int
    running_s: int | None
    contract_end_s: int | None
    told_s: int | None
    end_s: int | None
    is_funded: bool
    end_reason: str | None
    preempted_by: str | None
    holdings: Mapping[str, int]


class UnfitSpell(NamedTuple):
    """A node could start nothing in [from_s, until_s): it was "unhealthy", "down" or in "maintenance"."""

    node: str
    from_s: int
    until_s: int
    why: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """All runs of one variant in the order of their starts. `parents` are the budget nodes, None below the root."""

    end_s: int
    nodes: Sequence[RecordedNode]
    parents: Mapping[str, str | None]
    workloads: Sequence[RecordedWorkload]
    runs: Sequence[RecordedRun]
    unfit: Sequence[UnfitSpell]


def pack(outcome: Outcome) -> bytes:
    """The stored form of a simulation's runs."""
    nodes = {node.name: index for index, node in enumerate(outcome.scenario.nodes)}
    records = [record for record in outcome.jobs if record.runs]
    workloads = {record.job.id: index for index, record in enumerate(records)}
    reasons: dict[str, int] = {}
    runs = [_columns(run, nodes, workloads, reasons) for run in sorted(outcome.runs, key=lambda run: run.start_s)]
    stored = {
        "format": FORMAT,
        "end": outcome.end_s,
        "nodes": [[node.name, node.capacity_milli, node.rack] for node in outcome.scenario.nodes],
        "tree": [[node.id, node.parent or None] for node in outcome.scenario.tree if node.id != ROOT],
        "workloads": [
            [
                record.job.id,
                record.job.leaf,
                record.job.size_milli,
                record.job.min_runtime_s,
                record.submitted_s,
                record.first_start_s,
                record.end_s,
                record.state,
            ]
            for record in records
        ],
        "reasons": list(reasons),
        "runs": runs,
        "unfit": [[nodes[spell.node], *spell[1:]] for spell in unfit_spells(outcome)],
    }
    return zlib.compress(json.dumps(stored, separators=(",", ":")).encode())


def _columns(
    run: RunRecord, nodes: Mapping[str, int], workloads: Mapping[str, int], reasons: dict[str, int]
) -> list[Any]:
    reason = None if run.end_reason is None else reasons.setdefault(str(run.end_reason), len(reasons))
    return [
        workloads[run.job.job.id],
        run.start_s,
        run.running_s,
        run.contract_end_s,
        run.told_s,
        run.end_s,
        int(run.is_funded),
        reason,
        run.preempted_by,
        [part for name, amount_milli in run.holdings.items() for part in (nodes[name], amount_milli)],
    ]


def unpack(stored: bytes) -> Recorded:
    """What `pack` stored.

    Raises:
        ValueError: it is of another format.
    """
    found = json.loads(zlib.decompress(stored))
    if found["format"] != FORMAT:
        raise ValueError(f"runs are stored in format {found['format']}, and this reads {FORMAT}")
    names = [name for name, *_ in found["nodes"]]
    reasons = found["reasons"]
    return Recorded(
        end_s=found["end"],
        nodes=[RecordedNode(*node) for node in found["nodes"]],
        parents=dict(found["tree"]),
        workloads=[RecordedWorkload(*row) for row in found["workloads"]],
        runs=[_run_of(row, names, reasons) for row in found["runs"]],
        unfit=[UnfitSpell(names[node], *rest) for node, *rest in found["unfit"]],
    )


def _run_of(columns: Sequence[Any], names: Sequence[str], reasons: Sequence[str]) -> RecordedRun:
    workload, start_s, running_s, contract_end_s, told_s, end_s, funded, reason, preempted_by, held = columns
    return RecordedRun(
        workload=workload,
        start_s=start_s,
        running_s=running_s,
        contract_end_s=contract_end_s,
        told_s=told_s,
        end_s=end_s,
        is_funded=bool(funded),
        end_reason=None if reason is None else reasons[reason],
        preempted_by=preempted_by,
        holdings={names[node]: amount_milli for node, amount_milli in zip(held[::2], held[1::2], strict=True)},
    )


def unfit_spells(outcome: Outcome) -> list[UnfitSpell]:
    """When each node was not to be used, as the scenario says; nodes that a stuck run spoilt are not in it."""
    spells: list[UnfitSpell] = []
    since: dict[str, tuple[int, str]] = {}
    for event in sorted(outcome.scenario.events, key=lambda each: each.at_s):
        if event.kind == "maintenance":
            spells.append(UnfitSpell(event.subject, event.at_s, event.at_s + event.length_s, "maintenance"))
        elif event.kind == "health" and event.health != "healthy":
            since.setdefault(event.subject, (event.at_s, event.health))
        elif event.kind == "health" and event.subject in since:
            spells.append(UnfitSpell(event.subject, since[event.subject][0], event.at_s, since.pop(event.subject)[1]))
    spells += [UnfitSpell(name, at_s, outcome.end_s, why) for name, (at_s, why) in since.items()]
    return sorted(spell for spell in spells if spell.from_s < outcome.end_s)
