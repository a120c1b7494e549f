"""The forms of budget reviews: planning one, what is marked and said in the meeting, closing it; and "did it work?"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from budgets.models import BudgetNode, FollowUp, Voice
from portal.forms.reallocation import DayField
from portal.forms.strict import StrictForm
from portal.forms.typed import ShareField

TEXT_LENGTH = 2_000


class PlanForm(StrictForm):
    """Whose budget, which period, when, and what the rule proposes."""

    node = forms.ChoiceField(label=gettext_lazy("Budget of"))
    title = forms.CharField(
        max_length=120, label=gettext_lazy("Title"), help_text=gettext_lazy("Say, Budget review, winter quarter")
    )
    period_from = DayField(label=gettext_lazy("Looks at the days from"))
    period_until = DayField(
        label=gettext_lazy("Until"), help_text=gettext_lazy("The first day that is not of the period.")
    )
    meets_at = forms.DateTimeField(
        label=gettext_lazy("Meets at"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"],
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
    )
    applies_from = DayField(
        label=gettext_lazy("Applies from"), help_text=gettext_lazy("What is decided counts from this day on.")
    )
    hands_back_below_percent = forms.IntegerField(
        min_value=0,
        max_value=100,
        label=gettext_lazy("Who used less than, %"),
        help_text=gettext_lazy("Of its entitlement in the period."),
    )
    hands_back_percent = forms.IntegerField(
        min_value=0,
        max_value=100,
        label=gettext_lazy("is proposed to hand back, %"),
        help_text=gettext_lazy("Of its share. It never cuts."),
    )

    def __init__(self, *args: Any, nodes: Sequence[BudgetNode], **kwargs: Any) -> None:
        """Offer these nodes."""
        super().__init__(*args, **kwargs)
        node = self.fields["node"]
        assert isinstance(node, forms.ChoiceField)
        node.choices = [(each.code, f"{each.code} {each.name}") for each in nodes]


class VersionForm(StrictForm):
    """A button that carries what was read."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


class CallOffForm(VersionForm):
    """Why a review is called off."""

    reason = forms.CharField(max_length=TEXT_LENGTH, label=gettext_lazy("Reason"))


class CloseForm(VersionForm):
    """From which day the marks count, and why in all."""

    applies_from = DayField(label=gettext_lazy("Applies from"))
    reason = forms.CharField(
        max_length=1_000,
        widget=forms.Textarea(attrs={"rows": 2}),
        label=gettext_lazy("Of the whole meeting, goes to the log"),
    )


class StepForm(StrictForm):
    """Where the presenter goes."""

    to = forms.RegexField(r"^(next|previous|agenda|[1-9][0-9]{0,3})$")
    action = None  # type: ignore[assignment]


class TakeUpForm(StrictForm):
    """Another line for the agenda."""

    node = forms.CharField(max_length=16)
    cluster = forms.CharField(max_length=40)


class MarkForm(VersionForm):
    """A mark in pencil, and its words; `version` is the item's."""

    pencil = ShareField(
        label=gettext_lazy("Becomes, %"), required=False, help_text=gettext_lazy("Empty: no mark; it stays as it is.")
    )
    reason = forms.CharField(
        max_length=TEXT_LENGTH,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        label=gettext_lazy("Reason, goes to the log"),
    )
    not_funded = forms.CharField(
        max_length=TEXT_LENGTH,
        required=False,
        widget=forms.Textarea(attrs={"rows": 1}),
        label=gettext_lazy("Not funded"),
        help_text=gettext_lazy("What was asked for and isn't given."),
    )
    look_again_on = DayField(label=gettext_lazy("Look again on"), required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """The mark is a number cell."""
        super().__init__(*args, **kwargs)
        self.fields["pencil"].widget = forms.TextInput(
            attrs={"class": "cell", "inputmode": "decimal", "autocomplete": "off"}
        )


class VoiceForm(StrictForm):
    """Abstaining, dissenting, or neither."""

    kind = forms.ChoiceField(
        choices=[("", gettext_lazy("Neither")), *Voice.Kind.choices],
        required=False,
        widget=forms.RadioSelect,
        label=gettext_lazy("You"),
    )
    text = forms.CharField(
        max_length=TEXT_LENGTH, required=False, widget=forms.Textarea(attrs={"rows": 1}), label=gettext_lazy("Why")
    )


class AnswerFollowUpForm(StrictForm):
    """Whether a decision worked."""

    verdict = forms.ChoiceField(
        choices=FollowUp.Verdict.choices, widget=forms.RadioSelect, label=gettext_lazy("Did it work?")
    )
    text = forms.CharField(
        max_length=TEXT_LENGTH, widget=forms.Textarea(attrs={"rows": 3}), label=gettext_lazy("What one sees")
    )
