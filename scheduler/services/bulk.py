"""Storing very many rows of one table at once, by COPY: several times as fast as INSERT, under the same constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.db import connection, models

Row = TypeVar("Row", bound=models.Model)


def store(rows: Sequence[Row]) -> list[Row]:
    """Store new rows of one model and give them their keys, in the caller's transaction. Every column is written.

    The table's statistics are brought up to date, so that what is asked next, in the same transaction, is planned well.
    """
    if not rows:
        return []
    meta = rows[0]._meta
    fields = meta.concrete_fields
    names = ", ".join(connection.ops.quote_name(field.column or field.name) for field in fields)
    columns = [(field.attname, _change(field)) for field in fields]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, %s)) FROM generate_series(1, %s)",
            [meta.db_table, meta.pk.column, len(rows)],
        )
        for row, (pk,) in zip(rows, cursor.fetchall(), strict=True):
            row.pk = pk
        with cursor.copy(f"COPY {connection.ops.quote_name(meta.db_table)} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row([change(getattr(row, name)) for name, change in columns])
        cursor.execute(f"ANALYZE {connection.ops.quote_name(meta.db_table)}")
    return list(rows)


def _change(field: models.Field) -> Callable[[Any], Any]:
    """What makes the field's value one of the database's; most are as they are."""
    if isinstance(field, models.JSONField | models.DateTimeField):
        return lambda value: None if value is None else field.get_db_prep_save(value, connection)
    return lambda value: value
