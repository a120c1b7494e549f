"""The portal in a real browser: sign in, submit, see why; charts, dark, phone, without scripts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.portal.conftest import Laboratory

PHONE = {"width": 390, "height": 844}
PATHS = [
    "/",
    "/tree/north/",
    "/budget/A/",
    "/budget/A1/",
    "/queue/north/",
    "/nodes/north/",
    "/workloads/",
    "/workloads/new/",
]


def darkness(page: Page) -> int:
    """The brightness of the page's ground, 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return int(re.findall(r"\d+", colour)[0])


def test_sign_in_submit_and_read_why(lab: Laboratory, desk: Callable[..., Page], live_server, page: Page) -> None:
    page.goto(f"{live_server.url}/workloads/new/")
    page.get_by_label("Username").fill("ada")
    page.get_by_label("Password").fill("sesame-open-42")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Submit a workload")).to_be_visible()
    page.get_by_label("Name").fill("from-the-browser")
    page.get_by_label("GPUs", exact=True).fill("8")
    page.get_by_label("Contract").fill("45 min")
    page.get_by_label("Command", exact=True).press_sequentially("python train.py 'two words'")
    expect(page.locator("#preview li")).to_have_text(["python", "train.py", "two words"])
    page.get_by_role("button", name="Submit workload").dblclick()
    expect(page.locator("h1")).to_contain_text("from-the-browser")
    code = page.locator("h1 .id").inner_text()
    lab.now = lab.cluster.workloads.get(code=code).submitted_at
    lab.step()
    page.goto(f"{live_server.url}/queue/north/")
    row = page.locator(f"tr[data-row='{code}']")
    expect(row).to_contain_text("from-the-browser")
    row.get_by_role("link", name=code).click()
    reason = lab.cluster.workloads.get(code=code).reason_text
    assert reason.startswith("Waiting:")
    expect(page.locator("section.reason")).to_contain_text(reason[:30])
    assert lab.cluster.workloads.filter(name="from-the-browser").count() == 1


def test_charts_are_drawn_again_when_the_theme_changes(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    page = desk(lab.mia)
    page.emulate_media(color_scheme="light")
    for path in ("/budget/B1/?window=1d", "/budget/B1/?window=7d"):
        page.goto(f"{live_server.url}{path}")
        expect(page.locator("figure[data-drawn] .plot .main-svg").first).to_be_visible()
        bars = page.locator(".plot .bars path")
        assert bars.count() > 0
        light = page.locator(".plot .xtick text").first.evaluate("each => getComputedStyle(each).fill")
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(
            "light => getComputedStyle(document.querySelector('.plot .xtick text')).fill !== light", arg=light
        )
        page.emulate_media(color_scheme="light")


def test_dark_by_the_system_and_by_the_switch(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    page = desk(lab.ada)
    page.emulate_media(color_scheme="dark")
    page.goto(f"{live_server.url}/queue/north/")
    assert darkness(page) < 60
    page.get_by_role("button", name="Light").click()
    assert darkness(page) > 200
    assert page.url.endswith("/queue/north/")
    page.get_by_role("button", name="System").click()
    assert darkness(page) < 60


def test_a_phone_can_read_every_page(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    page = desk(lab.ada)
    page.set_viewport_size(PHONE)
    for path in [*PATHS, *(f"/workloads/{each.code}/" for each in (lab.taker, lab.taken, lab.waits))]:
        page.goto(f"{live_server.url}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Budget tree").click()
    expect(page.get_by_role("heading", name="Budget tree")).to_be_visible()


def test_the_tree_opens_level_by_level_and_goes_back(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    page = desk(lab.ada)
    page.goto(f"{live_server.url}/tree/north/?open=LAB")
    expect(page.locator("tr[data-row='A1']")).to_have_count(0)
    page.get_by_role("link", name="Open A Team A").click()
    expect(page.locator("tr[data-row='A1']")).to_be_visible()
    assert "A" in page.url.split("open=")[1]
    page.go_back()
    expect(page.locator("tr[data-row='A1']")).to_have_count(0)
    expect(page.get_by_role("heading", name="Budget tree")).to_be_visible()


def test_the_queue_refreshes_itself_but_not_under_ones_hands(
    lab: Laboratory, desk: Callable[..., Page], live_server
) -> None:
    page = desk(lab.ada)
    page.clock.install()
    page.goto(f"{live_server.url}/queue/north/")
    lab.submit("A1", 8, owner=lab.ada, name="newcomer")
    page.get_by_label("Find", exact=True).focus()
    page.clock.run_for(11_000)
    page.wait_for_timeout(500)
    expect(page.get_by_text("newcomer")).to_have_count(0)
    page.get_by_label("Find", exact=True).blur()
    page.clock.run_for(11_000)
    expect(page.get_by_text("newcomer")).to_be_visible()


def test_shares_show_what_is_left_while_they_are_typed(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    page = desk(lab.mia)
    page.goto(f"{live_server.url}/budget/A/reallocate/?cluster=north")
    expect(page.locator("#proposed-rest")).to_have_text("5.00")
    page.get_by_label("Proposed share of A1").press_sequentially("")
    page.get_by_label("Proposed share of A1").fill("80")
    expect(page.locator("#status")).to_have_text("5.00 too much")
    expect(page.locator("#sentence")).to_contain_text("A1 10.00")
    page.get_by_role("button", name="in proportion").click()
    expect(page.get_by_label("Proposed share of A2")).to_have_value("20.00")
    expect(page.locator("#status")).to_have_text("balances")
    page.get_by_label("Reason").fill("A spring")
    page.get_by_role("button", name="Apply on").click()
    expect(page.get_by_text("the shares of A on north change")).to_be_visible()


@pytest.mark.parametrize("path", PATHS)
def test_everything_works_without_scripts(
    lab: Laboratory, browser: Browser, sign_in: Callable[..., None], live_server, path: str
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    sign_in(page, lab.ada)
    answer = page.goto(f"{live_server.url}{path}")
    assert answer is not None
    assert answer.status == 200
    expect(page.locator("main h1")).to_be_visible()
    context.close()
