"""A whole quarter, played in a browser: a researcher asks, a lead gives from her own project, the PI returns another,
one goes up to the root by itself, shares are tried on the last weeks, a meeting is held and applied; and the engine's
order changes on the first day, not before.

`ALLOTMENT_SCREENSHOTS=yes ./test tests/browser/test_quarter.py` writes the guides' pictures into docs/screenshots/.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from budgets.models import LedgerEntry, Person, Reallocation, Request, Review, Role, RoleGrant, Share
from budgets.queries import in_force, midnight, today
from budgets.services import reallocation_deadlines, request_deadlines, tree
from budgets.services.shares import set_shares
from docs import screenshots
from scheduler.engine import order
from scheduler.models import Simulation
from scheduler.snapshots import load
from tests.portal.conftest import Laboratory
from tests.portal.test_simulator import run

pytestmark = pytest.mark.browser

Desk = Callable[..., Page]


def picture(page: Page, name: str) -> None:
    """A picture for the guides, where they were asked for."""
    if os.environ.get("ALLOTMENT_SCREENSHOTS"):
        page.set_viewport_size(screenshots.SIZE)
        screenshots.take(page, name)


def share_of(lab: Laboratory, code: str, day: Any = None) -> int:
    """Basis points in force on a day; today unless said."""
    found = Share.objects.filter(in_force(day or today()), node=lab.node[code]).first()
    return found.basis_points if found else 0


def order_at(lab: Laboratory, at: datetime) -> list[str]:
    """The programs of those who wait, in the order in which a pass at that instant considers them."""
    loaded = load(lab.cluster, at)
    return [code[0] for code in order(loaded.snapshot, loaded.policy)]


@pytest.fixture
def house(lab: Laboratory) -> Laboratory:
    """A2 is split among two members, Lea leads it, Ron works in the first."""
    for code, points in (("A2x", 5_000), ("A2y", 4_000)):
        lab.node[code] = tree.add_child(
            parent=lab.node["A2"], kind="member", code=code, name=f"Desk {code[-1]}", by=None
        )
        set_shares(
            parent=lab.node["A2"], cluster=lab.cluster, shares={lab.node[code]: points}, valid_from=today(), by=None
        )
    lab.lea, lab.ron = lab.person("lea", "A2", Role.MANAGER), lab.person("ron", "A2x", Role.MEMBER)
    return lab


def ask(page: Page, url: str, more: str, why: str, **choose: str) -> str:
    """Fill and submit the form of a request; its address."""
    page.goto(f"{url}/requests/new/")
    for label, value in choose.items():
        page.get_by_label(label).select_option(value)
    page.get_by_label("More, %").fill(more)
    page.get_by_label("Why").fill(why)
    page.get_by_label("What happens otherwise").fill("We run one of three, and decide blind.")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_text("Waits for an answer", exact=True)).to_be_visible()
    return page.url


def test_a_quarter(house: Laboratory, desk: Desk, live_server: Any, sign_in: Callable[..., None]) -> None:
    lab, url = house, live_server.url
    page = desk(lab.ron)

    # Ron asks; Lea gives from her own project.
    address = ask(page, url, "10", "Three ablations before the spring deadline.")
    picture(page, "request")
    sign_in(page, lab.lea)
    page.goto(f"{url}/desk/")
    page.get_by_role("link", name="R", exact=False).filter(has_text=f"R{Request.objects.get().pk}").first.click()
    page.get_by_role("link", name="Approve: choose the minus").click()
    expect(page.get_by_label("Proposed share of A2x")).to_have_value("60.00")
    page.get_by_label("Reason").fill("Ron first, until the deadline")
    page.get_by_role("button", name="Apply on").click()
    expect(page.get_by_text("In force", exact=True).first).to_be_visible()
    assert (share_of(lab, "A2x"), share_of(lab, "A2y")) == (6_000, 4_000)
    sign_in(page, lab.ron)
    page.goto(address)
    expect(page.get_by_text("In force", exact=True).first).to_be_visible()

    # Ada asks; the PI returns it; she says which runs; nobody answers, so it goes up to the root by itself.
    sign_in(page, lab.ada)
    address = ask(page, url, "5", "More runs.")
    sign_in(page, lab.mia)
    page.goto(address)
    page.locator("summary", has_text="Return it").click()
    page.locator("details[open]").get_by_label("Reason").fill("Which runs?")
    page.get_by_role("button", name="Return", exact=True).click()
    expect(page.get_by_text("Returned to its author", exact=True)).to_be_visible()
    sign_in(page, lab.ada)
    page.goto(address)
    page.get_by_role("link", name="Change it").click()
    page.get_by_label("Why").fill("Runs 7 to 9.")
    page.get_by_role("button", name="Submit").click()
    asked = Request.objects.get(node=lab.node["A1"])
    assert asked.answer_by is not None
    assert request_deadlines.escalate(now=asked.answer_by) == 1
    page.goto(address)
    expect(page.get_by_text("It lies with LAB, where it went from A")).to_be_visible()
    sign_in(page, lab.max)
    page.goto(address)
    page.locator("summary", has_text="Deny").click()
    page.locator("details[open]").get_by_label("Reason").fill("At the meeting, please")
    page.get_by_role("button", name="Deny", exact=True).click()
    expect(page.get_by_text("Denied", exact=True).first).to_be_visible()

    # The PI tries shares on the last week.
    sign_in(page, lab.mia)
    page.goto(f"{url}/budget/A/reallocate/?cluster=north")
    page.get_by_label("Proposed share of A1").fill("60")
    expect(page.locator("#sentence")).to_contain_text("Takes 10.00")
    page.get_by_label("Replay the last").select_option("1")
    page.get_by_role("button", name="With these shares").click()
    expect(page.get_by_label("How far it is")).to_be_visible()
    run(Simulation.objects.get())
    expect(page.get_by_role("heading", name="Waits by class")).to_be_visible(timeout=15_000)
    expect(page.get_by_label("Proposed share of A1")).to_have_value("60")
    picture(page, "reallocate")
    assert share_of(lab, "A1") == 7_000

    # Whichever program would be behind tomorrow asks for more; the meeting gives it from the other, from tomorrow on.
    tomorrow = today() + timedelta(days=1)
    start = midnight(tomorrow)
    first = order_at(lab, start - timedelta(seconds=1))[0]
    behind, points = ("A", 6_000) if first == "B" else ("B", 3_500)
    RoleGrant.objects.create(person=lab.ben, node=lab.node["B"], role=Role.MANAGER, valid_from=today())
    sign_in(page, lab.mia if behind == "A" else Person.objects.get(pk=lab.ben.pk))
    ask(page, url, "30", "The long runs of the winter.", For=behind)
    hold_the_meeting(page, lab, url, tomorrow, sign_in, {behind: "90.00", first: "5.00"})
    assert (share_of(lab, behind), share_of(lab, behind, tomorrow)) == (points, 9_000)
    assert share_of(lab, first, tomorrow) == 500

    # The order changes with the first second of that day.
    before, after = order_at(lab, start - timedelta(seconds=1)), order_at(lab, start)
    assert sorted(before) == sorted(after)
    assert (before[0], after[0]) == (first, behind)
    assert Reallocation.objects.get(review__isnull=False).state == "approved"
    assert [reallocation_deadlines.apply_due(now=start + timedelta(seconds=each)) for each in (0, 1)] == [1, 0]
    page.goto(f"{url}/decisions/")
    expect(page.get_by_text("The long runs first").first).to_be_visible()
    picture(page, "decisions")
    assert LedgerEntry.objects.filter(verb="reallocation.applied").count() == 2


def hold_the_meeting(
    page: Page, lab: Laboratory, url: str, day: Any, sign_in: Callable[..., None], marks: dict[str, str]
) -> None:
    """Max plans a review of the whole, opens it, marks these shares in pencil, closes and applies."""
    sign_in(page, lab.max)
    page.goto(f"{url}/reviews/new/")
    page.get_by_label("Budget of").select_option("LAB")
    page.locator("[name=title]").fill("Budget review, winter")
    page.locator("[name=period_from]").fill((today() - timedelta(days=2)).isoformat())
    page.locator("[name=period_until]").fill(day.isoformat())
    page.locator("[name=meets_at]").fill(f"{day.isoformat()}T10:00")
    page.locator("[name=applies_from]").fill(day.isoformat())
    page.get_by_role("button", name="Plan it").click()
    picture(page, "review")
    page.get_by_role("button", name="Open").click()
    review = Review.objects.get()
    for code, becomes in marks.items():
        item = review.items.filter(node=lab.node[code]).first()
        if item is None:
            page.goto(f"{url}/reviews/{review.pk}/")
            page.get_by_role("row").filter(has_text=f"Team {code}").get_by_role("button", name="take up").click()
            item = review.items.get(node=lab.node[code])
        page.goto(f"{url}/reviews/{review.pk}/items/{item.position}/")
        page.get_by_label("Becomes, %").fill(becomes)
        page.get_by_label("Reason").fill("The long runs first")
        page.get_by_role("button", name="Mark").click()
        expect(page.get_by_text(f"in pencil: {becomes}")).to_be_visible()
    picture(page, "meeting")
    page.goto(f"{url}/reviews/{review.pk}/")
    page.get_by_label("Of the whole meeting").fill("as discussed")
    page.get_by_role("button", name="Close and apply").click()
    expect(page.get_by_role("heading", name="What was decided")).to_be_visible()
