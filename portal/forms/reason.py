"""Forms that ask only why."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy

from portal.forms.strict import StrictForm

REASON_LENGTH = 200


class CancelForm(StrictForm):
    """Why a workload is cancelled; may stay empty."""

    reason = forms.CharField(
        max_length=REASON_LENGTH,
        required=False,
        label=gettext_lazy("Reason"),
        help_text=gettext_lazy("Goes to its log; may stay empty."),
    )


class OperateForm(StrictForm):
    """Why a node is drained or resumed; an operator says so."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    reason = forms.CharField(max_length=REASON_LENGTH, label=gettext_lazy("Reason"))
