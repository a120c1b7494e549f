"""The forms of access tokens: making one, and revoking one."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy, ngettext

from budgets.models import Scope
from budgets.services.tokens import NAME_LENGTH
from portal.forms.strict import StrictForm

DAYS_OFFERED = (1, 7, 30, 90, 365)
DAYS_FIRST = 30


class TokenForm(StrictForm):
    """A new token."""

    name = forms.CharField(
        max_length=NAME_LENGTH,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("What uses it, say “nightly sweep on login2”. Give each program its own."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    scopes = forms.MultipleChoiceField(
        choices=Scope.choices,
        label=gettext_lazy("What it may be used for"),
        initial=[Scope.READ],
        widget=forms.CheckboxSelectMultiple,
    )
    days = forms.TypedChoiceField(coerce=int, label=gettext_lazy("Ends after"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Offers no longer time than this portal gives."""
        super().__init__(*args, **kwargs)
        most = settings.TOKEN_MAX_DAYS
        offered = [*(each for each in DAYS_OFFERED if each < most), most]
        self.fields["days"].choices = [  # type: ignore[attr-defined]
            (each, ngettext("{number} day", "{number} days", each).format(number=each)) for each in offered
        ]
        self.fields["days"].initial = min(DAYS_FIRST, most)


class RevokeForm(StrictForm):
    """The end of a token; of somebody else's, with a reason."""

    reason = forms.CharField(
        max_length=2_000, required=False, label=gettext_lazy("Reason, goes to the log and to its person")
    )
