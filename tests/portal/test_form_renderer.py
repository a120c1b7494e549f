"""Lists to choose from are written as Django's templates write them."""

from __future__ import annotations

import re

import pytest
from django import forms
from django.conf import settings
from django.forms.renderers import DjangoTemplates, get_default_renderer
from django.utils.safestring import mark_safe

from portal.forms.renderer import FormRenderer

CHOICES = {
    "none": [],
    "plain": [("", "any"), ("a", "A"), (7, "seven")],
    "hostile": [("\"><script>'", "<b>&amp;</b> ' \""), ("safe", mark_safe("<b>meant so</b>"))],
    "groups": [("", "nothing"), ("Group <1>", [("a", "A"), ("b", "B")]), ("Group 2", [("c", "C")])],
}


def squeezed(text: str) -> str:
    """Without the white space between tags, which no browser shows inside a list of choices."""
    return re.sub(r">\s+<", "><", text)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("value", ["a", "", "\"><script>'", None])
@pytest.mark.parametrize("attributes", [{}, {"required": True, "disabled": False, "title": "\"'<&", "data-n": 3}])
def test_it_is_what_django_writes(name: str, value: object, attributes: dict[str, object]) -> None:
    widget = forms.Select(choices=CHOICES[name], attrs={"class": "wide"})
    ours, djangos = (
        widget.render("field", value, attributes, renderer) for renderer in (FormRenderer(), DjangoTemplates())
    )
    assert squeezed(ours) == squeezed(djangos)
    assert "<script>" not in ours


def test_forms_are_written_by_it() -> None:
    assert settings.FORM_RENDERER == "portal.forms.renderer.FormRenderer"
    assert isinstance(get_default_renderer(), FormRenderer)
