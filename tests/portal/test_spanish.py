"""Every page in Spanish says nothing in English but names, codes and what people wrote themselves."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.apps import apps
from django.db import models
from django.test import Client

from scheduler.advisor import RULES
from tests.portal.conftest import Laboratory
from tests.portal.pages_in_words import words_of
from tests.portal.test_routes import ROUTES, numbers_of

ALIKE = {
    "Allotment",
    "English",
    "Español",
    "Webhook",
    "Webhooks",
    "GPU",
    "Gbit/s",
    "CSV",
    "PDF",
    "No",
    "Error",
    "error",
    "Total",
    "Normal",
}
"""What is written alike in both languages, or is a name."""
A_WORD = re.compile(r"[a-záéíóúñü]{3,}")
"""What makes a text more than a code, a number or a unit."""
DATES = re.compile(
    r"\b(?:min|UTC|GPUs?|bytes?|Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
    r"|lun|mar|mié|jue|vie|sáb|dom|ene|feb|abr|may|jun|jul|ago|sep|oct|nov|dic)\b"
)
"""Units, and what days are called: they change from one reading of a page to the next."""
ENGLISH = re.compile(
    r"\b(?:the|and|of|is|are|was|were|with|for|not|from|by|its|it|that|this|has|have|been|than|at|until|which|who)\b",
    re.IGNORECASE,
)
"""Small words that no Spanish text has."""


BY_MACHINE = {"Workload.reason_text", "Decision.text", "Message.subject", "Message.text", "Message.last_error"}
"""Columns of sentences that the product wrote."""


def written_by_people() -> set[str]:
    """All names and texts in the database: they stand on pages as they are."""
    found: set[str] = set()
    for model in apps.get_models():
        if model._meta.app_label not in ("budgets", "scheduler"):
            continue
        columns = [
            each.name
            for each in model._meta.fields
            if isinstance(each, models.CharField | models.TextField)
            and not each.choices
            and f"{model.__name__}.{each.name}" not in BY_MACHINE
        ]
        for row in model._default_manager.values_list(*columns) if columns else ():
            found |= {" ".join(value.split()) for value in row if value}
    return found


def left_in_english(english: list[str], spanish: list[str], names: re.Pattern[str]) -> list[str]:
    """What the Spanish page says in English: what both say, and what has an English word in it; names apart."""
    both = {bare(text, names) for text in english}
    found = []
    for text in dict.fromkeys(spanish):
        rest = bare(text, names)
        if A_WORD.search(rest) and (rest in both or ENGLISH.search(rest)):
            found.append(text)
    return found


def bare(text: str, names: re.Pattern[str]) -> str:
    """A text without the names in it, numbers, units and dates."""
    return " ".join(re.sub(r"[\d\W_]+", " ", DATES.sub(" ", names.sub(" ", text))).split())


def as_pattern(names: set[str]) -> re.Pattern[str]:
    """Any of these names as a whole word, the longest first: "No" is none of November's."""
    longest_first = sorted((name for name in names if len(name) > 1), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")


@pytest.mark.parametrize("who", ["mia", "ops"])
def test_pages_are_spanish_throughout(lab: Laboratory, as_person: Callable[..., Client], who: str) -> None:
    client = as_person(getattr(lab, who))
    numbers = numbers_of(lab)
    names = as_pattern(written_by_people() | ALIKE | set(RULES))
    left: dict[str, list[str]] = {}
    seen = 0
    for route in ROUTES:
        path = route.path.format(**numbers)
        if (
            route.method != "get"
            or path.startswith("/api/")
            or (path.startswith("/help/") and path != "/help/glossary/")
        ):
            continue
        pages = {
            language: client.get(
                path, headers={"Accept-Language": language, **({"HX-Request": "true"} if route.htmx else {})}
            )
            for language in ("en", "es")
        }
        if pages["es"].status_code != 200 or "text/html" not in pages["es"].headers["Content-Type"]:
            continue
        seen += 1
        said = {language: words_of(page.content.decode()) for language, page in pages.items()}
        found = left_in_english(said["en"].said, said["es"].said, names)
        if found:
            left[path] = found
        assert said["es"].styles == said["en"].styles, "lengths and colours are the same in every language"
    assert left == {}
    assert seen > 20
