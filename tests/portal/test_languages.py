"""A person's language follows them, else the browser's is taken; numbers and days are written as it does."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from fractions import Fraction
from html import unescape
from pathlib import Path

import pytest
from django.conf import settings
from django.template import Context, Template
from django.test import Client
from django.utils import translation

from budgets import glossary
from portal import formats, guides
from portal.demo import examples
from portal.forms.typed import ShareField
from tests.portal.conftest import Laboratory
from tests.portal.pages_in_words import words_of
from tests.portal.test_spanish import ENGLISH

NARROW, NBSP = formats.NARROW_NBSP, formats.NBSP


def language_of(client: Client, path: str = "/login/", **headers: str) -> str:
    """What the page says of its own language."""
    html = client.get(path, headers=headers).content.decode()
    return html.split('<html lang="', 1)[1].split('"', 1)[0]


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ("es", "es"),
        ("es-MX,es;q=0.9", "es"),
        ("en-US", "en"),
        ("fr,es;q=0.5", "es"),
        ("fr", "en"),
        ("*", "en"),
        ("", "en"),
    ],
)
def test_the_browsers_language_is_taken_where_nothing_was_chosen(db: None, asked: str, got: str) -> None:
    assert language_of(Client(), **{"Accept-Language": asked}) == got


def test_a_browser_keeps_its_choice_before_anybody_signs_in(db: None) -> None:
    client = Client()
    answer = client.post("/language/", {"language": "es", "next": "/login/?next=/tree/"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/login/?next=/tree/")
    assert language_of(client, **{"Accept-Language": "en"}) == "es"


def test_a_persons_choice_follows_them_to_other_browsers(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    as_person(lab.ada).post("/language/", {"language": "es", "next": "/"})
    lab.ada.refresh_from_db()
    assert lab.ada.language == "es"
    assert language_of(as_person(lab.ada), "/", **{"Accept-Language": "en"}) == "es"
    assert language_of(as_person(lab.ben), "/", **{"Accept-Language": "en"}) == "en"


@pytest.mark.parametrize("wanted", ["", "fr", "ES", "en-gb", "../es"])
def test_no_other_language_is_kept(lab: Laboratory, as_person: Callable[..., Client], wanted: str) -> None:
    client = as_person(lab.ada)
    answer = client.post("/language/", {"language": wanted})
    lab.ada.refresh_from_db()
    assert (answer.status_code, lab.ada.language, settings.LANGUAGE_COOKIE_NAME in client.cookies) == (400, "", False)


def test_the_way_on_stays_here(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    answer = as_person(lab.ada).post("/language/", {"language": "es", "next": "https://elsewhere.example/"})
    assert answer.headers["Location"] == "/"


def test_errors_are_said_in_the_language_of_the_page(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    answer = as_person(lab.ada).get("/budget/NONE/", headers={"Accept-Language": "es"})
    assert "No hay ningún nodo presupuestario 'NONE'." in unescape(answer.content.decode())
    answer = as_person(lab.ada).get("/api/v1/workloads/X-1/", headers={"Accept-Language": "es"})
    assert answer.json()["detail"] == "No hay ninguna carga 'X-1'."


def test_what_is_copied_is_in_the_language_of_the_page(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    text = (
        as_person(lab.ada).get(f"/workloads/{lab.waits.code}/text/", headers={"Accept-Language": "es"}).content.decode()
    )
    assert "Pide: " in text
    assert "En espera: " in text
    assert ENGLISH.findall(text) == []


# --- how it is written ------------------------------------------------------------------------------------------------

AT = datetime(2026, 7, 2, 11, 42, tzinfo=UTC)


@pytest.mark.parametrize(
    ("write", "english", "spanish"),
    [
        (lambda: formats.count(60_211), "60,211", f"60{NARROW}211"),
        (lambda: formats.half_up(Fraction(-12_345, 10), 1), "−1,234.5", f"−1{NARROW}234,5"),
        (lambda: formats.units(1_250_250), "1,250.25", f"1{NARROW}250,25"),
        (lambda: formats.share_percent(3_500), f"35.00{NARROW}%", f"35,00{NARROW}%"),
        (lambda: formats.amount(8_000, "gpu"), f"8{NBSP}GPUs", f"8{NBSP}GPU"),
        (lambda: formats.unit_hours_alone(746_280_000, "gpu"), f"207.3{NBSP}GPU-hours", f"207,3{NBSP}horas de GPU"),
        (lambda: formats.amount(250, "core"), f"0.25{NBSP}core", f"0,25{NBSP}núcleo"),
        (lambda: formats.day(date(2026, 7, 2)), f"Thu{NBSP}2{NBSP}Jul{NBSP}2026", f"jue{NBSP}2{NBSP}jul{NBSP}2026"),
        (lambda: formats.instant(AT), f"Thu{NBSP}2{NBSP}Jul{NBSP}2026, 11:42{NBSP}UTC",
         f"jue{NBSP}2{NBSP}jul{NBSP}2026, 11:42{NBSP}UTC"),
        (lambda: formats.duration(15_720), f"4{NBSP}h{NBSP}22{NBSP}min", f"4{NBSP}h{NBSP}22{NBSP}min"),
        (lambda: formats.ordinal(3), "3rd", "3.º"),
        (lambda: formats.spelt(3), "three", "3"),
        (lambda: formats.joined(["A", "B", "C"]), "A, B and C", "A, B y C"),
    ],
)  # fmt: skip
def test_the_same_value_in_both(write: Callable[[], str], english: str, spanish: str) -> None:
    with translation.override("en"):
        assert write() == english
    with translation.override("es"):
        assert write() == spanish


def test_fields_are_sent_alike_in_all_languages(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    pages = {
        language: as_person(lab.mia).get("/reviews/new/", headers={"Accept-Language": language}).content.decode()
        for language in ("en", "es")
    }
    dates = {
        language: [part.split('"')[0] for part in html.split('type="date" name="')[1:]]
        for language, html in pages.items()
    }
    assert dates["en"] == dates["es"] != []


def test_a_share_may_be_typed_as_the_language_writes_it(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    client, path = as_person(lab.mia), "/budget/A/reallocate/?cluster=north"
    shown = {
        language: re.findall(
            r'value="(\d+[.,]\d\d)"', client.get(path, headers={"Accept-Language": language}).content.decode()
        )
        for language in ("en", "es")
    }
    assert [value.replace(",", ".") for value in shown["es"]] == shown["en"] != []
    assert all("," in value for value in shown["es"])
    assert [ShareField().clean(value) for value in shown["es"]] == [ShareField().clean(value) for value in shown["en"]]


def test_what_stands_in_for_a_reason_is_said_too() -> None:
    shown = Template(
        '{% load allotment %}{{ none|default:_("New: the next pass considers it.")|reason_at:none|bare_reason }}'
    )
    with translation.override("es"):
        assert shown.render(Context({"none": None})) == "Nueva: la próxima pasada la considera."


# --- words and guides -------------------------------------------------------------------------------------------------


def test_a_word_shows_its_meaning_without_scripts(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    html = as_person(lab.ada).get("/budget/A1/?cluster=north").content.decode()
    meaning = glossary.meaning("entitlement")
    start = html.index('<span class="term"><a href="/help/glossary/#entitlement"')
    shown = html[start : html.index("</span></span>", start)]
    assert 'aria-describedby="term-entitlement-' in shown
    assert 'role="tooltip"' in shown
    assert meaning in shown
    ids = [part.split('"')[0] for part in html.split(' id="')[1:]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(("language", "word"), [("en", "entitlement"), ("es", "derecho")])
def test_programs_get_the_glossary_in_their_language(
    lab: Laboratory, as_person: Callable[..., Client], language: str, word: str
) -> None:
    rows = as_person(lab.ada).get("/api/v1/glossary/", headers={"Accept-Language": language}).json()
    assert [row["key"] for row in rows] == [term.key for term in glossary.TERMS]
    assert next(row["word"] for row in rows if row["key"] == "entitlement") == word


@pytest.mark.parametrize("key", list(guides.GUIDES))
def test_guides_are_their_files(lab: Laboratory, as_person: Callable[..., Client], key: str) -> None:
    html = as_person(lab.ada).get(f"/help/{key}/").content.decode()
    path, _ = guides.source(key, "en")
    written = [
        line.removeprefix("## ") for line in path.read_text(encoding="utf-8").split("\n") if line.startswith("## ")
    ]
    said = words_of(html).said
    assert [heading for heading in written if heading.replace("`", "") not in said] == []
    assert re.findall(r'href="[^"]*\.md', html) == []


TRANSLATED = sorted((settings.BASE_DIR / "docs").glob("??/*.md"))


@pytest.mark.parametrize("path", TRANSLATED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_guides_of_other_languages_have_the_same_parts(path: Path) -> None:
    shapes = [
        re.findall(r"^(#+ |\||- |\d+\. |!\[)", each.read_text(encoding="utf-8"), re.MULTILINE)
        for each in (path, path.parent.parent / path.name)
    ]
    assert shapes[0] == shapes[1], "translate what was added to the English guide"


def test_a_guide_is_in_the_readers_language_where_it_is_there(
    lab: Laboratory, as_person: Callable[..., Client]
) -> None:
    html = as_person(lab.ada).get("/help/manager/", headers={"Accept-Language": "es"}).content.decode()
    assert '<article class="guide prose" lang="es">' in html
    assert "Un ejemplo" in words_of(html).said


def test_only_pictures_of_guides_are_given_out(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(lab.ada)
    assert client.get("/help/pictures/tree.png").headers["Content-Type"] == "image/png"
    for name in ("none.png", "..%2Fmanager.md", "tree.txt"):
        assert client.get(f"/help/pictures/{name}").status_code == 404
    assert client.get("/help/nobody/").status_code == 404


def test_each_role_has_an_example() -> None:
    assert set(examples.EXAMPLES) == set(guides.GUIDES)
