"""The errors that services raise: bad input, a change that came too late, and what is not one's to decide."""

from __future__ import annotations

from django.utils.translation import gettext

LONGEST = 600


def one_line(text: str) -> str:
    """The text on one line that every page, terminal and log can hold: cut, and what cannot be printed written out."""
    cut = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    if cut.isprintable():
        return cut
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut)


class InputError(Exception):
    """Bad input: nothing was changed.

    Attributes:
        field: where it stands ("min_runtime_s", "rows[3].shares"); empty when it is about the whole.
        message: one sentence for the person who typed it.
    """

    def __init__(self, field: str, message: str) -> None:
        message = one_line(message)
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
