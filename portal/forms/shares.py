"""The form with which a manager sets the shares of a node's children."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from django import forms

from budgets.models import BudgetNode
from portal.formats import share
from portal.forms.strict import StrictForm
from portal.forms.typed import ShareField


class SharesForm(StrictForm):
    """A share for each open child, the first day, the reason, and the version that was read."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    valid_from = forms.DateField(label="From", widget=forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}))
    reason = forms.CharField(
        max_length=2_000,
        widget=forms.Textarea(attrs={"rows": 3}),
        label="Reason, goes to the log",
        help_text="Everybody in the tree can read it.",
    )

    def __init__(self, *args: Any, children: Sequence[tuple[BudgetNode, int]], first_day: date, **kwargs: Any) -> None:
        """Offer a cell for each child, with its share of now in it."""
        super().__init__(*args, **kwargs)
        self.children = [child for child, _ in children]
        self.fields["valid_from"].initial = first_day
        for child, basis_points in children:
            self.fields[cell(child)] = ShareField(
                label=f"Proposed share of {child.code}",
                initial=share(basis_points),
                widget=forms.TextInput(
                    attrs={
                        "class": "cell",
                        "inputmode": "decimal",
                        "autocomplete": "off",
                        "aria-label": f"Proposed share of {child.code}, %",
                    }
                ),
            )
            self.error_fields = {**self.error_fields, f"shares[{child.code}]": cell(child)}

    def shares(self) -> dict[BudgetNode, int]:
        """Basis points by child, as typed."""
        return {child: self.cleaned_data[cell(child)] for child in self.children}


def cell(child: BudgetNode) -> str:
    """The name of a child's field."""
    return f"share_{child.pk}"
