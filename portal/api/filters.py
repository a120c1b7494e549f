"""Parameters of addresses: what the schema says of them and how they are read, in one place.

A view names its own in `filters`; what was said comes from `Api.asked()`, by name, None where nothing was. What can't
be read is 400 and names the parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from django.utils.translation import gettext
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError

from budgets.queries import FIRST_YEAR, LAST_YEAR

TEXT_MAX_CHARS = 80
WHOLE_MAX = 2**31 - 1


class Unreadable(Exception):
    """A value that a parameter can't have; the message is for who wrote it."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One parameter of a GET.

    Attributes:
        name: in the address.
        description: what it chooses.
        schema: what it may be, for the schema.
        read: makes its value of the text, or raises Unreadable.
    """

    name: str
    description: str
    schema: dict[str, Any]
    read: Callable[[str], Any]

    @property
    def parameter(self) -> OpenApiParameter:
        """As the schema has it."""
        return OpenApiParameter(self.name, self.schema, description=self.description)

    def value_of(self, text: str) -> Any:
        """What the address says; None if it says nothing.

        Raises:
            ValidationError: names the parameter.
        """
        if not text:
            return None
        try:
            return self.read(text)
        except Unreadable as error:
            raise ValidationError({self.name: [str(error)]}) from None


def text(name: str, description: str, *, at_most: int = TEXT_MAX_CHARS) -> Filter:
    """Any characters, so many of them at most."""

    def read(said: str) -> str:
        if len(said) > at_most or "\0" in said:
            raise Unreadable(gettext("must be at most {most} plain characters").format(most=at_most))
        return said.strip()

    return Filter(name, description, {"type": "string", "maxLength": at_most}, read)


def whole(name: str, description: str, *, at_least: int = 0, at_most: int = WHOLE_MAX) -> Filter:
    """A whole number within bounds."""

    def read(said: str) -> int:
        if not (said.isascii() and said.isdigit() and len(said) < 12 and at_least <= int(said) <= at_most):
            message = gettext("must be a whole number from {least} to {most}")
            raise Unreadable(message.format(least=at_least, most=at_most))
        return int(said)

    return Filter(name, description, {"type": "integer", "minimum": at_least, "maximum": at_most}, read)


def one_of(name: str, description: str, choices: Sequence[str]) -> Filter:
    """One of a few words."""
    allowed = [str(each) for each in choices]

    def read(said: str) -> str:
        if said not in allowed:
            raise Unreadable(
                gettext("{said!r} is none of {choices}").format(said=said[:TEXT_MAX_CHARS], choices=", ".join(allowed))
            )
        return said

    return Filter(name, description, {"type": "string", "enum": allowed}, read)


def flag(name: str, description: str) -> Filter:
    """true or false."""

    def read(said: str) -> bool:
        if said not in ("true", "false"):
            raise Unreadable(gettext("must be true or false"))
        return said == "true"

    return Filter(name, description, {"type": "boolean"}, read)


def day(name: str, description: str) -> Filter:
    """A day of the organisation, written 2026-07-02."""

    def read(said: str) -> date:
        try:
            found = date.fromisoformat(said)
            if FIRST_YEAR <= found.year <= LAST_YEAR:
                return found
        except ValueError:
            pass
        raise Unreadable(gettext("{said!r} is not a date such as 2026-07-02").format(said=said[:TEXT_MAX_CHARS]))

    return Filter(name, description, {"type": "string", "format": "date"}, read)


def instant(name: str, description: str) -> Filter:
    """An instant with its time zone, written 2026-07-02T14:20:00Z."""

    def read(said: str) -> datetime:
        try:
            found = datetime.fromisoformat(said)
            if found.tzinfo is not None and FIRST_YEAR <= found.year <= LAST_YEAR:
                return found.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
        raise Unreadable(
            gettext("{said!r} is not an instant such as 2026-07-02T14:20:00Z").format(said=said[:TEXT_MAX_CHARS])
        )

    return Filter(name, description, {"type": "string", "format": "date-time"}, read)
