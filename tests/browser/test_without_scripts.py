"""The main jobs with scripts off: submit and cancel, ask and decide, reallocate, hold a meeting, operate, simulate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from budgets.models import Person, Reallocation, Request, Share
from budgets.queries import today
from scheduler.models import Node, Simulation
from tests.portal.conftest import Laboratory


@pytest.fixture
def plain(browser: Browser, sign_in: Callable[..., None], live_server) -> Iterator[Callable[[Person], Page]]:
    """`plain(person)` gives a page of a browser of theirs without scripts."""
    contexts = []

    def opened(person: Person) -> Page:
        context = browser.new_context(java_script_enabled=False, base_url=live_server.url)
        contexts.append(context)
        page = context.new_page()
        sign_in(page, person)
        return page

    yield opened
    for context in contexts:
        context.close()


def test_submit_read_why_and_cancel(lab: Laboratory, plain: Callable[[Person], Page]) -> None:
    page = plain(lab.ada)
    page.goto("/workloads/new/")
    page.get_by_label("Name").fill("plain")
    page.get_by_label("GPUs", exact=True).fill("8")
    page.get_by_label("Contract").fill("45 min")
    page.get_by_label("Command", exact=True).fill("python train.py")
    page.get_by_role("button", name="Submit workload").click()
    expect(page.locator("h1")).to_contain_text("plain")
    page.get_by_role("link", name="Cancel workload").click()
    page.get_by_role("button", name="Cancel workload").click()
    expect(page.locator("main header")).to_contain_text("Cancelled")


@pytest.mark.long
def test_ask_for_more_and_decide(lab: Laboratory, plain: Callable[[Person], Page]) -> None:
    page = plain(lab.ada)
    page.goto("/budget/A1/?cluster=north")
    page.get_by_role("link", name="Ask for more").first.click()
    page.get_by_label("More, %").fill("5")
    page.get_by_label("Why").fill("The winter's runs")
    page.get_by_label("What happens otherwise").fill("They wait")
    page.get_by_role("button", name="Submit").click()
    request = Request.objects.get(state="submitted")
    page = plain(lab.mia)
    page.goto("/desk/")
    page.get_by_role("link", name=f"R{request.pk}").first.click()
    page.get_by_text("Deny", exact=True).first.click()
    form = page.locator(f"form[action='/requests/{request.pk}/deny/']")
    form.get_by_label("Reason").fill("Not this quarter")
    form.get_by_role("button", name="Deny").click()
    request.refresh_from_db()
    assert (request.state, request.decision_reason) == ("denied", "Not this quarter")


def test_reallocate(lab: Laboratory, plain: Callable[[Person], Page]) -> None:
    page = plain(lab.mia)
    page.goto("/budget/A/reallocate/?cluster=north")
    page.get_by_label("Proposed share of A1").fill("65")
    page.get_by_label("Reason").fill("Less for A1")
    page.get_by_role("button", name="Apply on").click()
    assert Reallocation.objects.get().state == "applied"
    shares = Share.objects.filter(node=lab.node["A1"], valid_from=today())
    assert shares.get().basis_points == 6_500


def test_find_read_and_turn_the_look(lab: Laboratory, plain: Callable[[Person], Page]) -> None:
    page = plain(lab.ada)
    page.goto("/")
    page.get_by_label("Find anything").fill("A1")
    page.get_by_label("Find anything").press("Enter")
    page.get_by_role("link", name="A1").first.click()
    expect(page.locator("main h1")).to_contain_text("A1")
    page.get_by_text("Show as table").first.click()
    expect(page.locator("main table").first).to_be_visible()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.long
def test_drain_a_node(lab: Laboratory, plain: Callable[[Person], Page]) -> None:
    page = plain(lab.ops)
    page.goto("/nodes/north/n01/drain/")
    page.get_by_label("Reason").fill("A fan")
    page.get_by_role("button", name="Drain n01").click()
    assert Node.objects.get(name="n01").drain_reason == "A fan"


@pytest.mark.long
def test_ask_for_a_simulation(lab: Laboratory, plain: Callable[[Person], Page]) -> None:
    page = plain(lab.ada)
    page.goto("/simulator/new/?cluster=north")
    page.get_by_label("First day").fill((today() - timedelta(days=1)).isoformat())
    page.get_by_role("button", name="Simulate").click()
    assert page.url.endswith(f"/simulator/{Simulation.objects.get().pk}/")
    expect(page.locator("main h1")).to_contain_text("north")
