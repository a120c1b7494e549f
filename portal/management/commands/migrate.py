"""Django's `migrate`, one at a time: whoever comes second waits, and finds the work done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.core.management.commands import migrate
from django.db import connections

MIGRATE_LOCK = 0x414C04
"""Class of the advisory lock that whoever migrates holds (others: scheduler/services/events.py)."""


class Command(migrate.Command):
    """The same, behind a lock of the database, which ends with the process however that ends."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate when nobody else does."""
        with self.the_only_one(options["database"]):
            super().handle(*args, **options)

    @contextmanager
    def the_only_one(self, alias: str) -> Iterator[None]:
        """Hold the lock, on a connection of its own: migrations open and close theirs."""
        if connections[alias].vendor != "postgresql":
            yield  # there is none: Django says so
            return
        parameters = connections[alias].get_connection_params()
        try:
            own = psycopg.connect(**parameters, autocommit=True)
        except psycopg.OperationalError:
            yield  # Django says what is wrong
            return
        with own:
            row = own.execute("SELECT pg_try_advisory_lock(%s, 0)", [MIGRATE_LOCK]).fetchone()
            if row is None or not row[0]:
                self.stderr.write("Another migration is under way: waiting for its end.")
                own.execute("SELECT pg_advisory_lock(%s, 0)", [MIGRATE_LOCK])
            yield
