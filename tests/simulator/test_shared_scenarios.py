"""The shared acceptance scenarios, through the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.simulator import parse
from tests.scenario_expectations import shared_scenarios
from tests.simulator.driving import unmet


@pytest.mark.parametrize("path", shared_scenarios())
def test_scenario(path: Path) -> None:
    scenario = parse(path.read_text(encoding="utf-8"))
    assert scenario.expect, "a scenario without expectations shows nothing"
    assert unmet(scenario) == []
