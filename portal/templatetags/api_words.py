"""What the API says of itself, in pages: names of fields and values as code."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()


@register.filter
def with_code(said: str) -> SafeString:
    """The text, with what stands between backticks as code."""
    pieces = str(said).split("`")
    shown = (format_html("<code>{}</code>", each) if at % 2 else each for at, each in enumerate(pieces))
    return format_html_join("", "{}", ((each,) for each in shown))
