"""The errors that services raise: bad input, a change that came too late, and what is not one's to decide."""

from __future__ import annotations

from django.utils.translation import gettext


class InputError(Exception):
    """Bad input: nothing was changed.

    Attributes:
        field: where it stands ("min_runtime_s", "rows[3].shares"); empty when it is about the whole.
        message: one sentence for the person who typed it.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


class ConflictError(InputError):
    """The change was made from a version that is no longer the current one (409): nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__("version", message)


class NotAllowed(InputError):
    """The person may not do that (403 where they may see it, else 404): nothing was changed."""

    def __init__(self, action: str, message: str = "") -> None:
        super().__init__("", message or gettext("this is not yours to decide"))
        self.action = action
