"""A scenario written as a file (scenario-format.md): what `parse` reads back as the same scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

from scheduler.engine import NO_CELLS, BudgetNode, CellCounts, Packing, Policy, cassini, locality

from .before import Before
from .report import units
from .scenario import LEVELS, PASS_EVERY_S, ROOT, Happening, Job, PastUse, Scenario


def as_file(scenario: Scenario) -> dict[str, Any]:
    """The file's object. Defaults are left out, also what the scenario is expected to show."""
    file: dict[str, Any] = {
        "name": scenario.name,
        "cluster": _cluster(scenario),
        "tree": _children(scenario, ROOT),
        "policy": _policy(scenario.policy, scenario.scheduler),
        "history": [_past_use(use) for use in scenario.history],
        "workloads": [_job(job) for job in scenario.jobs],
        "events": [_event(event) for event in scenario.events],
        "until": scenario.until_s,
    }
    if not scenario.spreading_cost:
        file["spreading_cost"] = False
    if scenario.packing is not Packing.BEST_FIT:
        file["packing"] = scenario.packing.value
    return {key: value for key, value in file.items() if value not in ("", {}, [], None)}


def _cluster(scenario: Scenario) -> dict[str, Any]:
    domains: dict[str, dict[str, list[str]]] = {"racks": {}, "rails": {}, "leaves": {}, "classes": {}}
    for node in scenario.nodes:
        for level, name in zip(domains, (node.rack, node.rail, node.leaf, node.gpu_class), strict=True):
            if name:
                domains[level].setdefault(name, []).append(node.name)
    written: dict[str, Any] = {"nodes": {node.name: node.capacity_milli // 1_000 for node in scenario.nodes}}
    for key, amounts in (
        ("cpus", {node.name: node.cpu_milli // 1_000 for node in scenario.nodes if node.cpu_milli is not None}),
        ("memory_gib", {node.name: _gib(node.memory_mib) for node in scenario.nodes if node.memory_mib is not None}),
    ):
        if amounts:
            written[key] = amounts
    return written | {level: found for level, found in domains.items() if found}


def _gib(memory_mib: int) -> int | float:
    """Memory as files have it."""
    return memory_mib // 1_024 if memory_mib % 1_024 == 0 else memory_mib / 1_024


def _children(scenario: Scenario, parent: str) -> dict[str, Any]:
    """The budget nodes below one; a plain number where there is nothing more to say."""
    below: dict[str, list[BudgetNode]] = {}
    for node in scenario.tree:
        if node.parent is not None:
            below.setdefault(node.parent, []).append(node)

    def written(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for node in below[name]:
            more: dict[str, Any] = {"children": written(node.id)} if node.id in below else {}
            if node.id in scenario.caps_milli:
                more["cap_gpus"] = scenario.caps_milli[node.id] // 1_000
            if node.minimum_milli:
                more["min_gpus"] = node.minimum_milli // 1_000
            if node.maximum_milli is not None:
                more["max_gpus"] = node.maximum_milli // 1_000
            if node.factor_milli != 1_000:
                more["weight"] = node.factor_milli / 1_000
            if node.cells != NO_CELLS:
                more["cells"] = _cells(node.cells)
            found[node.id] = {"shares": node.shares, **more} if more else node.shares
        return found

    return written(parent)


def _cells(counts: CellCounts) -> dict[str, int]:
    return {level: number for level, number in counts._asdict().items() if number}


def _policy(policy: Policy, scheduler: str) -> dict[str, Any]:
    usual = Policy(pass_every_s=PASS_EVERY_S)
    written: dict[str, Any] = {} if scheduler == "contracts" else {"scheduler": scheduler}
    for knob in fields(Policy):
        value = getattr(policy, knob.name)
        if value != getattr(usual, knob.name):
            written[knob.name] = _knob(value)
    return written


def _knob(value: Any) -> Any:
    if isinstance(value, Fraction):
        return _number(value)
    return list(value) if isinstance(value, tuple) else value


def _number(value: Fraction) -> int | float:
    """A margin as JSON has it; one that no decimal number says is rounded."""
    return int(value) if value.denominator == 1 else float(value)


def _past_use(use: PastUse) -> dict[str, Any]:
    written = {"leaf": use.leaf, "gpus": units(use.size_milli), "from": use.from_s, "to": use.until_s}
    return written if use.is_funded else {**written, "funded": False}


def _job(job: Job) -> dict[str, Any]:
    written: dict[str, Any] = {
        "id": job.id,
        "leaf": job.leaf,
        "gpus": units(job.size_milli),
        "duration": job.duration_s,
    }
    if job.before is not None:
        written["before"] = _before(job.before)
    elif job.after is not None:
        written |= {"after": job.after, "think": job.think_s}
    else:
        written["submit"] = job.submit_s
    usual: tuple[tuple[str, Any, Any], ...] = (
        ("min_runtime", job.min_runtime_s, 0),
        ("resumable", job.is_resumable, True),
        ("priority", job.priority, 0),
        ("node", job.node, None),
        ("exit_delay", "never" if job.exit_delay_s is None else job.exit_delay_s, 0),
        ("restart_cost", job.restart_cost_s, 0),
        ("startup", job.startup_s, 0),
        ("estimate", job.estimate_s, None),
        ("protected", job.is_protected, False),
        ("level", job.level, LEVELS["NORMAL"]),
        ("user", job.user, ""),
        ("group", job.group, ""),
        ("cpus", job.cpu_milli // 1_000, 0),
        ("memory_gib", _gib(job.memory_mib), 0),
        ("gpu_class", list(job.gpu_classes), []),
        ("high", job.is_high, False),
        ("locality", job.locality, locality.ANY_RACK),
        ("communication", job.communication and cassini.written_profile(job.communication), None),
    )
    return written | {key: value for key, value, default in usual if value != default}


def _before(before: Before) -> dict[str, Any]:
    written: dict[str, Any] = {"submitted": before.submitted_s}
    if before.first_start_s is not None:
        written["first_start"] = before.first_start_s
    if before.done_s:
        written["done"] = before.done_s
    if before.waits_since_s is not None and not before.holdings:
        written["waits_since"] = before.waits_since_s
    if before.holdings:
        written["holds"] = {name: units(amount_milli) for name, amount_milli in before.holdings.items()}
        written["since"] = before.since_s
        if before.running_s is not None:
            written["running"] = before.running_s
        if not before.is_funded:
            written["funded"] = False
    return written


def _event(event: Happening) -> Mapping[str, Any]:
    written: dict[str, Mapping[str, Any]] = {
        "shares": {"shares": dict(event.shares)},
        "cells": {"cells": {name: _cells(counts) for name, counts in event.cells.items()}},
        "close": {"close": event.subject},
        "cancel": {"cancel": event.subject},
        "health": {"node": event.subject, "health": event.health},
        "maintenance": {"node": event.subject, "maintenance": event.length_s},
    }
    return {"at": event.at_s, **written[event.kind]}
