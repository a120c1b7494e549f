"""The form of a cluster's policy: a field for each knob. One that is empty is the knob's default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from budgets.errors import InputError
from portal import knob_words
from portal.forms.operating import REASON_LENGTH, SureForm
from portal.forms.typed import SHOWN, UnitsField, seconds_of
from portal.pages import new_action
from scheduler.engine import WORDS
from scheduler.knobs import KNOBS, Knob, Unit
from scheduler.services import policies

SEPARATORS = re.compile(r"[,;]")
"""Between the values of a list."""


class KnobDurationField(forms.CharField):
    """A duration with its unit, in whole seconds: a number alone would be seconds to some and minutes to others."""

    def to_python(self, value: Any) -> Any:
        """Seconds; None of nothing."""
        text = super().to_python(value)
        return seconds(text) if text else None


class KnobDurationsField(forms.CharField):
    """Several of them."""

    def to_python(self, value: Any) -> Any:
        """A list of seconds; None of nothing."""
        return [seconds(each) for each in parts(super().to_python(value))] or None


class NumbersField(forms.CharField):
    """Several whole numbers."""

    def to_python(self, value: Any) -> Any:
        """A list; None of nothing."""
        found = parts(super().to_python(value))
        for each in found:
            if not re.fullmatch(r"\d{1,12}", each, re.ASCII):
                said = gettext("{text!r} is not a whole number; write them as 3250, 7200")
                raise forms.ValidationError(said.format(text=each[:SHOWN]))
        return [int(each) for each in found] or None


class NamesField(forms.CharField):
    """Several names."""

    def to_python(self, value: Any) -> Any:
        """A list; None of nothing."""
        return parts(super().to_python(value)) or None


class FactorField(forms.CharField):
    """A number such as 0.5 or 1/2, as text; a comma will do for the point."""

    def to_python(self, value: Any) -> Any:
        """Text; None of nothing."""
        return (super().to_python(value) or "").replace(",", ".") or None


class KnobsForm(SureForm):
    """`values` are all knobs' values in the version that the form is made from, as `policies.effective` has them."""

    version = forms.IntegerField(min_value=1, max_value=2**31 - 1, widget=forms.HiddenInput)
    back = forms.BooleanField(required=False, widget=forms.HiddenInput)
    reason = forms.CharField(max_length=REASON_LENGTH, label=gettext_lazy("Reason, goes to the log"))

    def __init__(self, *args: Any, values: Mapping[str, Any], version: int, **more: Any) -> None:
        """Filled in with the values, and with `initial` over them."""
        initial = {"version": version, "action": new_action(), **typed(values), **more.pop("initial", {})}
        super().__init__(*args, initial=initial, **more)
        self.values = values
        for knob in KNOBS.values():
            self.fields[knob.name] = field_of(knob)

    def clean(self) -> dict[str, Any]:
        """All that is wrong with a knob by itself is said at once."""
        said = super().clean()
        if "version" in self.errors:
            self.add_error(None, gettext("Say from which version it is changed."))
        for knob in KNOBS.values():
            if knob.name in said:
                value = said[knob.name]
                try:
                    is_empty = value in (None, "")
                    said[knob.name] = policies.DEFAULTS[knob.name] if is_empty else policies.checked(knob.name, value)
                except InputError as error:
                    self.add_error(knob.name, error.message)
        return said

    def changes(self) -> dict[str, Any]:
        """The knobs that have another value than in the version, as the service takes them."""
        return {name: self.cleaned_data[name] for name in KNOBS if self.cleaned_data[name] != self.values[name]}

    def take(self, error: InputError) -> None:
        """Another version in force is nobody's field."""
        if error.field == "version":
            self.add_error(None, error.message)
        else:
            super().take(error)


def typed(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as they are typed into the fields."""
    return {name: knob_words.typed(KNOBS[name], value) for name, value in values.items()}


def field_of(knob: Knob) -> forms.Field:
    """What reads its value."""
    default = knob_words.typed(knob, policies.DEFAULTS[knob.name])
    about = {
        "aria-describedby": f"about-{knob.name} id_{knob.name}_error",
        "autocomplete": "off",
        "spellcheck": "false",
    }
    said: dict[str, Any] = {"required": False, "label": knob.title}
    if knob.choices:
        choices = [(word, f"{word}: {meaning}") for word, meaning in knob.choices.items()]
        return forms.ChoiceField(choices=choices, widget=forms.Select(attrs=about), **said)
    if knob.unit is Unit.DEVICE_SECONDS:
        widget: forms.Widget = forms.Textarea(attrs={**about, "rows": 1, "placeholder": default})
        return NumbersField(widget=widget, **said)
    widget = forms.TextInput(attrs={**about, "placeholder": default, **_wide_or_not(knob)})
    if knob.type == WORDS:
        return NamesField(widget=widget, **said)
    if knob.unit is Unit.SECONDS:
        return (KnobDurationsField if knob.is_list else KnobDurationField)(widget=widget, **said)
    if knob.unit is Unit.DEVICE_MILLI:
        return UnitsField(widget=widget, **said)
    if knob.type is Fraction:
        return FactorField(widget=widget, **said)
    return forms.IntegerField(widget=widget, **said)


def _wide_or_not(knob: Knob) -> dict[str, str]:
    return {} if knob.is_list else {"class": "cell"}


def seconds(text: str) -> int:
    """Whole seconds of "7 d" or "1 h 30 min"; 0 needs no unit.

    Raises:
        ValidationError: it is no duration, or has no unit.
    """
    if re.fullmatch(r"\d+", text, re.ASCII) and text.strip("0"):
        said = gettext("Say the unit too: {number} s, {number} min, {number} h or {number} d.")
        raise forms.ValidationError(said.format(number=text[:SHOWN]))
    try:
        return seconds_of(text)
    except ValueError as error:
        raise forms.ValidationError(str(error)) from None


def parts(text: str | None) -> list[str]:
    """What stands between the commas of a list."""
    return [each.strip() for each in SEPARATORS.split(text or "") if each.strip()]
