"""A meeting in two browsers: whoever presents goes on by keys, and the others follow by themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from budgets.models import Review, Share
from budgets.queries import in_force, today
from tests.portal.conftest import Laboratory
from tests.portal.test_reviews import opened

pytestmark = pytest.mark.browser


@pytest.fixture
def lab(transactional_db: None) -> Laboratory:
    """Nothing was submitted yet: a meeting is about shares."""
    return Laboratory()


def test_one_presents_and_another_follows(
    lab: Laboratory, desk: Callable[..., Page], live_server, browser: Browser, sign_in: Callable[..., None]
) -> None:
    review = opened(lab)
    meeting = f"{live_server.url}/reviews/{review.pk}/meeting/"
    presenter = desk(lab.mia)
    phone = browser.new_context(viewport={"width": 390, "height": 844}, base_url=live_server.url).new_page()
    sign_in(phone, lab.ops)
    for page in (presenter, phone):
        page.goto(meeting)
        expect(page.get_by_role("heading", name="Agenda")).to_be_visible()
    presenter.keyboard.press("ArrowRight")
    for page in (presenter, phone):
        expect(page.get_by_role("heading", level=1)).to_contain_text("A1")
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    assert phone.get_by_role("button", name="Next").count() == 0

    presenter.get_by_label("Becomes, %").fill("72,50")
    presenter.keyboard.press("ArrowLeft")  # in a field, the keys are the field's
    presenter.get_by_label("Reason").fill("for the spring")
    presenter.get_by_role("button", name="Mark").click()
    for page in (presenter, phone):
        expect(page.get_by_text("in pencil: 72.50")).to_be_visible()
    assert Share.objects.filter(in_force(today()), node=lab.node["A1"]).get().basis_points == 7_000

    presenter.get_by_role("link", name="All totals").click()
    presenter.get_by_label("Of the whole meeting").fill("as discussed")
    presenter.get_by_role("button", name="Close and apply").click()
    expect(presenter.get_by_role("heading", name="What was decided")).to_be_visible()
    expect(phone.get_by_role("heading", name="What was decided")).to_be_visible()
    assert Share.objects.filter(in_force(today()), node=lab.node["A1"]).get().basis_points == 7_250
    review.refresh_from_db()
    assert review.state == Review.State.CLOSED
    phone.context.close()
