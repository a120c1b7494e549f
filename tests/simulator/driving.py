"""Run a scenario given as a dict, and compare with what it expects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.simulator import Scenario, as_json, order_at, parse, simulate
from tests.scenario_expectations import differences


def leaves_below(scenario: Scenario) -> dict[str, set[str]]:
    """The leaves below each budget node, itself included."""
    parents = {node.id: node.parent for node in scenario.tree}
    found: dict[str, set[str]] = {name: set() for name in parents}
    for leaf in parents.keys() - set(parents.values()):
        at: str | None = leaf
        while at is not None:
            found[at].add(leaf)
            at = parents[at]
    return found


def run(scenario: Scenario) -> dict[str, Any]:
    """What `simulate --json` prints, and each workload's leaf."""
    result = as_json(simulate(scenario))
    result["leaf_of"] = {job.id: job.leaf for job in scenario.jobs}
    return result


def unmet(scenario: Scenario) -> list[str]:
    """What differs from what the scenario expects."""
    return differences(
        scenario.expect, run(scenario), lambda at_s: list(order_at(scenario, at_s)[0]), leaves_below(scenario)
    )


def job(name: str, leaf: str, submit: str, gpus: int, contract: Any, duration: str, **more: Any) -> dict[str, Any]:
    """A workload of a scenario file."""
    when = {} if "after" in more else {"submit": submit}
    return {
        "id": name,
        "leaf": leaf,
        "gpus": gpus,
        "min_runtime": contract,
        "duration": duration,
        **when,
        **more,
    }


def expect(expected: dict[str, Any], *workloads: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Check a scenario of one node of 8 GPUs and two equal teams, unless said otherwise; returns what came out."""
    file = {"cluster": {"nodes": {"h1": 8}}, "tree": {"A": 1, "B": 1}, "workloads": list(workloads), **more}
    scenario = parse(json.dumps({**file, "expect": expected}))
    if found := unmet(scenario):
        pytest.fail("\n".join(found), pytrace=False)
    return run(scenario)
