"""The laboratory of the page tests, with work in every state, behind a live server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page

from scheduler.queries import moments
from tests.portal.conftest import Laboratory, busy
from tests.portal.openid_elsewhere import elsewhere, provider_process  # noqa: F401 (fixtures)


@pytest.fixture(autouse=True)
def every_poll_sees_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages' clocks are wound on by tests, ours are not: a second ago may be minutes ago to a page."""
    monkeypatch.setattr(moments, "POLL_S", 0.0)


@pytest.fixture
def lab(transactional_db: None) -> Laboratory:
    """Work in every state."""
    return busy()


@dataclass
class Complaints:
    """What a browser had to complain of: errors on the console, answers that failed, requests to other hosts."""

    found: list[str] = field(default_factory=list)


@pytest.fixture
def desk(page: Page, live_server: object, sign_in: Callable[..., None]) -> Iterator[Callable[..., Page]]:
    """`desk(person)` gives a page signed in as them; at the end nothing may have gone wrong in it."""
    complaints = Complaints()
    home = live_server.url  # type: ignore[attr-defined]
    page.on("console", lambda said: complaints.found.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.found.append(str(error)))
    page.on("response", lambda got: complaints.found.append(f"{got.status} {got.url}") if got.status >= 500 else None)
    page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith((home, "data:", "blob:"))
            else complaints.found.append(f"elsewhere: {asked.url}")
        ),
    )

    def open_for(person: object) -> Page:
        sign_in(page, person)
        return page

    yield open_for
    assert complaints.found == []
