"""Everything that people read is marked for translation, and has a translation in every language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.template.base import Lexer, TokenType
from django.utils import translation

from budgets import glossary
from portal import catalogue
from tests.conftest import REPOSITORY
from tests.portal.pages_in_words import words_of

LANGUAGES = [code for code, _ in settings.LANGUAGES if code != settings.LANGUAGE_CODE]
UNMARKED = {"Allotment", "CSV", "PDF", "JSON", "t", "s", "h", "R", "D"}
"""What may stand in a template as it is: a name, and what has no other form."""
FILLED_IN = "\N{OBJECT REPLACEMENT CHARACTER}"
TEMPLATES = sorted(path for path in (REPOSITORY / "templates").rglob("*.*") if path.suffix in (".html", ".txt"))


def outside_of_marks(source: str) -> str:
    """A template without its tags, and without what stands between the tags that translate."""
    kept, depth = [], 0
    for token in Lexer(source).tokenize():
        word = token.contents.split(" ")[0]
        if token.token_type == TokenType.BLOCK:
            depth += word == "blocktranslate"
            depth -= word == "endblocktranslate"
            kept.append(FILLED_IN)
        elif token.token_type == TokenType.VAR:
            kept.append(FILLED_IN)
        elif token.token_type == TokenType.TEXT and not depth:
            kept.append(token.contents)
    return "".join(kept)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(REPOSITORY / "templates")))
def test_every_word_of_a_template_is_marked(path: Path) -> None:
    said = words_of(outside_of_marks(path.read_text(encoding="utf-8"))).said
    words = [word for text in said for word in re.findall(r"[^\W\d_]+", text.replace(FILLED_IN, " "))]
    assert [word for word in words if word not in UNMARKED] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(REPOSITORY / "templates")))
def test_words_given_to_other_templates_are_marked(path: Path) -> None:
    given = re.findall(r"""\{% include [^%]*?="([^"]*)"[^%]*%\}""", path.read_text(encoding="utf-8"))
    assert [words for words in given if words[:1].isupper() or " " in words] == []


def test_unmarked_words_are_found() -> None:
    source = '<p title="{% translate "A" %}">{% blocktranslate %}one{% endblocktranslate %} two <b>{{ three }}</b></p>'
    assert words_of(outside_of_marks(source)).said == [FILLED_IN, f"{FILLED_IN}{FILLED_IN} two", FILLED_IN]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_catalogue_is_in_step_with_the_source(language: str) -> None:
    wanted = catalogue.phrases(REPOSITORY)
    stored = catalogue.read(REPOSITORY, language)
    assert {(message.context, id_of(message)) for message in stored if message.id} == set(wanted), (
        "run manage.py translations"
    )


def id_of(message: object) -> str:
    """The text of a message, of its one where it has a plural."""
    found = message.id  # type: ignore[attr-defined]
    return found if isinstance(found, str) else found[0]


@pytest.mark.parametrize("language", LANGUAGES)
def test_everything_has_a_translation(language: str) -> None:
    assert catalogue.untranslated(catalogue.read(REPOSITORY, language)) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_have_the_places_of_what_they_translate(language: str) -> None:
    assert catalogue.differing(catalogue.read(REPOSITORY, language)) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_django_reads_is_what_people_edit(language: str) -> None:
    stored = catalogue.read(REPOSITORY, language)
    compiled = catalogue.folder(REPOSITORY, language) / f"{catalogue.DOMAIN}.mo"
    assert compiled.read_bytes() == catalogue.mo_bytes(stored), "run manage.py translations"


def test_places_and_tags_are_compared() -> None:
    assert catalogue.placeholders("<b>%(a)s</b> {b:,} {b!r} %{y:.1f} {{c}} 5 %%") == ["a", "b", "y", "</b>", "<b>"]


def test_code_and_templates_are_read_as_they_are_looked_up() -> None:
    source = 'gettext("one")\nngettext("{n} row", "{n} rows", n)\npgettext("node", "closed")\ngettext(variable)'
    assert [(each.context, each.text, each.plural) for each in catalogue.of_code(source)] == [
        (None, "one", None),
        (None, "{n} row", "{n} rows"),
        ("node", "closed", None),
    ]


def test_the_glossary_in_the_documents_is_the_one_of_the_code() -> None:
    with translation.override(settings.LANGUAGE_CODE):
        written = glossary.as_markdown()
    assert (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8") == written, "run manage.py documents"


def test_words_beside_a_word_are_there() -> None:
    assert {key for term in glossary.TERMS for key in term.see} <= set(glossary.BY_KEY)
    assert len(glossary.BY_KEY) == len(glossary.TERMS)
