"""By keyboard alone: past the menu at once, in the order of the page, seeing where one is; and the menu of a phone."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.looks import PHONE
from tests.portal.conftest import Laboratory

STOPS = 60
WHERE = """
() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  const style = getComputedStyle(at), box = at.getBoundingClientRect();
  const place = [...document.querySelectorAll("a, button, input, select, textarea, summary, [tabindex]")].indexOf(at);
  return {
    what: at.outerHTML.slice(0, 90),
    place,
    isSeen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 || style.boxShadow !== "none",
    isThere: box.width > 0 && box.height > 0,
  };
}
"""
"""Where the focus is, and whether one can see it."""


def test_one_sees_where_one_is_in_the_order_of_the_page(
    lab: Laboratory, desk: Callable[..., Page], live_server
) -> None:
    page = desk(lab.mia)
    wrong = []
    for path in ("/queue/north/", "/budget/A/reallocate/?cluster=north"):
        page.goto(f"{live_server.url}{path}")
        last = -1
        for _ in range(STOPS):
            page.keyboard.press("Tab")
            at = page.evaluate(WHERE)
            if at is None:
                break
            if not (at["isSeen"] and at["isThere"]):
                wrong.append(f"{path}: not seen: {at['what']}")
            if at["place"] < last and at["place"] > 0:
                wrong.append(f"{path}: out of order: {at['what']}")
            last = at["place"]
    assert not wrong, "\n".join(wrong)


def test_the_first_stop_leads_past_the_menu(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    page = desk(lab.ada)
    page.goto(f"{live_server.url}/queue/north/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_the_menu_of_a_phone_opens_and_closes(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    page = desk(lab.ada)
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.goto(f"{live_server.url}/")
    page.get_by_role("button", name="Menu").focus()
    page.keyboard.press("Enter")
    link = page.get_by_role("link", name="Budget tree")
    expect(link).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#nav') !== null")
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()
    expect(page.get_by_role("button", name="Menu")).to_be_focused()
