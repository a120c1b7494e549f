"""A Django database backend that says, in one line, that there is no database.

Used where DATABASE_URL is not set. `simulate`, `rank`, `generate` and the other commands on files never reach it.
"""

from typing import NoReturn

from django.core.exceptions import ImproperlyConfigured
from django.db.backends.dummy.base import DatabaseWrapper as DummyDatabaseWrapper


def refuse(*_args: object, **_kwargs: object) -> NoReturn:
    """Raise the one line that a person without a database is shown."""
    raise ImproperlyConfigured(
        "this needs a database: set DATABASE_URL, or start it with "
        "'.venv/bin/python -m portal.supervisor exec -- COMMAND', which uses the private one of ./run"
    )


class DatabaseWrapper(DummyDatabaseWrapper):
    """Every use of the connection is refused."""

    ensure_connection = refuse
    _cursor = refuse
    _commit = refuse
    _savepoint = refuse
