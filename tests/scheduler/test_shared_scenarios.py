"""The shared acceptance scenarios, through the live loop: one test, two drivers (tests/simulator has the other)."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.simulator import parse
from tests.scenario_expectations import differences, seconds, shared_scenarios
from tests.scheduler.conftest import check_books
from tests.scheduler.live_driver import LiveDriver, leaves_below


@pytest.mark.parametrize("path", shared_scenarios())
def test_scenario(path: Path, transactional_db: None) -> None:
    scenario = parse(path.read_text(encoding="utf-8"))
    driver = LiveDriver(scenario)
    driver.run([seconds(instant) for instant in scenario.expect.get("order_at", {})])
    found = differences(
        scenario.expect, driver.result(), lambda at_s: driver.orders[at_s], dict(leaves_below(scenario))
    )
    assert found == []
    check_books()
