"""Django's `migrate`, one at a time: whoever comes second waits, and finds the work done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.core.management.commands import migrate
from django.db import connections
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import ProjectState

MIGRATE_LOCK = 0x414C04
"""Class of the advisory lock that whoever migrates holds (others: scheduler/services/events.py)."""


class Executor(MigrationExecutor):
    """Django's, but a migration is written into the books by the transaction that makes it.

    Where a migration leaves constraints to its end, Django writes it down only after the commit: whoever is killed
    between the two leaves tables that the next one finds there already.
    """

    def apply_migration(
        self, state: ProjectState, migration: Migration, fake: bool = False, fake_initial: bool = False
    ) -> ProjectState:
        """Make one, with what it leaves to its end."""
        apply = migration.apply

        def apply_whole(
            state: ProjectState, schema_editor: BaseDatabaseSchemaEditor, collect_sql: bool = False
        ) -> ProjectState:
            state = apply(state, schema_editor, collect_sql)
            while schema_editor.deferred_sql:
                schema_editor.execute(schema_editor.deferred_sql.pop(0), None)
            return state

        migration.apply = apply_whole  # type: ignore[assignment]
        try:
            return super().apply_migration(state, migration, fake=fake, fake_initial=fake_initial)
        finally:
            del migration.apply


migrate.MigrationExecutor = Executor  # type: ignore[attr-defined]  # Django's command asks its own module for it


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
