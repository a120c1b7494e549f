"""Log-in, sessions, cookies, hosts, and addresses that are to lead somewhere: for everybody, and for attackers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.hashers import MD5PasswordHasher
from django.test import Client

from tests.portal.conftest import Laboratory
from tests.security.answers import bare, client_of, said


def test_cookies_cannot_be_read_by_scripts_nor_sent_by_other_sites(calm: Laboratory) -> None:
    client = client_of(enforce_csrf_checks=False)
    client.post("/login/", {"username": "ada", "password": "sesame-open-42"})
    client.get("/workloads/new/")
    client.post("/theme/", {"theme": "dark"})
    client.post("/language/", {"language": "es"})
    flags = {
        name: (bool(cookie["httponly"]), str(cookie["samesite"]), cookie["domain"])
        for name, cookie in client.cookies.items()
    }
    assert set(flags) >= {settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME, "theme", "language"}
    assert {name: flag for name, flag in flags.items() if flag != (True, "Lax", "")} == {}


def test_an_address_of_another_host_is_refused(calm: Laboratory) -> None:
    client = client_of(calm.ada)
    for host in ("evil.example.org", "127.0.0.1.evil.example.org", "testserver@evil.example.org", "a b"):
        assert client.get("/tree/", headers={"Host": host}).status_code == 400, host
    assert client.get("/tree/", headers={"X-Forwarded-Host": "evil.example.org"}).status_code == 200
    assert "evil.example.org" not in said(client.get("/tree/", headers={"X-Forwarded-Host": "evil.example.org"}))


ELSEWHERE = (
    *(
        "https://evil.example.org/",
        "//evil.example.org/",
        "///evil.example.org",
        "/\\evil.example.org",
        "\\\\evil.example.org",
    ),
    *(
        "http:evil.example.org",
        "javascript:alert(1)",
        " //evil.example.org",
        "\t//evil.example.org",
        "/\t/evil.example.org",
    ),
    *(
        "https:/\\evil.example.org",
        "//testserver@evil.example.org/",
        "https://testserver.evil.example.org/",
    ),
)


def test_nothing_leads_to_another_site(calm: Laboratory) -> None:
    for where in ELSEWHERE:
        client = client_of()
        given = {"username": "ada", "password": "sesame-open-42", "next": where, "theme": "dark", "language": "es"}
        for address in ("/login/", "/theme/", "/language/"):
            answer = client.post(address, given)
            location = answer.headers.get("Location", "/")
            assert answer.status_code in (302, 400), (address, where)
            assert re.match(r"/(?![/\\\t])[^\n]*$", location), (address, where, location)
        answer = client.get("/login/", {"next": where})  # signed in by now
        assert answer.headers.get("Location", "/") == "/", where


def test_signing_in_gives_a_new_session_and_out_ends_it(calm: Laboratory) -> None:
    client = client_of()
    client.get("/login/")
    session = client.session
    session["planted"] = "by somebody else"
    session.save()
    planted = session.session_key
    client.cookies[settings.SESSION_COOKIE_NAME] = planted
    assert client.post("/login/", {"username": "ada", "password": "sesame-open-42"}).status_code == 302
    given = client.cookies[settings.SESSION_COOKIE_NAME].value
    assert given != planted
    assert client_of_session(planted).get("/tree/").status_code == 302
    client.post("/logout/")
    assert client_of_session(given).get("/tree/").status_code == 302


def client_of_session(key: str) -> Client:
    """Whoever knows the key of a session."""
    client = client_of()
    client.cookies[settings.SESSION_COOKIE_NAME] = key
    return client


def test_the_log_in_form_does_not_tell_who_has_an_account(calm: Laboratory) -> None:
    """The same words and as much work, whether the name is known, unknown, or disabled."""
    calm.nil.is_active = False
    calm.nil.save()
    client = client_of()
    texts = set()
    for name in ("ada", "nobody-of-that-name", "nil"):
        answer = client.post("/login/", {"username": name, "password": "wrong"})
        texts.add((answer.status_code, bare(answer)[1].replace(name, "")))
    right = client.post("/login/", {"username": "nil", "password": "sesame-open-42"})
    texts.add((right.status_code, bare(right)[1].replace("nil", "")))
    assert len({(status, text) for status, text in texts}) == 1, texts


def test_as_much_work_is_done_for_a_name_that_is_not_there(calm: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    encode = MD5PasswordHasher.encode

    def counted(self: Any, password: str, *args: Any, **more: Any) -> str:
        hashed.append(password)
        return encode(self, password, *args, **more)

    monkeypatch.setattr(MD5PasswordHasher, "encode", counted)
    counts = {}
    for name in ("ada", "nobody-of-that-name"):
        hashed.clear()
        client_of().post("/login/", {"username": name, "password": "wrong"})
        counts[name] = len(hashed)
    assert counts["ada"] == counts["nobody-of-that-name"] > 0
