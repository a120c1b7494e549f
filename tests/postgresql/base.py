"""Django's PostgreSQL backend, which between tests may empty the tables that the product lets only grow.

The rules themselves stay in force while a test runs. The role of the test run must be a superuser, as the private
server's is.
"""

from typing import Any

from django.db.backends.postgresql.base import DatabaseWrapper as PostgresDatabaseWrapper
from django.db.backends.postgresql.operations import DatabaseOperations as PostgresDatabaseOperations


class DatabaseOperations(PostgresDatabaseOperations):
    """Empties tables past their triggers."""

    def sql_flush(self, *args: Any, **kwargs: Any) -> list[str]:
        """The statements that empty tables, run in one transaction by Django."""
        statements = super().sql_flush(*args, **kwargs)
        return ["SET LOCAL session_replication_role = replica", *statements] if statements else []


class DatabaseWrapper(PostgresDatabaseWrapper):
    """The backend."""

    ops_class = DatabaseOperations
