"""Forms of importing shares: the file, and why it is applied."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy

from portal.forms.strict import StrictForm


class FileForm(StrictForm):
    """A file of shares."""

    file = forms.FileField(
        label=gettext_lazy("File"),
        help_text=gettext_lazy("CSV as a spreadsheet saves it: UTF-8; commas, semicolons or tabs."),
        allow_empty_file=True,
    )


class ApplyForm(StrictForm):
    """Why the previewed file is applied; `seen` names what the preview said."""

    seen = forms.RegexField(r"^[0-9a-f]{64}$", widget=forms.HiddenInput)
    reason = forms.CharField(
        max_length=2_000, widget=forms.Textarea(attrs={"rows": 3}), label=gettext_lazy("Reason, goes to the log"),
        help_text=gettext_lazy("Everybody in the tree can read it."),
    )  # fmt: skip
