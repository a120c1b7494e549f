"""Which rules of the advisor refuse programs on a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from portal.forms.strict import StrictForm
from scheduler.services.advice import REASON_MAX_CHARS


class RuleForm(StrictForm):
    """One rule, and why it refuses from now on, or warns again."""

    error_fields = {"rules": "rule"}

    rule = forms.ChoiceField(label=gettext_lazy("Rule"))
    reason = forms.CharField(
        max_length=REASON_MAX_CHARS,
        label=gettext_lazy("Reason, goes to the log"),
        help_text=gettext_lazy("Whoever is refused reads it, with your name."),
    )

    def __init__(self, *args: Any, rules: Iterable[str], **kwargs: Any) -> None:
        """Offer these rules."""
        super().__init__(*args, **kwargs)
        rule = self.fields["rule"]
        assert isinstance(rule, forms.ChoiceField)
        rule.choices = [(each, each) for each in rules]
