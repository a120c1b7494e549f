"""Rows of many numbers: tables behind charts have thousands of cells, and a tag for each row is quickest."""

from __future__ import annotations

from collections.abc import Iterable

from django import template
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe

from portal import formats

register = template.Library()


@register.simple_tag
def hour_cells(*amounts: int) -> SafeString:
    """A cell for each amount of device time, in hours with one decimal."""
    texts = formats.half_up_ratios(amounts, formats.MILLI_S_PER_HOUR, 1)
    return mark_safe("".join([f'<td class="num">{text}</td>' for text in texts]))  # digits and their separators


@register.simple_tag
def hour_cells_of(amounts: Iterable[int]) -> SafeString:
    """The same of a list."""
    return hour_cells(*amounts)


@register.simple_tag
def number_cells(texts: Iterable[str]) -> SafeString:
    """A cell for each number, which is written already."""
    return format_html_join("", '<td class="num">{}</td>', ((text,) for text in texts))
