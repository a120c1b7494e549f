"""The form of minima, maxima and weights: a row for each child of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from budgets.errors import InputError
from budgets.models import BudgetNode
from portal.forms.strict import StrictForm
from portal.pages import new_action
from scheduler.services.limits import NO_LIMITS, Limits

MILLI = 1_000
MOST = 10**9


class LimitsForm(StrictForm):
    """`children` get three fields each; an empty one is none."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=2_000)

    def __init__(
        self, *args: Any, children: Sequence[BudgetNode], limits: Mapping[int, Limits], version: int, **more: Any
    ) -> None:
        """Filled in with what is in force."""
        initial: dict[str, Any] = {"version": version, "action": new_action()}
        for child in children:
            found = limits.get(child.pk, NO_LIMITS)
            initial[f"minimum-{child.code}"] = found.minimum_milli // MILLI or None
            if found.maximum_milli is not None:
                initial[f"maximum-{child.code}"] = found.maximum_milli // MILLI
            if found.factor_milli != NO_LIMITS.factor_milli:
                initial[f"weight-{child.code}"] = f"{Decimal(found.factor_milli) / MILLI:f}"
        super().__init__(*args, initial=initial, **more)
        self.children = children
        for child in children:
            for name, label in (("minimum", gettext("Minimum of {code}")), ("maximum", gettext("Maximum of {code}"))):
                self.fields[f"{name}-{child.code}"] = forms.IntegerField(
                    min_value=0, max_value=MOST, required=False, label=label.format(code=child.code), widget=_number()
                )
            self.fields[f"weight-{child.code}"] = forms.DecimalField(
                min_value=Decimal("0.001"),
                max_value=Decimal(MILLI),
                decimal_places=3,
                required=False,
                label=gettext("Weight of {code}").format(code=child.code),
                widget=_number(),
            )

    @property
    def rows(self) -> list[tuple[BudgetNode, list[forms.BoundField]]]:
        """Each child with its fields."""
        return [
            (child, [self[f"{name}-{child.code}"] for name in ("minimum", "maximum", "weight")])
            for child in self.children
        ]

    def limits(self) -> dict[BudgetNode, Limits]:
        """What was typed, by child."""
        found = {}
        for child in self.children:
            minimum, maximum, weight = (
                self.cleaned_data[f"{name}-{child.code}"] for name in ("minimum", "maximum", "weight")
            )
            found[child] = Limits(
                minimum_milli=(minimum or 0) * MILLI,
                maximum_milli=None if maximum is None else maximum * MILLI,
                factor_milli=NO_LIMITS.factor_milli if weight is None else int(weight * MILLI),
            )
        return found

    def take(self, error: InputError) -> None:
        """Show a service's error beside the child's field."""
        child, _, field = error.field.removeprefix("limits[").partition("].")
        name = {"minimum_milli": "minimum", "maximum_milli": "maximum", "factor_milli": "weight"}.get(field)
        if name is not None and f"{name}-{child}" in self.fields:
            self.add_error(f"{name}-{child}", error.message)
        elif error.field in ("limits", "version"):
            self.add_error(None, error.message)
        else:
            super().take(error)


def _number() -> forms.TextInput:
    return forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"})
