"""Columns whose content is sealed in the database (budgets/sealing.py) and plain in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.db import models

from budgets.sealing import open_sealed, seal


def purpose_of(field: models.Field) -> str:
    """The name of the column, for which its key is derived: it must not change while anything is sealed there."""
    return f"{field.model._meta.label_lower}.{field.name}"


class Opened(Mapping[str, str]):
    """Sealed texts by their names. A text is opened when somebody reads it: names are told without a key."""

    def __init__(self, sealed: Mapping[str, str], purpose: str) -> None:
        """`sealed` as it is stored."""
        self.sealed, self._purpose = dict(sealed), purpose

    def __getitem__(self, name: str) -> str:
        return open_sealed(self.sealed[name], self._purpose)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sealed)

    def __len__(self) -> int:
        return len(self.sealed)

    def __repr__(self) -> str:
        return f"<sealed: {', '.join(self.sealed)}>"


class SealedTexts(models.JSONField):
    """Secret texts by name: an object whose values are sealed. Reads as a mapping that is opened where it is read."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """A mapping of names and texts."""
        stored = super().from_db_value(value, expression, connection)
        return Opened(stored, purpose_of(self)) if stored else stored

    def get_prep_value(self, value: Any) -> Any:
        """What is stored."""
        if isinstance(value, Opened):
            return super().get_prep_value(value.sealed)
        if isinstance(value, Mapping):
            value = {name: seal(text, purpose_of(self)) for name, text in value.items()}
        return super().get_prep_value(value)


class SealedText(models.TextField):
    """One secret text."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> str | None:
        """The text itself."""
        return None if value is None else open_sealed(value, purpose_of(self))

    def get_prep_value(self, value: Any) -> Any:
        """What is stored: sealed."""
        text = super().get_prep_value(value)
        return seal(text, purpose_of(self)) if text else text
