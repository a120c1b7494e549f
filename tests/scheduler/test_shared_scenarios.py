"""The shared acceptance scenarios, through the live loop: one test, two drivers (tests/simulator has the other)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler.simulator import parse
from tests.scenario_expectations import differences, seconds, shared_scenarios
from tests.scheduler.conftest import check_books
from tests.scheduler.live_driver import LiveDriver, leaves_below


def scenarios() -> list[Any]:
    """All of them; with a swap margin every pass of the grid has to be made, which takes long."""
    found = shared_scenarios()
    for each in found:
        path = each.values[0]
        if path is not None and "swap_margin" in path.read_text(encoding="utf-8"):
            found[found.index(each)] = pytest.param(path, id=each.id, marks=pytest.mark.long)
    return found


@pytest.mark.parametrize("path", scenarios())
def test_scenario(path: Path, transactional_db: None) -> None:
    scenario = parse(path.read_text(encoding="utf-8"))
    driver = LiveDriver(scenario)
    driver.run([seconds(instant) for instant in scenario.expect.get("order_at", {})])
    found = differences(
        scenario.expect, driver.result(), lambda at_s: driver.orders[at_s], dict(leaves_below(scenario))
    )
    assert found == []
    check_books()
