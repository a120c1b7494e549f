"""The guides of docs/ as pages: the same Markdown files, so that they never differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from django.utils.translation import get_language, gettext_lazy
from markdown_it import MarkdownIt
from markdown_it.token import Token

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise


@dataclass(frozen=True, slots=True)
class Guide:
    """One guide: `key` is its address and the name of its file; who it is for, and what they do."""

    key: str
    title: _StrPromise
    about: _StrPromise


GUIDES: Mapping[str, Guide] = {
    guide.key: guide
    for guide in (
        Guide(
            "researcher",
            gettext_lazy("For researchers"),
            gettext_lazy("Submitting work, choosing a contract, reading why it waits or was preempted."),
        ),
        Guide(
            "manager",
            gettext_lazy("For managers"),
            gettext_lazy("Dividing a budget, answering requests, reading what came of it."),
        ),
        Guide(
            "reviewer",
            gettext_lazy("For reviewers"),
            gettext_lazy("Budget reviews: the pack, the meeting, the decision log, and whether it worked."),
        ),
        Guide(
            "operator",
            gettext_lazy("For operators"),
            gettext_lazy("Installing, nodes and drains, outages, the policy of a cluster."),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Page:
    """A guide as HTML, with its headings as (anchor, words)."""

    title: str
    body: SafeString
    headings: tuple[tuple[str, str], ...]
    language: str


def page(key: str) -> Page:
    """A guide in the reader's language, or in English where it is not there in it."""
    return _page(key, (get_language() or settings.LANGUAGE_CODE).split("-")[0])


def source(key: str, language: str) -> tuple[Path, str]:
    """The file of a guide, and the language that it is in."""
    own = settings.BASE_DIR / "docs" / language / f"{key}.md"
    if own.exists():
        return own, language
    return settings.BASE_DIR / "docs" / f"{key}.md", settings.LANGUAGE_CODE


@cache
def _page(key: str, language: str) -> Page:
    path, written_in = source(key, language)
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(path.read_text(encoding="utf-8"))
    headings: list[tuple[str, str]] = []
    title = ""
    kept: list[Token] = []
    in_title = False
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            words = plain(tokens[place + 1])
            if token.tag == "h1":
                title, in_title = words, True
            else:
                anchor = slugify(words)
                token.attrSet("id", anchor)
                if token.tag == "h2":
                    headings.append((anchor, words))
        if not in_title:
            kept.append(token)
        if token.type == "heading_close":
            in_title = False
    for token in kept:
        for inner in token.children or ():
            _relink(inner)
    html = reader.renderer.render(kept, reader.options, {})
    html = html.replace("<table>", '<div class="wrap"><table>').replace("</table>", "</table></div>")
    return Page(title, mark_safe(html), tuple(headings), written_in)  # from files of ours, with HTML turned off


def rendered(text: str) -> SafeString:
    """A text of ours as HTML."""
    return mark_safe(MarkdownIt("commonmark", {"html": False}).render(text))  # with HTML turned off


def plain(token: Token) -> str:
    """The words of an inline token."""
    return "".join(child.content for child in token.children or ())


OTHER_FILE = re.compile(r"^(?:\.\./)?(\w+)\.md(#[\w-]+)?$")


def _relink(token: Token) -> None:
    """Links between guides lead to their pages, pictures to where they are served; other documents are named only."""
    if token.type == "image":
        name = str(token.attrs.get("src", "")).rpartition("/")[2]
        token.attrSet("src", reverse("help_picture", args=[name]))
        token.attrSet("loading", "lazy")
    if token.type != "link_open":
        return
    found = OTHER_FILE.match(str(token.attrs.get("href", "")))
    if found is None:
        return
    if found[1] == "glossary":
        token.attrSet("href", reverse("glossary") + (found[2] or ""))
    elif found[1] in GUIDES:
        token.attrSet("href", reverse("guide", args=[found[1]]) + (found[2] or ""))
    else:
        token.attrs.pop("href")
