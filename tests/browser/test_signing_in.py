"""Signing in, passwords and access tokens as people see them: in a browser, at desk and phone width, light and dark."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from budgets.services import tokens
from tests.browser.looks import ALL, SIZES, axe, faults, shoot
from tests.portal.conftest import Laboratory
from tests.portal.openid_elsewhere import configure


@pytest.fixture
def lab(transactional_db: None) -> Laboratory:
    """Nobody has submitted anything."""
    return Laboratory()


@pytest.fixture
def calm(lab: Laboratory) -> Laboratory:
    """The same, by the name that the provider's fixture knows."""
    return lab


def looks(page: Page, name: str) -> list[str]:
    """What is wrong with the page as it stands, in every look."""
    found = []
    for size, theme in ALL:
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.set_viewport_size(SIZES[size])  # type: ignore[arg-type]
        found += [f"{name}, {theme}, {size}: {each}" for each in [*faults(page), *axe(page)]]
        shoot(page, f"{name}-{theme}-{size}")
    return found


@pytest.mark.long
def test_signing_in_with_a_password_and_trying_too_often(lab: Laboratory, page: Page, live_server) -> None:
    found = []
    for number in range(6):
        page.goto(f"{live_server.url}/login/?next=/tokens/")
        page.get_by_label("Username").fill("ada")
        page.get_by_label("Password").fill("no")
        page.get_by_role("button", name="Sign in").click()
        if number in (0, 5):
            found += looks(page, "login-wrong" if number == 0 else "login-waits")
    assert page.get_by_role("alert").inner_text().startswith("Too many tries")
    assert found == []


@pytest.mark.long
def test_making_a_token_and_revoking_it(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    tokens.create(person=lab.ada, name="old one of the nightly sweep", scopes=["read", "submit"], days=1)
    page = desk(lab.ada)
    page.goto(f"{live_server.url}/tokens/")
    found = looks(page, "tokens")
    page.get_by_label("Name", exact=True).fill("CI of the vision group")
    page.get_by_label("submit").check()
    page.get_by_role("button", name="Make the token").click()
    shown = page.get_by_role("region", name="The token", exact=True).inner_text()
    assert re.fullmatch(r"allot_[A-Za-z0-9]{43}", shown)
    found += looks(page, "tokens-made")
    page.get_by_role("button", name="Revoke CI of the vision group").click()
    assert tokens.find(shown) is None
    found += looks(page, "tokens-revoked")
    page.goto(f"{live_server.url}/password/")
    found += looks(page, "password")
    desk(lab.ops).goto(f"{live_server.url}/people/{lab.ada.pk}/tokens/")
    found += looks(page, "tokens-of")
    assert found == []


@pytest.mark.long
def test_signing_in_with_a_provider(lab: Laboratory, elsewhere, page: Page, live_server, settings) -> None:
    settings.URL = live_server.url
    elsewhere.tell(groups=["team-a1"])
    page.goto(f"{live_server.url}/tokens/")
    found = looks(page, "login-provider")
    page.get_by_role("link", name="Sign in with Example").click()
    page.wait_for_url(f"{live_server.url}/tokens/")
    page.set_viewport_size(SIZES["desk"])  # type: ignore[arg-type]
    assert "Eva Lund" in page.get_by_role("navigation", name="Main").inner_text()
    page.context.clear_cookies()
    configure(settings, unknown="refuse")
    elsewhere.tell(sub="somebody else")
    page.goto(f"{live_server.url}/login/")
    page.get_by_role("link", name="Sign in with Example").click()
    assert "Nobody here is linked" in page.get_by_role("alert").inner_text()
    found += looks(page, "login-refused")
    assert found == []


@pytest.mark.long
def test_linking_an_account(lab: Laboratory, elsewhere, page: Page, sign_in, live_server, settings) -> None:
    settings.URL = live_server.url
    sign_in(page, lab.ada)
    page.goto(f"{live_server.url}/password/")
    found = looks(page, "password-provider")
    page.get_by_role("link", name="Link it").click()
    found += looks(page, "openid-link")
    page.get_by_role("button", name="Link it").click()
    assert page.get_by_text("Your account is linked").is_visible()
    found += looks(page, "password-linked")
    assert found == []
