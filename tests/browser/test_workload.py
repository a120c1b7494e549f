"""The page of a workload in a browser: it refreshes itself, and leaves alone what one reads, opens and types."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from playwright.sync_api import Page, expect

from scheduler.models import Workload
from scheduler.services import forecasts, workloads
from tests.portal.conftest import Laboratory

REFRESH_MS = 11_000


def test_it_refreshes_itself_and_keeps_what_is_open_focused_and_in_sight(
    lab: Laboratory, desk: Callable[..., Page], live_server
) -> None:
    page = desk(lab.ada)
    page.set_viewport_size({"width": 1280, "height": 500})
    page.clock.install()
    page.goto(f"{live_server.url}/workloads/{lab.taken.code}/")
    page.get_by_text("In the order of the queue").click()
    page.get_by_text("In the order of the queue").focus()
    table = page.locator("#ahead-table table")
    expect(table).to_be_visible()
    before = page.locator("#ahead-table").bounding_box()
    Workload.objects.filter(pk=lab.taken.pk).update(reason_text="Waiting: something else is said now.")
    page.clock.run_for(REFRESH_MS)
    expect(page.get_by_text("something else is said now")).to_be_visible()
    expect(table).to_be_visible()
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    after = page.locator("#ahead-table").bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["y"] - after["y"]) < 40


def test_it_asks_no_more_when_it_is_hidden_or_over(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    page = desk(lab.ada)
    page.clock.install()
    page.goto(f"{live_server.url}/workloads/{lab.waits.code}/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if f"{lab.waits.code}/" in request.url else None)
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.clock.run_for(2 * REFRESH_MS)
    page.wait_for_timeout(300)
    assert [url for url in asked if url.endswith(f"/workloads/{lab.waits.code}/")] == []
    page.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
    workloads.cancel(workload=lab.waits, by=lab.ada, reason="")
    page.clock.run_for(REFRESH_MS)
    expect(page.get_by_text("Cancelled.")).to_be_visible()
    page.wait_for_timeout(300)
    asked.clear()
    page.clock.run_for(3 * REFRESH_MS)
    page.wait_for_timeout(300)
    assert [url for url in asked if url.endswith(f"/workloads/{lab.waits.code}/")] == []


def test_another_size_is_tried_at_once_and_its_answer_stays(
    lab: Laboratory, desk: Callable[..., Page], live_server
) -> None:
    page = desk(lab.ada)
    page.clock.install()
    page.goto(f"{live_server.url}/workloads/{lab.waits.code}/")
    page.get_by_label("GPUs", exact=True).fill("2")
    page.get_by_role("button", name="Try", exact=True).click()
    expect(page.locator("#try-answer")).to_contain_text("Tried: 2")
    expect(page.locator("#try-answer")).to_contain_text("starts")
    page.locator("h1").click()
    Workload.objects.filter(pk=lab.waits.pk).update(reason_text="Waiting: something else is said now.")
    page.clock.run_for(REFRESH_MS)
    expect(page.get_by_text("something else is said now")).to_be_visible()
    expect(page.locator("#try-answer")).to_contain_text("Tried: 2")
    expect(page.get_by_label("GPUs", exact=True)).to_have_value("2")


def test_a_forecast_comes_while_one_looks(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    page = desk(lab.ada)
    page.clock.install()
    page.goto(f"{live_server.url}/workloads/{lab.waits.code}/")
    expect(page.get_by_text("A forecast is being made")).to_be_visible()
    row = forecasts.look(lab.cluster, fresh_for=timedelta(hours=1))
    assert row is not None
    assert forecasts.make(row.pk)
    page.clock.run_for(4_000)
    expect(page.locator("#forecast")).to_contain_text("Probably")
