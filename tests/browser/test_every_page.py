"""Every page in light and dark, at desk and at phone width: it fits, nothing lies over
anything, and axe finds nothing serious.

Named by ALLOTMENT_SHOTS, a folder gets a picture of each, to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.browser import everything
from tests.browser.looks import ALL, SOME, every_look
from tests.portal.conftest import Laboratory

MOST_USED = ("/", "/tree/north/", "/queue/north/", "/workloads/new/")


def test_the_most_used_pages_fit_and_can_be_read_by_all(
    lab: Laboratory, desk: Callable[..., Page], live_server
) -> None:
    page = desk(lab.ada)
    paths = [*MOST_USED, f"/workloads/{lab.waits.code}/"]
    found = [fault for path in paths for fault in every_look(page, f"{live_server.url}{path}", path, SOME)]
    assert not found, "\n".join(found)


@pytest.mark.long
def test_every_page_fits_and_can_be_read_by_all(
    lab: Laboratory, desk: Callable[..., Page], live_server, sign_in: Callable[..., None]
) -> None:
    found = []
    seen = list(everything.pages(lab))
    assert len(seen) > 40
    for each in seen:
        looks = ALL if each.path in MOST_USED else SOME
        found += every_look(desk(each.person), f"{live_server.url}{each.path}", each.path, looks)
    assert not found, "\n".join(found)
