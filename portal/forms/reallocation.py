"""The reallocation editor's form: a cell for each child, from when, why, and what one is doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext, gettext_lazy, ngettext_lazy

from budgets.models import BudgetNode, Person
from portal.formats import share
from portal.forms.strict import StrictForm
from portal.forms.typed import ShareField

DOES = ("recount", "evenly", "proportion", "unused", "back", "pin", "unpin", "whatif", "draft", "apply", "propose")
"""What the editor's buttons do; all but the last three only compute."""
WEEKS = (1, 2, 4, 8)
"""How much of the past a what-if may replay."""


class DayField(forms.DateField):
    """A day, typed or picked."""

    def __init__(self, **more: Any) -> None:
        """As a date input."""
        super().__init__(widget=forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}), **more)


class ReallocationForm(StrictForm):
    """Proposed shares of the children. `base_<id>` is what the child had when the page was read, so that a change by
    somebody else in the meantime can be laid beside it; a row that is kept is left alone by "take".
    """

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    draft = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)
    draft_version = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)
    request = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)
    do = forms.ChoiceField(choices=[(each, each) for each in DOES], widget=forms.HiddenInput)
    pins = forms.CharField(max_length=20_000, required=False, widget=forms.HiddenInput)
    simulation = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)
    weeks = forms.TypedChoiceField(
        choices=[
            (weeks, format_lazy(ngettext_lazy("{weeks} week", "{weeks} weeks", weeks), weeks=weeks)) for weeks in WEEKS
        ],
        coerce=int,
        required=False,
        initial=4,
        label=gettext_lazy("Replay the last"),
    )
    starts_on = DayField(label=gettext_lazy("From"))
    ends_on = DayField(
        label=gettext_lazy("Until"),
        required=False,
        help_text=gettext_lazy("The first day without it; empty is for good."),
    )
    reason = forms.CharField(
        max_length=2_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        label=gettext_lazy("Reason, goes to the log"),
        help_text=gettext_lazy("Everybody in the tree can read it."),
    )
    look_again_on = DayField(
        label=gettext_lazy("Look again on"),
        required=False,
        help_text=gettext_lazy("It is asked then whether it worked."),
    )
    acting_for = forms.ChoiceField(label=gettext_lazy("You decide"), required=False)

    def __init__(
        self,
        *args: Any,
        children: Sequence[BudgetNode],
        now: Mapping[int, int],
        ways: Sequence[Person | None],
        **kwargs: Any,
    ) -> None:
        """Offer a cell for each child, with its share in it; `ways` says for whom the person may decide."""
        super().__init__(*args, **kwargs)
        self.children = list(children)
        choices = [
            (
                "" if way is None else str(way.pk),
                gettext("in your own right") if way is None else gettext("for {way}").format(way=way),
            )
            for way in ways
        ]
        acting_for = self.fields["acting_for"]
        assert isinstance(acting_for, forms.ChoiceField)
        acting_for.choices = choices or [("", gettext("in your own right"))]
        if len(choices) < 2 and (not choices or choices[0][0] == ""):
            acting_for.widget = forms.HiddenInput()
        for child in self.children:
            self._offer(child, now.get(child.pk, 0))

    def _offer(self, child: BudgetNode, basis_points: int) -> None:
        """The fields of one child."""
        self.fields[cell(child)] = ShareField(
            label=f"Proposed share of {child.code}",
            initial=share(basis_points),
            widget=forms.TextInput(
                attrs={
                    "class": "cell",
                    "inputmode": "decimal",
                    "autocomplete": "off",
                    "aria-label": gettext("Proposed share of {child}, %").format(child=child.code),
                }
            ),
        )
        self.fields[f"base_{child.pk}"] = forms.IntegerField(
            min_value=0, max_value=10_000, initial=basis_points, required=False, widget=forms.HiddenInput
        )
        self.fields[f"keep_{child.pk}"] = forms.BooleanField(
            required=False, label=gettext("Keep {child} as it is").format(child=child.code)
        )
        self.error_fields = {**self.error_fields, f"shares[{child.code}]": cell(child)}

    def proposed(self) -> dict[int, int]:
        """Basis points by child id of the cells that could be read."""
        read = {child.pk: self.cleaned_data.get(cell(child)) for child in self.children}
        return {pk: points for pk, points in read.items() if points is not None}

    def kept(self) -> set[int]:
        """Ids of the children that are to be left alone."""
        return {child.pk for child in self.children if self.cleaned_data.get(f"keep_{child.pk}")}

    def base(self) -> dict[int, int]:
        """Basis points by child id as they were when the page was read."""
        return {child.pk: self.cleaned_data.get(f"base_{child.pk}") or 0 for child in self.children}

    def shares(self) -> dict[BudgetNode, int]:
        """Basis points by child, as typed."""
        return {child: self.cleaned_data[cell(child)] for child in self.children}


def cell(child: BudgetNode) -> str:
    """The name of a child's field."""
    return f"share_{child.pk}"
