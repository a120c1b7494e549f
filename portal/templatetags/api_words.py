"""What the API says of itself, in pages: names of fields and values as code."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

register = template.Library()
READER = MarkdownIt("zero").enable("backticks")


@register.filter
def with_code(said: str) -> SafeString:
    """The text, with what stands between backticks as code; everything else is escaped."""
    return mark_safe(READER.renderInline(str(said)))
