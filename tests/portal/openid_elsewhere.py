"""An OpenID provider that the portal knows, and somebody who signs in with it: fixtures and what tests do with them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from django.http import HttpResponse
from django.test import Client

from budgets.models import RoleGrant
from budgets.queries import in_force, today
from portal import openid
from portal.settings_signing import OpenId
from tests.portal.openid_provider import CLIENT_ID, CLIENT_SECRET

REPOSITORY = Path(__file__).resolve().parents[2]
ROLES = {
    "gpu ops": (("operator", "LAB"),),
    "team-a1": (("member", "A1"),),
    "leads": (("manager", "A"), ("reviewer", "LAB")),
}
EVA = {"sub": "248289761001", "preferred_username": "eva", "name": "Eva Lund", "email": "eva@example.org"}


class Elsewhere:
    """The provider, as tests see it."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer

    def tell(self, lie: str = "", **claims: object) -> None:
        """Who is signed in there, and which lie it tells."""
        requests.post(f"{self.issuer}/control", json={"person": {**EVA, **claims}, "lie": lie}, timeout=5)


@pytest.fixture(scope="module")
def provider_process() -> Iterator[Elsewhere]:
    """The provider's process."""
    argv = [sys.executable, "-m", "tests.portal.openid_provider"]
    with subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield Elsewhere(running.stdout.readline().strip())
        running.kill()


@pytest.fixture
def elsewhere(provider_process: Elsewhere, calm, settings, monkeypatch) -> Elsewhere:
    """The provider, known to the portal; it tells the truth about Eva."""
    monkeypatch.setattr(openid, "_left_alone_until", 0.0)
    settings.URL = "http://testserver"
    settings.OPEN_ID = OpenId(
        issuer=provider_process.issuer, client_id=CLIENT_ID, client_secret=CLIENT_SECRET, name="Example",
        scopes="openid email", groups_claim="groups", roles=ROLES, roles_days=30, unknown="create", link_by="nothing",
    )  # fmt: skip
    openid._made.clear()
    provider_process.tell()
    return provider_process


def configure(settings, **changed: object) -> None:
    """The portal's word about the provider, otherwise."""
    old = settings.OPEN_ID
    settings.OPEN_ID = OpenId(**{**{name: getattr(old, name) for name in OpenId.__slots__}, **changed})
    openid._made.clear()


def way_back(client: Client, following: str = "/tree/") -> str:
    """Our address to which the provider sends the browser back."""
    sent = client.get(f"/login/openid/?next={following}")
    assert sent.status_code == 302, sent.content
    back = requests.get(sent.headers["Location"], allow_redirects=False, timeout=5)
    assert back.status_code == 302, back.text
    parts = urlsplit(back.headers["Location"])
    return f"{parts.path}?{parts.query}"


def come(client: Client | None = None, following: str = "/tree/") -> HttpResponse:
    """Somebody signs in there and comes back."""
    browser = client or Client()
    return browser.get(way_back(browser, following))


def held(username: str = "eva") -> set[tuple[str, str]]:
    """The roles in force of somebody."""
    grants = RoleGrant.objects.filter(in_force(today()), person__username=username)
    return set(grants.values_list("role", "node__code"))


def is_signed_in(client: Client) -> bool:
    """Whether pages open."""
    return client.get("/api/v1/me/").status_code == 200
