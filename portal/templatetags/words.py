"""Words of the glossary on pages: a link to the word, with its meaning beside it."""

from __future__ import annotations

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from budgets import glossary

register = template.Library()
COUNTER = "words_shown"
"""Where a request counts them, so that each has an id of its own."""


@register.simple_tag(takes_context=True)
def term(context: template.Context, key: str, words: str = "") -> SafeString:
    """A word of the glossary (`words` where the page says it otherwise) that shows its meaning.

    It is a link to the glossary, so a keyboard reaches it, a finger can follow it and nothing needs a script; the
    meaning shows while it is pointed at or has the focus, and screen readers read it as the link's description.
    """
    known = glossary.BY_KEY[key]
    request = context["request"]
    number = getattr(request, COUNTER, 0) + 1
    setattr(request, COUNTER, number)
    name = f"term-{key}-{number}"
    return format_html(
        '<span class="term"><a href="{}#{}" aria-describedby="{}">{}</a><span class="meaning" role="tooltip" id="{}">'
        "{}</span></span>",
        reverse("glossary"),
        key,
        name,
        words or known.word,
        name,
        known.meaning,
    )
