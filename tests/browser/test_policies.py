"""The page of a comparison over seeds in a browser: charts are drawn, everything fits, in each size and theme."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from scheduler.services import simulations
from scheduler.services.simulations import Laboratories
from tests.browser.looks import SIZES, every_look, faults, shoot
from tests.portal.conftest import Laboratory
from tests.portal.test_simulator import run

pytestmark = pytest.mark.long

POLICIES = ("contracts", "leaf_order=tiresias", "contracts,lookback_s=3d,reservations=4", "fifo-skip", "easy")


@pytest.fixture
def lab(transactional_db: None) -> Laboratory:
    """Nothing has happened yet."""
    return Laboratory()


def test_charts_and_tables_fit(lab: Laboratory, desk: Callable[..., Page], live_server: object) -> None:
    row = simulations.compare_policies(by=lab.ada, source=Laboratories(1, 64), policies=POLICIES, seeds=3)
    url = f"{live_server.url}"  # type: ignore[attr-defined]
    page = desk(lab.ada)
    found = every_look(page, f"{url}/simulator/{row.pk}/", "waiting")
    run(row)
    assert row.state == "finished", row.error
    found += every_look(page, f"{url}/simulator/policies/", "policies-form")
    found += every_look(page, f"{url}/simulator/{row.pk}/", "policies")
    assert page.locator("figure[data-drawn]").count() == page.locator("figure[data-chart]").count() > 10
    for size, viewport in SIZES.items():
        page.set_viewport_size(viewport)  # type: ignore[arg-type]
        page.goto(f"{url}/simulator/{row.pk}/")
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        found += [f"tables, {size}: {each}" for each in faults(page)]
        shoot(page, f"policies-tables-{size}")
    assert found == []
