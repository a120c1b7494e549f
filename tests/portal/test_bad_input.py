"""Whatever stands in an address or a form that can't be read gets 400 or 404 and one clear line: never a traceback, and
never an empty page that looks like an answer.

The addresses are all that there are. What an address reads of its query is found by watching it read, so nothing here
has to be added when a page learns another parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, QueryDict
from django.test import Client
from django.urls import resolve

from tests.addresses import PARAMETER, filled, patterns
from tests.browser.everything import values_of
from tests.portal.conftest import Laboratory

FREE = {"find", "q", "who", "seen", "command", "next"}
"""Parameters that take any words: what isn't there is simply not found."""
SCHEMA = "api/v1/schema/"
"""Its parameters are drf-spectacular's own."""
RIGHT = {("simulator/<int:number>/timeline/", "0"), ("api/v1/workloads/<str:code>/logs/", "0")}
"""What is nonsense elsewhere: variant 0 is what really happened, and ranks and offsets begin at 0."""
AGENTS = "api/v1/agent/"
"""Its addresses take no query, and are tried with bad bodies in tests/executors."""
NONSENSE = (
    "no-such-thing",
    "-1",
    "0",
    "9" * 30,
    "1e9",
    "2026-02-30",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "%00",
    "%ff%fe",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "'; DROP TABLE x; --",
    "<script>alert(1)</script>",
    "x" * 3_000,
)
FAR = ("9999-12-31", "0001-01-01")
"""Days with which some arithmetic of days can't be done: perhaps an answer, but never a fault of ours."""
IN_PATHS = ("no-such-thing", "9" * 30, "0", "%00", "%ff%fe", "\u0639", "..", "x" * 300)


class Watched(QueryDict):
    """A query that remembers what was asked of it."""

    read: set[str]

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:  # type: ignore[override]
        """Remembers the name, also where it is not there."""
        self.read.add(key)
        return super().get(key, default)

    def getlist(self, key: str, default: Any = None) -> Any:  # type: ignore[override]
        """The same of a list."""
        self.read.add(key)
        return super().getlist(key, default)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)


