"""The shared acceptance scenarios, through the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.simulator import Scenario, as_json, order_at, parse, simulate
from tests.scenario_expectations import differences, shared_scenarios


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


@pytest.mark.parametrize("path", shared_scenarios())
def test_scenario(path: Path) -> None:
    scenario = parse(path.read_text(encoding="utf-8"))
    assert scenario.expect, "a scenario without expectations shows nothing"
    result = as_json(simulate(scenario))
    result["leaf_of"] = {job.id: job.leaf for job in scenario.jobs}
    found = differences(scenario.expect, result, lambda at_s: list(order_at(scenario, at_s)[0]), leaves_below(scenario))
    assert found == []
