"""The form by which people change their own password."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import PasswordChangeForm
from django.core.exceptions import ValidationError
from django.utils.translation import gettext

from portal.forms.strict import OURS


class PasswordForm(PasswordChangeForm):
    """The old one, and the new one twice; what it must be like stands beside it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Labels end as they are written."""
        super().__init__(*args, **{"label_suffix": "", **kwargs})

    def clean(self) -> dict[str, Any]:
        """Refuse unknown fields, and the password that it was."""
        cleaned = super().clean() or {}
        unknown = sorted(set(self.data) - set(self.fields) - OURS)
        if unknown:
            raise ValidationError(gettext("There is no field {unknown!r} in this form.").format(unknown=unknown[0]))
        if cleaned.get("new_password1") and cleaned["new_password1"] == cleaned.get("old_password"):
            self.add_error("new_password1", gettext("is the one that you have"))
        return cleaned
