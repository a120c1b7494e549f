"""The browser that tests drive: a page of the live server really is shown, clicked and photographed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from budgets.models import Person

PNG_HEAD = b"\x89PNG\r\n\x1a\n"


@pytest.mark.django_db(transaction=True)
def test_a_live_page_is_shown_clicked_and_photographed(live_server: object, page: Page, tmp_path: Path) -> None:
    Person.objects.create_superuser("ada", password="a long enough one")
    page.goto(f"{live_server.url}/admin/")
    page.fill("#id_username", "ada")
    page.fill("#id_password", "a long enough one")
    page.click("main form button")
    assert page.inner_text("h1:has-text('Site administration')") == "Site administration"
    assert page.evaluate("getComputedStyle(document.querySelector('#header')).backgroundColor") != "rgba(0, 0, 0, 0)"
    page.screenshot(path=tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(PNG_HEAD)


@pytest.mark.django_db(transaction=True)
def test_a_person_can_be_signed_in_without_the_form(
    live_server: object, page: Page, sign_in: Callable[..., None]
) -> None:
    sign_in(page, Person.objects.create_superuser("grace"))
    page.goto(f"{live_server.url}/admin/")
    assert page.title() == "Site administration | Django site admin"
