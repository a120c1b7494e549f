"""Words of the advisor's rules on pages."""

from __future__ import annotations

import re

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from portal.views.advice import bounds_words
from scheduler.queries.advice import Share

register = template.Library()
CODE = re.compile(r"`([^`]+)`")


@register.filter
def with_code(text: str) -> SafeString:
    """A text in which `words` between such marks are code."""
    return mark_safe(CODE.sub(r"<code>\1</code>", escape(text)))


@register.filter
def bounds(share: Share) -> str:
    """Between which bounds a share lies."""
    return bounds_words(share)
