"""How form fields become HTML: as Django's templates say, and long lists of choices in a fraction of their time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.forms.renderers import DjangoTemplates
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

SELECT = "django/forms/widgets/select.html"
OPTION = "django/forms/widgets/select_option.html"


class FormRenderer(DjangoTemplates):
    """Django's own, but for a list to choose from: its template includes two others for each choice."""

    def render(self, template_name: str, context: dict[str, Any], request: HttpRequest | None = None) -> str:
        """The same text as Django's, whoever writes it."""
        if template_name == SELECT and _is_plain(context["widget"]):
            return select(context["widget"])
        return super().render(template_name, context, request)


def _is_plain(widget: Mapping[str, Any]) -> bool:
    """Whether no choice has a template of its own."""
    return all(option["template_name"] == OPTION for _, options, _ in widget["optgroups"] for option in options)


def select(widget: Mapping[str, Any]) -> SafeString:
    """`<select>` with its choices and groups of choices."""
    groups = format_html_join("", "{}", ((_group(name, options),) for name, options, _ in widget["optgroups"]))
    return format_html('<select name="{}"{}>{}\n</select>', widget["name"], _attributes(widget["attrs"]), groups)


def _group(name: str | None, options: Iterable[Mapping[str, Any]]) -> SafeString:
    each = ((str(option["value"]), _attributes(option["attrs"]), option["label"]) for option in options)
    choices = format_html_join("", '\n  <option value="{}"{}>{}</option>\n', each)
    return format_html('\n  <optgroup label="{}">{}\n  </optgroup>', name, choices) if name else choices


def _attributes(attributes: Mapping[str, Any]) -> SafeString:
    """As in a tag: False is left out, and True has no value."""
    return format_html_join(
        "",
        " {}{}",
        (
            (name, "" if value is True else format_html('="{}"', str(value)))
            for name, value in attributes.items()
            if value is not False
        ),
    )
