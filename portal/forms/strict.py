"""Forms that refuse what they do not know, put errors beside fields, and carry a one-use id."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext

from budgets.errors import InputError

OURS = frozenset({"csrfmiddlewaretoken"})


class StrictForm(forms.Form):
    """A form in which an unknown field is an error, never ignored.

    `action` is the one-use id: sending the same form twice does its work once. `error_fields` says beside which
    field a service's error stands, where their names differ.
    """

    action = forms.RegexField(r"^[0-9a-f]{32}$", widget=forms.HiddenInput, required=False)
    error_fields: dict[str, str] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Labels end as they are written."""
        super().__init__(*args, **{"label_suffix": "", **kwargs})

    def clean(self) -> dict[str, Any]:
        """Refuse unknown fields."""
        cleaned = super().clean() or {}
        unknown = sorted(set(self.data) - {self.add_prefix(name) for name in self.fields} - OURS)
        if unknown:
            raise forms.ValidationError(
                gettext("There is no field {unknown!r} in this form.").format(unknown=unknown[0])
            )
        return cleaned

    def take(self, error: InputError) -> None:
        """Show a service's error beside its field, or above the form."""
        name = self.error_fields.get(error.field, error.field)
        if name in self.fields:
            self.add_error(name, error.message)
        else:
            self.add_error(None, str(error))
