"""The one error that bad input raises in every service."""

from __future__ import annotations


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
