"""The forms of people, roles, delegations, and of how the organisation decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from budgets.models import BudgetNode, House, Person, Role
from portal.forms.reallocation import DayField
from portal.forms.strict import StrictForm
from portal.forms.typed import ShareField


class PersonField(forms.CharField):
    """Somebody who can sign in, by user name."""

    def __init__(self, **more: Any) -> None:
        """Typed, since there may be hundreds."""
        super().__init__(help_text=gettext_lazy("Their user name."), **more)

    def to_python(self, value: Any) -> Any:
        """The person."""
        text = (super().to_python(value) or "").strip()
        if not text:
            return None
        person = Person.objects.filter(username=text, is_active=True).first() if "\0" not in text else None
        if person is None:
            raise forms.ValidationError(gettext("Nobody who can sign in is called {text!r}.").format(text=text[:150]))
        return person


class ReasonForm(StrictForm):
    """Why."""

    reason = forms.CharField(max_length=2_000, label=gettext_lazy("Reason, goes to the log"))


class GrantForm(StrictForm):
    """A role for somebody, from when until when."""

    person = PersonField(label=gettext_lazy("Person"))
    role = forms.ChoiceField(choices=Role.choices, label=gettext_lazy("Role"))
    valid_from = DayField(label=gettext_lazy("From"))
    valid_until = DayField(
        label=gettext_lazy("Until"),
        required=False,
        help_text=gettext_lazy("The first day without it; empty is for good."),
    )
    reason = forms.CharField(max_length=2_000, label=gettext_lazy("Reason, goes to the log"))


class EndForm(StrictForm):
    """The end of a role."""

    grant = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    on = DayField(label=gettext_lazy("First day without it"))
    reason = forms.CharField(max_length=2_000, label=gettext_lazy("Reason, goes to the log"))


class DelegationForm(StrictForm):
    """Who decides for one, where, up to how much, from when until when."""

    error_fields = {"limit_basis_points": "limit"}

    at = forms.ChoiceField(label=gettext_lazy("At"))
    delegate = PersonField(label=gettext_lazy("Who decides"))
    limit = ShareField(
        label=gettext_lazy("Up to, %"), initial="5.00", help_text=gettext_lazy("Of the node, moved by one decision.")
    )
    valid_from = DayField(label=gettext_lazy("From"))
    valid_until = DayField(
        label=gettext_lazy("Until"), help_text=gettext_lazy("The first day on which you decide again yourself.")
    )

    def __init__(self, *args: Any, nodes: Sequence[BudgetNode], **kwargs: Any) -> None:
        """Offer the nodes that one manages."""
        super().__init__(*args, **kwargs)
        self.nodes = nodes
        at = self.fields["at"]
        assert isinstance(at, forms.ChoiceField)
        at.choices = [(node.code, f"{node.code} {node.name}") for node in nodes]
        self.fields["limit"].widget = forms.TextInput(attrs={"class": "cell", "inputmode": "decimal"})

    def node(self) -> BudgetNode:
        """The one chosen."""
        return next(node for node in self.nodes if node.code == self.cleaned_data["at"])


class HouseForm(StrictForm):
    """How the organisation decides."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    root_rule = forms.ChoiceField(
        choices=House.RootRule.choices,
        label=gettext_lazy("Who decides what raises a program in which its author has a part"),
    )
    answer_days = forms.IntegerField(min_value=1, max_value=60, label=gettext_lazy("Days to answer a request"),
                                     help_text=gettext_lazy("Unanswered, it goes one level up by itself."))  # fmt: skip
    look_again_weeks = forms.IntegerField(
        min_value=1, max_value=52, label=gettext_lazy("Weeks until a decision is looked at again")
    )
    reason = forms.CharField(max_length=2_000, label=gettext_lazy("Reason, goes to the log"))
