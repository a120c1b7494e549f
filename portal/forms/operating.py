"""The forms of a cluster's page of rules: which it follows from when, and how its nodes are repaired."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from portal.forms.strict import StrictForm
from portal.forms.typed import CommandField, DurationField
from scheduler.models import RepairHook, RolloutStep

REASON_LENGTH = 2_000


class SureForm(StrictForm):
    """What is asked about before it is done: `sure` is the answer."""

    sure = forms.BooleanField(required=False, widget=forms.HiddenInput)


class RulesForm(SureForm):
    """Which rules, and from when."""

    mode = forms.ChoiceField(
        choices=[
            (RolloutStep.Mode.CONTRACTS, gettext_lazy("contracts: decisions are carried out")),
            (RolloutStep.Mode.SHADOW, gettext_lazy("shadow: decided and shown, nothing started or stopped")),
        ],
        label=gettext_lazy("Rules"),
    )
    starts_at = forms.DateTimeField(
        required=False,
        label=gettext_lazy("From"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"],
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
        help_text=gettext_lazy("On the organisation's clock. Empty: now."),
    )
    reason = forms.CharField(max_length=REASON_LENGTH, label=gettext_lazy("Reason, goes to the log"))


class HookForm(SureForm):
    """How nodes are repaired without a person."""

    error_fields = {"timeout_s": "within"}

    kind = forms.ChoiceField(
        choices=[
            (RepairHook.Kind.NODE, gettext_lazy("on the node: its agent's own repair command")),
            (RepairHook.Kind.WEBHOOK, gettext_lazy("elsewhere: a signed message to an address")),
            (RepairHook.Kind.PORTAL, gettext_lazy("on the portal's machine: a program of the operators")),
        ],
        label=gettext_lazy("Where"),
    )
    url = forms.CharField(
        max_length=300,
        required=False,
        label=gettext_lazy("Address"),
        help_text=gettext_lazy("Of a message only: https://…"),
    )
    command = CommandField(
        required=False,
        widget=forms.TextInput,
        label=gettext_lazy("Program and arguments"),
        help_text=gettext_lazy("On the portal's machine only. {node}, {cluster} and {cause} stand for the names."),
    )
    attempts = forms.IntegerField(
        min_value=1, max_value=20, label=gettext_lazy("Tries"), help_text=gettext_lazy("Then a person is called.")
    )
    within = DurationField(
        label=gettext_lazy("Well again within"), help_text=gettext_lazy("After each try: 30 min, 2 h …")
    )
    reason = forms.CharField(max_length=REASON_LENGTH, label=gettext_lazy("Reason, goes to the log"))

    def clean(self) -> dict[str, Any]:
        """What belongs to another kind is an error, never ignored."""
        cleaned = super().clean()
        kind = cleaned.get("kind")
        if kind and kind != RepairHook.Kind.WEBHOOK and cleaned.get("url"):
            self.add_error("url", gettext("Belongs to a message elsewhere, and only to that."))
        if kind == RepairHook.Kind.WEBHOOK and not cleaned.get("url") and "url" not in self.errors:
            self.add_error("url", gettext("Say where the message goes."))
        if kind and kind != RepairHook.Kind.PORTAL and cleaned.get("command"):
            self.add_error("command", gettext("Belongs to the portal's machine, and only to that."))
        if kind == RepairHook.Kind.PORTAL and not cleaned.get("command") and "command" not in self.errors:
            self.add_error("command", gettext("Say which program."))
        return cleaned


class UnhookForm(SureForm):
    """Repair nothing without a person any more."""

    reason = forms.CharField(max_length=REASON_LENGTH, label=gettext_lazy("Reason, goes to the log"))