def watching(names: set[str], which: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Middleware that collects what views read of a request's GET or POST."""

    def middleware(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
        def answer(request: HttpRequest) -> HttpResponse:
            given = getattr(request, which)
            watched = Watched(given.urlencode(), mutable=True, encoding=given.encoding)
            watched.read = names
            setattr(request, which, watched)
            return get_response(request)

        return answer

    return middleware


def words_of(answer: HttpResponse) -> str:
    """What an error's page says in its one line."""
    if answer.headers["Content-Type"].startswith("application/"):
        return answer.content.decode()
    found = re.search(r"<h1[^>]*>(.*?)</h1>.*?<p[^>]*>(.*?)</p>", answer.content.decode(), re.DOTALL)
    return found[2] if found else ""


def says_no(answer: Any) -> str:
    """Nothing, if the answer is an error with a clear line; else what it is."""
    if answer.status_code not in (400, 403, 404, 405, 409, 413, 414):
        return f"{answer.status_code}"
    if "Traceback" in answer.content.decode(errors="replace"):
        return f"{answer.status_code} with a traceback"
    return "" if answer.headers.get("Allow") or words_of(answer).strip() else f"{answer.status_code} without a word"


def pages(lab: Laboratory) -> Iterator[tuple[str, str]]:
    """Every address with its pattern, filled in."""
    values = values_of(lab)
    for pattern in patterns():
        if not pattern.startswith(AGENTS):
            for path in filled(pattern, values)[:1]:
                yield pattern, path


@pytest.fixture
def clients(as_person: Callable[..., Client]) -> Callable[[Laboratory], list[Client]]:
    """`clients(lab)`: of a manager, a researcher and an operator, who see all that there is between them."""

    def made(lab: Laboratory) -> list[Client]:
        found = [as_person(person) for person in (lab.mia, lab.ada, lab.ops)]
        for client in found:
            client.raise_request_exception = False
        return found

    return made


def test_what_no_address_holds(lab: Laboratory, clients: Callable[..., list[Client]]) -> None:
    client = clients(lab)[0]
    long = "/tree/north/?open=" + "x" * 9_000
    far = ("/decisions/?until=9999-12-31", "/tree/north/?as_of=0001-01-01", "/api/v1/decisions/?from=0001-01-01")
    for path in ("/budget/%00/", "/audit/?node=%00", long, "/api/v1/workloads/?limit=0", *far):
        answer = client.get(path)
        assert (answer.status_code, says_no(answer)) == (400, ""), path
    assert client.get("/requests/1/deny/").headers["Location"] == "../"
    assert client.get("/requests/1/no-such-thing/").status_code == 404
    assert client.post("/requests/1/").status_code == 405
    assert words_of(client.get("/logout/"))


@pytest.mark.long
def test_what_stands_in_a_path(lab: Laboratory, clients: Callable[..., list[Client]]) -> None:
    wrong = []
    values, two = values_of(lab), clients(lab)[:2]
    for pattern in patterns():
        if not PARAMETER.search(pattern) or pattern.startswith(AGENTS):
            continue
        names = [found[1] for found in PARAMETER.finditer(pattern)]
        for name in names:
            for bad in IN_PATHS:
                keys = {key: [bad] for key in values if key.rpartition(":")[2].rstrip(">") == name}
                [path] = filled(pattern, {**{key: given[:1] for key, given in values.items()}, **keys, name: [bad]})
                for client in two:
                    if said := says_no(client.get(path, follow=True)):
                        wrong.append(f"{path[:100]}: {said}")
    assert wrong == [], "\n".join(wrong)


@pytest.mark.long
def test_what_stands_in_a_query(
    lab: Laboratory, clients: Callable[..., list[Client]], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, three = [], clients(lab)
    for pattern, path in pages(lab):
        for client in three if pattern != SCHEMA else ():
            if client.get(path).status_code != 200:
                continue
            for name in sorted(read_of(path, client, settings, "GET") - FREE):
                for bad in NONSENSE:
                    if (pattern, bad) in RIGHT:
                        continue
                    answer = client.get(f"{path}?{name}={bad if bad.startswith('%') else escaped(bad)}")
                    if said := says_no(answer):
                        wrong.append(f"{pattern} {name}={bad[:40]}: {said}")
                for far in FAR:
                    if (status := client.get(f"{path}?{name}={far}").status_code) >= 500:
                        wrong.append(f"{pattern} {name}={far}: {status}")
            break
    assert wrong == [], "\n".join(wrong)


def escaped(text: str) -> str:
    """As it stands in an address."""
    query = QueryDict(mutable=True)
    query["x"] = text
    return query.urlencode()[2:]


def read_of(path: str, client: Client, settings: Any, which: str) -> set[str]:
    """What an address reads of its query or form."""
    names: set[str] = set()
    module = "tests.portal.test_bad_input"
    globals()["watch_now"] = watching(names, which)
    before = settings.MIDDLEWARE
    settings.MIDDLEWARE = [*before, f"{module}.watch_now"]
    try:
        fresh = Client(raise_request_exception=False)
        fresh.cookies = client.cookies
        (fresh.get if which == "GET" else fresh.post)(path)
    finally:
        settings.MIDDLEWARE = before
    return {name for name in names if name != "csrfmiddlewaretoken"}


@pytest.mark.long
def test_what_stands_in_a_form(lab: Laboratory, clients: Callable[..., list[Client]], settings: Any) -> None:
    wrong = []
    for pattern, path in pages(lab):
        if pattern in ("login/", "logout/"):
            continue
        for client in clients(lab):
            if client.post(path).status_code in (403, 404, 405):
                continue
            fields = sorted(read_of(path, client, settings, "POST"))
            for bad in ("\0", "9" * 40, "2026-02-30", "\ufffd\u0639", "x" * 5_000, "-1"):
                answer = client.post(path, dict.fromkeys(fields, bad))
                if answer.status_code >= 500 or "Traceback" in answer.content.decode(errors="replace"):
                    wrong.append(f"{pattern} {bad[:20]!r} in all of {fields}: {answer.status_code}")
            odd = client.post(path, b"\xff\xfe=\xff&%ff=%00&a=%", content_type="application/x-www-form-urlencoded")
            if odd.status_code >= 500:
                wrong.append(f"{pattern} in another encoding: {odd.status_code}")
            break
    assert wrong == [], "\n".join(wrong)


def test_resolving_is_what_is_tested(lab: Laboratory) -> None:
    assert len({resolve(path).route for _, path in pages(lab)}) > 80
