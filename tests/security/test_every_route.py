"""Every address of the portal and its API, by every method, for people who may and who may not: found by walking the
resolver, so that a new address is tried without being named here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.http import HttpResponse
from django.test import Client

from budgets.models import Person
from tests.addresses import API, PARAMETER, Values, filled, patterns
from tests.portal.conftest import busy
from tests.security.answers import bare, client_of, said
from tests.security.house import CANARIES, House, canary, furnished

AGENTS = f"{API}agent/"
"""Opened by the secrets of nodes and by nobody's session (tests/executors): no cookie is read there, so none can be
abused by another site."""
METHODS = ("get", "head", "options", "post", "put", "patch", "delete")
UNSAFE = ("post", "put", "patch", "delete")
SOME = pytest.mark.parametrize(
    "methods", [("get", "post"), pytest.param(("head", "options", "put", "patch", "delete"), marks=pytest.mark.long)]
)
"""What browsers send, and all the others."""
OPEN = {"login/", "logout/", "theme/", "language/", "login/openid/", "login/openid/callback/"}
"""For whoever is not signed in, beside the addresses of agents and those that machines ask whether all is well."""
MACHINES = re.compile(r"(metrics|healthz|readyz|livez)\b")
"""Asked by machines whether all is well (and whether something can be written); they hold no word of what is hidden."""
MISSING = {"int": 987_654_321, "str": "no-such-thing", "slug": "no-such-thing", "uuid": "0" * 32}


@pytest.fixture(scope="module")
def house(django_db_setup: None, django_db_blocker: Any) -> Iterator[House]:
    """The laboratory with something hidden of every kind, made once for all of this module, which changes nothing."""
    with django_db_blocker.unblock():
        yield furnished(busy())
        call_command("flush", verbosity=0, interactive=False, inhibit_post_migrate=True)


def ours() -> list[str]:
    """Every address but those of agents."""
    return [pattern for pattern in patterns() if not pattern.startswith(AGENTS)]


def paths(house: House, *, every: bool = True) -> Iterator[tuple[str, str]]:
    """(pattern, path) of every address, filled with all (or the first) of what there is."""
    for pattern in ours():
        for path in paths_of(pattern, house)[: None if every else 1]:
            yield pattern, path


def paths_of(pattern: str, house: House) -> list[str]:
    """What an address is filled with; nothing where a sample is lacking (which fails a test of its own)."""
    try:
        return filled(pattern, {**house.seen, **house.hidden})
    except LookupError:
        return []


def is_sign_in(answer: HttpResponse) -> bool:
    """Whether it leads to the log-in form."""
    return answer.status_code == 302 and answer.headers["Location"].startswith("/login/?next=")


@contextmanager
def nothing_can_be_written() -> Iterator[None]:
    """The database itself refuses to write, whoever tries: statements, triggers and functions alike."""
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    try:
        yield
    finally:
        connection.rollback() if connection.in_atomic_block else None
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = off")


@pytest.mark.django_db
@pytest.mark.parametrize("run", ["quick", pytest.param("long", marks=pytest.mark.long)])
def test_there_is_a_database_of_the_tests_own(run: str) -> None:
    """pytest-django makes one where a test is marked so, as here in either run; the fixture `house` then fills it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        assert cursor.fetchone()[0].startswith("test_")


# --- parameters -------------------------------------------------------------------------------------------------------


def test_every_parameter_of_every_address_has_a_sample(house: House) -> None:
    lacking = []
    for pattern in ours():
        try:
            filled(pattern, {**house.seen, **house.hidden})
        except LookupError as error:
            lacking.append(str(error))
    assert lacking == [], "say in tests/security/house.py what fills these"


# --- what one may not see ---------------------------------------------------------------------------------------------


def hides(pattern: str, hidden: Values) -> bool:
    """Whether an address names something that is hidden from strangers."""
    short = pattern.removeprefix(API)
    return any(short.startswith(key) for key in hidden)


def absent(pattern: str, house: House) -> str:
    """The same address of what is not there: of the last hidden thing that it names."""
    short = pattern.removeprefix(API)
    values: dict[str, Sequence[object]] = {**house.seen, **house.hidden}
    for found in PARAMETER.finditer(short):
        if short[: found.end()] in house.hidden:
            values[short[: found.end()]] = [MISSING[found[0][1:].partition(":")[0]]]
    return filled(pattern, values)[0]


OTHERS = ["nil", pytest.param("ben", marks=pytest.mark.long)]
"""A stranger, and a member of another program."""


