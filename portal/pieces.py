"""Pieces of pages that many looks have in common, a row of a table each: rendered once for what they show."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from django.template.loader import get_template
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language

from scheduler.queries.recent import Recent

KEPT = 4_000
"""Pieces that a process remembers, of 1 to 2 kB; those that nobody asked for longest go first."""
_kept: Recent[Hashable, SafeString] = Recent(KEPT)


def rendered(template: str, pieces: Iterable[Hashable]) -> SafeString:
    """One piece after the other; each is all that its template is given, as `piece`, so that it depends on nothing
    else but the language.
    """
    found = get_template(template)
    language = get_language()
    return format_html_join("", "{}", ((_one(template, found, language, piece),) for piece in pieces))


def _one(name: str, template: Any, language: str | None, piece: Hashable) -> SafeString:
    key = (name, language, piece)
    if (known := _kept.get(key)) is not None:
        return known
    made: SafeString = template.render({"piece": piece})
    _kept.put(key, made)
    return made
