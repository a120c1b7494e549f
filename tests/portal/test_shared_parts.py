"""Pages that are made once for all who see the same of them: nobody sees more by it, or anything that is over."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from budgets.models import Person, Role
from budgets.queries import today
from budgets.services import roles
from scheduler.queries import moments
from scheduler.services import workloads
from tests.portal.conftest import Laboratory

PART = {"HX-Request": "true"}
SignIn = Callable[[Person], Client]


@pytest.fixture(autouse=True)
def one_instant(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No moment ends and no wait grows between two answers that are compared, however slow the machine."""
    at = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: at)


def part(client: Client, path: str) -> str:
    """What refreshes itself, but for the instant at which it was asked for and the numbers of words it explains."""
    return re.sub(r' datetime="[^"]*"|-\d+(?=">)', "", client.get(path, headers=PART).content.decode())


@pytest.mark.parametrize("turned", [False, True])
def test_names_are_for_those_inside_whoever_looked_before(lab: Laboratory, as_person: SignIn, turned: bool) -> None:
    seen = {"ada": True, "ben": False, "mia": True, "nil": False, "ops": True}
    for name in sorted(seen, reverse=turned):
        client = as_person(getattr(lab, name))
        for page in (part(client, "/queue/north/"), client.get("/queue/north/").content.decode()):
            assert ("waiting-one" in page) is seen[name], name
            assert (f'data-row="{lab.waits.code}" class="me"' in page) is (name == "ada"), name


def test_a_part_is_the_same_when_it_was_made_for_another(lab: Laboratory, as_person: SignIn) -> None:
    other = lab.person("nobody")
    for path in ("/queue/north/", "/queue/north/?class=large", f"/workloads/{lab.waits.code}/"):
        first, second = part(as_person(other), path), part(as_person(lab.nil), path)
        moments._kept.clear()
        assert first == second == part(as_person(lab.nil), path)


def test_a_part_is_sent_compressed_to_those_who_take_it_so(lab: Laboratory, as_person: SignIn) -> None:
    client = as_person(lab.nil)
    plain = client.get("/queue/north/", headers=PART)
    packed = client.get("/queue/north/", headers={**PART, "Accept-Encoding": "gzip, br"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert len(packed.content) < len(plain.content) / 3
    assert "Content-Encoding" not in plain.headers
    for answer in (plain, packed):
        assert {"HX-Request", "Accept-Encoding", "Cookie"} <= set(answer.headers["Vary"].split(", "))


def test_languages_and_filters_are_told_apart(lab: Laboratory, as_person: SignIn) -> None:
    client = as_person(lab.nil)
    assert "The order" in part(client, "/queue/north/")
    client.cookies["language"] = "es"
    assert "The order" not in part(client, "/queue/north/")
    client.cookies["language"] = "en"
    assert lab.waits.code in part(client, "/queue/north/?project=A1")
    assert lab.waits.code not in part(client, "/queue/north/?project=B1")


def test_who_looks_by_hand_sees_what_was_just_done(lab: Laboratory, as_person: SignIn) -> None:
    client = as_person(lab.nil)
    link = f'href="/workloads/{lab.waits.code}/"'
    assert link in client.get("/queue/north/").content.decode()
    workloads.cancel(workload=lab.waits, by=None)
    assert link not in client.get("/queue/north/").content.decode()
    assert link not in part(client, "/queue/north/")


def test_a_role_that_ended_shows_nothing_more(lab: Laboratory, as_person: SignIn) -> None:
    client = as_person(lab.ops)
    assert "waiting-one" in client.get("/queue/north/").content.decode()
    roles.end(grant=lab.ops.grants.get(role=Role.OPERATOR), on=today(), by=None)
    assert "waiting-one" not in client.get("/queue/north/").content.decode()
    assert "waiting-one" not in part(client, "/queue/north/")