@SOME
@pytest.mark.parametrize("who", OTHERS)
def test_what_is_hidden_looks_like_what_is_not_there(house: House, who: str, methods: tuple[str, ...]) -> None:
    """By whatever method, a stranger and a member of another program learn nothing: not even that it is there."""
    client = client_of(getattr(house.lab, who))
    wrong = []
    for pattern in ours():
        if not hides(pattern, house.hidden):
            continue
        for path in paths_of(pattern, house):
            for method in methods:
                there = bare(getattr(client, method)(path))
                not_there = bare(getattr(client, method)(absent(pattern, house)))
                if there != not_there or (there[0] not in (302, 400, 403, 404, 405) and method != "options"):
                    wrong.append((method, path, there[0], not_there[0]))
                if method == "get" and client.get(path, follow=True).status_code not in (404, 405):
                    wrong.append((method, path, "followed", client.get(path, follow=True).status_code))
    assert wrong == [], wrong


@pytest.mark.parametrize(
    ("who", "htmx"),
    [
        ("nil", ({},)),
        pytest.param("nil", ({"HX-Request": "true"},), marks=pytest.mark.long),
        pytest.param("ben", ({},), marks=pytest.mark.long),
    ],
)
def test_no_page_part_file_or_answer_holds_a_word_of_what_is_hidden(
    house: House, who: str, htmx: tuple[dict[str, str], ...]
) -> None:
    """And a GET changes nothing: all the while the database refuses to write."""
    client = client_of(getattr(house.lab, who))
    leaks, broken = [], []
    with nothing_can_be_written():
        for _pattern, path in paths(house):
            for headers in htmx if not path.startswith("/api/") else ({},):
                answer = client.get(path, headers=headers)
                text = said(answer)
                leaks += [(path, word) for word in (*CANARIES, house.token) if word in text]
                is_broken = answer.status_code >= 500 and not MACHINES.match(path[1:])
                broken += [(path, answer.status_code)] if is_broken else []
    assert (leaks, broken) == ([], [])


def test_whoever_may_see_it_finds_every_one_of_these_words(house: House) -> None:
    """So that the test above would find them if they were shown. What is secret nobody is shown at all. And every
    answer tells browsers what they must not do.
    """
    all_shown = set(CANARIES) - {canary("secret"), canary("delegation")}
    found: set[str] = set()
    wrong: dict[str, list[str]] = {}
    clients = [client_of(house.lab.mia), client_of(house.lab.ada)]
    with nothing_can_be_written():
        for client in clients:
            for _pattern, path in paths(house):
                answer = client.get(path)
                assert answer.status_code < 500 or MACHINES.match(path[1:]), path
                words = {word for word in (*CANARIES, house.token) if word in said(answer)}
                if (words - found or client is clients[0]) and not MACHINES.match(path[1:]):
                    wrong[path] = amiss(answer)
                found |= words
                if found == all_shown:
                    break  # the other one has only to show what is left
    assert {path: each for path, each in wrong.items() if each} == {}
    assert found == all_shown


@pytest.mark.long
def test_no_get_of_an_operator_writes_anything(house: House) -> None:
    client = client_of(house.lab.ops)
    with nothing_can_be_written():
        broken = [
            (path, answer.status_code)
            for _pattern, path in paths(house)
            if not MACHINES.match(path[1:]) and (answer := client.get(path)).status_code >= 500
        ]
    assert broken == []


def test_the_database_would_have_noticed(house: House) -> None:
    """The test of the tests above: a write in that time breaks."""
    client = client_of(house.lab.ada)
    with nothing_can_be_written():
        assert client.post("/theme/", {"theme": "dark"}).status_code == 302
        assert client.post(f"/workloads/{house.lab.waits.code}/cancel/", {"reason": "r"}).status_code == 500
    house.lab.waits.refresh_from_db()
    assert house.lab.waits.state == "queued"


# --- who is not signed in ---------------------------------------------------------------------------------------------


def walk_signed_out(client: Client, house: House, methods: tuple[str, ...]) -> list[tuple[str, str, int]]:
    """What answers to anything but the log-in form, 401 or 403."""
    return [
        (method, pattern, answer.status_code)
        for pattern, path in paths(house, every=False)
        if pattern not in OPEN and not MACHINES.match(pattern)
        for method in methods
        for answer in [getattr(client, method)(path)]
        if not (is_sign_in(answer) or answer.status_code in (401, 403, 405))
    ]


