"""Whether the database answers, asked beside the pool: that one waits for a connection longer than a probe may."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection

CONNECT_S = 2
"""Seconds until the database counts as away."""
OF_DJANGO = ("cursor_factory", "context", "prepare_threshold")
"""What Django says of connections that is no part of an address."""


@contextmanager
def asking(within_s: int = CONNECT_S) -> Iterator[psycopg.Cursor[Any]]:
    """A connection of its own for a few quick questions.

    Raises:
        psycopg.Error: it does not answer in time.
    """
    known = connection.get_connection_params() if connection.vendor == "postgresql" else {}
    params = {name: value for name, value in known.items() if name not in OF_DJANGO}
    options = f"-c statement_timeout={within_s * 1_000}"
    with (
        psycopg.connect(**{**params, "connect_timeout": within_s, "options": options}, autocommit=True) as own,
        own.cursor() as cursor,
    ):
        yield cursor


def answers() -> bool:
    """Whether it answers at once."""
    return took_s() is not None


def took_s() -> float | None:
    """How long an answer took; None where there is none."""
    began_s = time.perf_counter()
    try:
        with asking() as cursor:
            cursor.execute("SELECT 1")
    except (psycopg.Error, OSError):
        return None
    return time.perf_counter() - began_s
