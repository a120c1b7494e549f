"""Changing the sealing key: what older keys have sealed is sealed anew with the first one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from django.apps import apps
from django.db import connection, models, transaction

from budgets.models.sealed import SealedText, SealedTexts, purpose_of
from budgets.sealing import is_by_first_key, open_sealed, seal


@dataclass(frozen=True, slots=True)
class Column:
    """A column of secrets, and what was found in it.

    Attributes:
        name: its table and its own name.
        sealed: rows that hold a secret.
        older: of these, the rows that an older key had sealed.
    """

    name: str
    sealed: int
    older: int


def columns() -> Iterator[models.Field]:
    """Every column that holds secrets."""
    for model in apps.get_models():
        for field in model._meta.local_concrete_fields:
            if isinstance(field, SealedText | SealedTexts):
                yield field


def look() -> list[Column]:
    """How many secrets there are, and how many of them need an older key. Changes nothing.

    Raises:
        CannotOpen: one is sealed with a key that the settings do not name.
    """
    return [_walk(field, change=False) for field in columns()]


def seal_again() -> list[Column]:
    """Seal with the first key what an older one has sealed. What changes meanwhile is sealed with the first key anyway.

    Raises:
        CannotOpen: one is sealed with a key that the settings do not name; nothing is changed.
    """
    with transaction.atomic():
        return [_walk(field, change=True) for field in columns()]


def _walk(field: models.Field, *, change: bool) -> Column:
    table, column = field.model._meta.db_table, str(field.column)
    quoted, name = connection.ops.quote_name(table), connection.ops.quote_name(column)
    texts = isinstance(field, SealedTexts)
    empty = "{}" if texts else ""
    sealed = older = 0
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id, {name}::text FROM {quoted} WHERE {name} <> %s ORDER BY id", [empty])
        for pk, stored in cursor.fetchall():
            sealed += 1
            anew = _anew(stored, purpose_of(field), texts)
            if anew is None:
                continue
            older += 1
            if change:
                cursor.execute(
                    f"UPDATE {quoted} SET {name} = %s WHERE id = %s AND {name}::text = %s", [anew, pk, stored]
                )
    return Column(f"{table}.{column}", sealed, older)


def _anew(stored: str, purpose: str, texts: bool) -> str | None:
    """The same secrets by the first key; None where they are so already."""
    held: dict[str, str] = json.loads(stored) if texts else {"": stored}
    opened = {each: open_sealed(text, purpose) for each, text in held.items()}
    if all(is_by_first_key(text, purpose) for text in held.values()):
        return None
    anew = {each: seal(text, purpose) for each, text in opened.items()}
    return json.dumps(anew) if texts else anew[""]