@SOME
def test_nothing_is_open_to_whoever_is_not_signed_in(house: House, methods: tuple[str, ...]) -> None:
    client = client_of()
    assert (found := walk_signed_out(client, house, methods)) == [], found
    for pattern in ours():
        if MACHINES.match(pattern):
            text = said(client.get(f"/{pattern}"))
            assert [word for word in CANARIES if word in text] == []


@pytest.mark.long
def test_a_disabled_persons_session_opens_nothing(house: House) -> None:
    client = client_of(house.lab.mia)
    assert client.get("/").status_code == 200
    people = Person.objects.filter(pk=house.lab.mia.pk)
    people.update(is_active=False)
    try:
        assert walk_signed_out(client, house, METHODS) == []
    finally:
        people.update(is_active=True)


# --- other sites ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("methods", [("post",), pytest.param(UNSAFE[1:], marks=pytest.mark.long)])
def test_every_unsafe_method_needs_a_token_against_forgery(house: House, methods: tuple[str, ...]) -> None:
    """Signed in, but without the form's token, or from another site's page with it: refused before anything else."""
    client = client_of(house.lab.mia, enforce_csrf_checks=True)
    client.get("/tree/")
    wrong = []
    for pattern, path in paths(house, every=False):
        for method in methods if not MACHINES.match(pattern) else ():
            answer = getattr(client, method)(path, b"{}", content_type="application/json")
            refused = (403, 405, 415) if pattern.startswith(API) else (403,)
            if answer.status_code not in refused:
                wrong.append((method, pattern, answer.status_code))
    assert wrong == []
    form = client.get("/workloads/new/").content.decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    assert token is not None
    given = {"csrfmiddlewaretoken": token[1], "theme": "dark"}
    assert client.post("/theme/", given).status_code == 302
    for origin in ("https://evil.example.org", "null", "http://testserver.evil.example.org"):
        assert client.post("/theme/", given, headers={"Origin": origin}).status_code == 403, origin


# --- headers ----------------------------------------------------------------------------------------------------------

WANTED = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


DIRECTIVES = ("default-src", "script-src", "style-src", "object-src", "base-uri", "form-action", "frame-ancestors")
IN_LINE = re.compile(r"\son[a-z]+=|javascript:|<style[ >]|<script(?![^>]*\bsrc=)(?![^>]*json)")
"""What the policy would keep from running anyway."""


def policy_of(answer: HttpResponse) -> dict[str, list[str]]:
    """The content security policy by directive."""
    parts = [each.split() for each in answer.headers.get("Content-Security-Policy", "").split(";")]
    return {each[0]: each[1:] for each in parts if each}


def amiss(answer: HttpResponse) -> list[str]:
    """What an answer does not tell browsers."""
    wrong = [name for name, value in WANTED.items() if answer.headers.get(name) != value]
    policy = policy_of(answer)
    if "sandbox" not in policy:
        allowed = {"'self'", "'none'", "data:", "blob:"}
        wrong += [
            f"{name} {source}"
            for name, sources in policy.items()
            for source in sources
            if source not in allowed and not (name == "style-src-attr" and source == "'unsafe-inline'")
        ]
        wrong += [f"no {name}" for name in DIRECTIVES if name not in policy]
    if not re.search(r"\b(no-store|private)\b", answer.headers.get("Cache-Control", "")):
        wrong.append(f"Cache-Control {answer.headers.get('Cache-Control')}")
    if IN_LINE.search(said_html(answer)):
        wrong.append("something in line")
    if "camera=()" not in answer.headers.get("Permissions-Policy", ""):
        wrong.append("Permissions-Policy")
    return wrong


def test_errors_and_refusals_tell_browsers_the_same(house: House) -> None:
    client, nobody = client_of(house.lab.mia), client_of()
    answers: list[Any] = [client.get(path) for path in ("/nowhere/", "/api/v1/nowhere/", "/tree/%00/", "/login/")]
    answers += [nobody.get(path) for path in ("/", "/login/", "/api/v1/workloads/", "/static/nowhere.css")]
    answers += [client.post("/reviews/"), client.get("/", headers={"Host": "evil.example.org"})]
    assert [(answer.status_code, wrong) for answer in answers if (wrong := amiss(answer))] == []


def said_html(answer: HttpResponse) -> str:
    """The page, of what is one."""
    return said(answer).partition("{'Content-Type'")[0] if "html" in answer.headers.get("Content-Type", "") else ""
