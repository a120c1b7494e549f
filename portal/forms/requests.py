"""The forms of requests: what is asked for, what is answered, what is said, what is attached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from budgets.models import BudgetNode, Cluster, Comment, Person
from portal.forms.reallocation import DayField
from portal.forms.strict import StrictForm
from portal.forms.typed import ShareField


class RequestForm(StrictForm):
    """How much, for how long, why, by when it would be useless, and what happens otherwise."""

    error_fields = {"more_basis_points": "more"}

    version = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)
    node = forms.ChoiceField(label=gettext_lazy("For"))
    cluster = forms.ChoiceField(label=gettext_lazy("Cluster"))
    more = ShareField(
        label=gettext_lazy("More, %"),
        help_text=gettext_lazy("Of its parent, on top of what it has: 5.00 makes 15.00 % of it 20.00 %."),
    )
    starts_on = DayField(label=gettext_lazy("From"))
    ends_on = DayField(
        label=gettext_lazy("Until"),
        required=False,
        help_text=gettext_lazy("The first day without it; empty is for good."),
    )
    useless_on = DayField(
        label=gettext_lazy("Of no use from"), required=False, help_text=gettext_lazy("When it would come too late.")
    )
    why = forms.CharField(
        max_length=4_000,
        widget=forms.Textarea(attrs={"rows": 4}),
        label=gettext_lazy("Why"),
        help_text=gettext_lazy("What would be done with it."),
    )
    otherwise = forms.CharField(
        max_length=4_000, widget=forms.Textarea(attrs={"rows": 2}), label=gettext_lazy("What happens otherwise")
    )

    def __init__(self, *args: Any, nodes: Sequence[BudgetNode], clusters: Sequence[Cluster], **kwargs: Any) -> None:
        """Offer these nodes and clusters."""
        super().__init__(*args, **kwargs)
        node, cluster = self.fields["node"], self.fields["cluster"]
        assert isinstance(node, forms.ChoiceField)
        assert isinstance(cluster, forms.ChoiceField)
        node.choices = [(each.code, f"{each.code} {each.name}") for each in nodes]
        cluster.choices = [(each.name, f"{each.name}, {each.model}" if each.model else each.name) for each in clusters]
        self.fields["more"].widget = forms.TextInput(attrs={"class": "cell", "inputmode": "decimal"})


class AnswerForm(StrictForm):
    """A reason, for whom one decides, and what was read."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    reason = forms.CharField(
        max_length=2_000, widget=forms.Textarea(attrs={"rows": 3}), label=gettext_lazy("Reason, goes to the log")
    )
    acting_for = forms.ChoiceField(label=gettext_lazy("You decide"), required=False)

    def __init__(self, *args: Any, ways: Sequence[Person | None] = (), **kwargs: Any) -> None:
        """`ways`: for whom the person may decide; None is in their own right."""
        super().__init__(*args, **kwargs)
        self.ways = ways
        choices = [
            ("", gettext("in your own right"))
            if way is None
            else (str(way.pk), gettext("for {way}, who is away").format(way=way))
            for way in ways
        ]
        acting_for = self.fields["acting_for"]
        assert isinstance(acting_for, forms.ChoiceField)
        acting_for.choices = choices or [("", gettext("in your own right"))]
        if len(choices) < 2:
            acting_for.widget = forms.HiddenInput()
            acting_for.initial = acting_for.choices[0][0]

    def acting(self) -> Person | None:
        """For whom it was decided."""
        said = self.cleaned_data["acting_for"]
        return next((way for way in self.ways if way is not None and str(way.pk) == said), None)


class PassUpForm(AnswerForm):
    """How much to ask of the level above."""

    error_fields = {"more_basis_points": "more"}

    more = ShareField(label=gettext_lazy("Ask for, %"))


class WithdrawForm(StrictForm):
    """Taking something of one's own back."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


class CommentForm(StrictForm):
    """What one says, and who may read it."""

    text = forms.CharField(
        max_length=4_000, widget=forms.Textarea(attrs={"rows": 3}), label=gettext_lazy("Say something")
    )
    audience = forms.ChoiceField(
        choices=Comment.Audience.choices, label=gettext_lazy("For"), initial=Comment.Audience.ALL
    )

    def __init__(self, *args: Any, may_whisper: bool = False, **kwargs: Any) -> None:
        """`may_whisper`: whether it may be for reviewers only."""
        super().__init__(*args, **kwargs)
        if not may_whisper:
            self.fields["audience"].widget = forms.HiddenInput()


class AttachForm(StrictForm):
    """A file."""

    file = forms.FileField(
        label=gettext_lazy("Attach a file"), help_text=gettext_lazy("PDF, PNG, JPEG, CSV or text, at most 5 MiB.")
    )
