"""Whether the database has the tables that this version of the portal expects.

A migration that was interrupted, or never made, is no reason to answer with something that is half right: until the
database is up to date the portal says so, and workers wait.
"""

from __future__ import annotations

import pkgutil
import time
from functools import cache
from importlib import import_module

import psycopg
import structlog
from django.apps import apps
from django.db import connection

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 2.0
CONNECT_TIMEOUT_S = 2

_is_up_to_date = False
_looked_s = float("-inf")
_missing: list[str] = []


@cache
def known() -> frozenset[tuple[str, str]]:
    """Every migration of this version, as (app, name), read from the folders: importing them all takes long."""
    found = set()
    for config in apps.get_app_configs():
        try:
            module = import_module(f"{config.name}.migrations")
        except ModuleNotFoundError:
            continue
        names = (each.name for each in pkgutil.iter_modules(module.__path__) if not each.ispkg)
        found |= {(config.label, name) for name in names if name[0] not in "_~"}
    return frozenset(found)


def connected() -> psycopg.Connection:
    """A connection of its own, whatever has become of the pool.

    Raises:
        psycopg.OperationalError: the server does not answer.
    """
    parameters = {**connection.get_connection_params(), "connect_timeout": CONNECT_TIMEOUT_S}
    return psycopg.connect(**parameters, autocommit=True)


def missing() -> list[str]:
    """Migrations of this version that the database has not had, in order; empty where it is up to date.

    Raises:
        psycopg.OperationalError: the server does not answer.
    """
    with connected() as own:
        try:
            applied = set(own.execute("SELECT app, name FROM django_migrations").fetchall())
        except psycopg.errors.UndefinedTable:
            applied = set()
    return sorted(f"{app}.{name}" for app, name in known() - applied)


def is_up_to_date() -> bool:
    """The same as a word, remembered once it is true, and not asked again within seconds until it is.

    Raises:
        psycopg.OperationalError: the server does not answer.
    """
    global _is_up_to_date, _looked_s, _missing
    if _is_up_to_date:
        return True
    if time.monotonic() - _looked_s >= LOOK_EVERY_S:
        _missing = missing()
        _looked_s = time.monotonic()
        _is_up_to_date = not _missing
        if _missing:
            log.warning("database_not_up_to_date", missing=len(_missing), first=_missing[0])
    return _is_up_to_date


def wait() -> None:
    """Return when the database is up to date."""
    while True:
        try:
            if is_up_to_date():
                return
        except psycopg.OperationalError as error:
            log.warning("database_away", error=str(error).strip())
        time.sleep(LOOK_EVERY_S)
