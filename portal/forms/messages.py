"""Forms about what one is told: having read it, and how one wants to be told."""

from __future__ import annotations

from typing import Any

from django import forms

from budgets.models import ALWAYS_SENT, Kind, Message
from portal.forms.strict import StrictForm


class ReadForm(StrictForm):
    """Everything up to this message was read."""

    up_to = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


class ChoicesForm(StrictForm):
    """One way of being told for each kind of thing; decisions can't be turned off."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """A field for each kind."""
        super().__init__(*args, **kwargs)
        for kind in Kind:
            ways = [(str(mode), mode.label) for mode in Message.Mode if not (kind in ALWAYS_SENT and mode == "off")]
            self.fields[kind.value] = forms.ChoiceField(
                choices=ways, label=kind.label.capitalize(), widget=forms.RadioSelect
            )

    def modes(self) -> dict[str, str]:
        """The way by kind, as chosen."""
        return {kind.value: self.cleaned_data[kind.value] for kind in Kind}
