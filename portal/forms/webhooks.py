"""Forms of webhooks: setting one up, changing it, and what is done to it by a button."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from budgets.models import Webhook
from budgets.services import webhook_settings
from portal.forms.strict import StrictForm


class WebhookForm(StrictForm):
    """Where things are posted, and which; no event chosen is all of them."""

    url = forms.CharField(
        max_length=300,
        label=gettext_lazy("Address"),
        help_text=gettext_lazy("An https address of yours that takes a POST of JSON."),
        widget=forms.URLInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    name = forms.CharField(
        max_length=webhook_settings.NAME_LENGTH,
        required=False,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("What it is called here; without one, its address."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    events = forms.MultipleChoiceField(
        required=False,
        label=gettext_lazy("What is posted; nothing chosen is everything"),
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(self, *args: Any, scope: str = Webhook.Scope.PERSON, **kwargs: Any) -> None:
        """Offers the events of this scope."""
        super().__init__(*args, **kwargs)
        self.fields["events"].choices = list(webhook_settings.events_of(scope).items())  # type: ignore[attr-defined]


class ButtonForm(StrictForm):
    """A button that does one thing once."""
