"""Django's PostgreSQL backend, which between tests may empty the tables that the product lets only grow.

The rules themselves stay in force while a test runs. The role of the test run must be a superuser, as the private
server's is.
"""

import time
from typing import Any

from django.db import OperationalError
from django.db.backends.postgresql.base import DatabaseWrapper as PostgresDatabaseWrapper
from django.db.backends.postgresql.operations import DatabaseOperations as PostgresDatabaseOperations

FLUSHES = 5
"""A request that a browser left behind may take tables in another order than we do: then one of the two gives way."""
LARGE_BYTES = 1_000_000
"""From here on a table is truncated: its dead rows would be read again by every test that follows."""

EMPTY_SQL = """
DO $$
DECLARE
    name text;
    has_rows boolean;
BEGIN
    FOREACH name IN ARRAY ARRAY[{names}] LOOP
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', name) INTO has_rows;
        IF pg_relation_size(quote_ident(name)) > {large} THEN
            EXECUTE format('TRUNCATE %I CASCADE', name);
        ELSIF has_rows THEN
            EXECUTE format('DELETE FROM %I', name);
        END IF;
    END LOOP;
END $$;
"""


class DatabaseOperations(PostgresDatabaseOperations):
    """Empties tables past their triggers, and only those that hold something."""

    def sql_flush(self, style: Any, tables: list[str], **kwargs: Any) -> list[str]:
        """The statements that empty tables, run in one transaction by Django.

        Truncating all of them is new files for hundreds of tables and indexes, about a second each time; most tests
        write to a few. The lock waits, as truncating does, for whoever still writes.
        """
        if not tables or kwargs.get("reset_sequences") or kwargs.get("allow_cascade"):
            statements = super().sql_flush(style, tables, **kwargs)
        else:
            names = ", ".join("'" + name.replace("'", "''") + "'" for name in tables)
            locked = ", ".join(self.quote_name(name) for name in tables)
            statements = [
                f"LOCK TABLE {locked} IN ACCESS EXCLUSIVE MODE;",
                EMPTY_SQL.format(names=names, large=LARGE_BYTES),
            ]
        return ["SET LOCAL session_replication_role = replica", *statements] if statements else []

    def execute_sql_flush(self, sql_list: list[str]) -> None:
        """Run them, again if we were the one who gave way."""
        for left in reversed(range(FLUSHES)):
            try:
                super().execute_sql_flush(sql_list)
            except OperationalError as error:
                if not left or "deadlock detected" not in str(error):
                    raise
                time.sleep(0.2)
            else:
                return


class DatabaseWrapper(PostgresDatabaseWrapper):
    """The backend."""

    ops_class = DatabaseOperations
