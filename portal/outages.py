"""When the portal cannot answer though nothing is wrong with the question: the database is away, its disk is full, or
its tables are not yet those of this version.

Then pages say so with 503 and when to come again, the API in a problem document, agents in their own words; nothing was
changed. While the database is away, one request a second asks whether it is back, and no other waits for that.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from enum import StrEnum

import psycopg
import structlog
from django.db import InterfaceError, OperationalError, ProgrammingError
from django.http import HttpRequest, HttpResponse
from django.utils import translation

from portal import migrated
from portal.views.errors import unavailable

log = structlog.get_logger(__name__)

ASK_EVERY_S = 1.0
AWAY_CLASSES = ("08", "57P01", "57P02", "57P03", "57P05", "53300")
"""SQLSTATEs, or their beginnings: connections that broke, servers that stop or start, or that take no more of us."""
FULL_STATES = ("53100", "58030")
NO_SUCH_TABLE_OR_COLUMN = ("42P01", "42703")
FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Trouble(StrEnum):
    """What keeps the portal from answering."""

    AWAY = "away"
    FULL = "full"
    UNFINISHED = "unfinished"


def trouble_of(error: BaseException | None) -> Trouble | None:
    """What of these an error comes from; None for any other error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL_ERRORS:
            return Trouble.FULL
        if isinstance(error, OperationalError | InterfaceError | ProgrammingError | psycopg.Error):
            return _of_database(error)
        error = error.__cause__
    return None


def _of_database(error: BaseException) -> Trouble | None:
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    state = getattr(cause, "sqlstate", None)
    if state is None:
        # No answer of the server at all: it was not reached, or went away within the conversation.
        is_lost = isinstance(error, OperationalError | InterfaceError | psycopg.OperationalError)
        return Trouble.AWAY if is_lost else None
    if state in FULL_STATES:
        return Trouble.FULL
    if state in NO_SUCH_TABLE_OR_COLUMN:
        return Trouble.UNFINISHED if watch.is_unfinished() else None
    return Trouble.AWAY if state.startswith(AWAY_CLASSES) else None


class Watch:
    """Whether the database is there, as this process knows.

    Attributes:
        back_s: when it came back last, by the clock that only goes forward; minus infinity if it was never away.
    """

    def __init__(self) -> None:
        self.back_s = float("-inf")
        self._lock = threading.Lock()
        self._is_away = False
        self._asked_s = float("-inf")

    def note(self, trouble: Trouble) -> None:
        """A request has met this."""
        if trouble is Trouble.AWAY and not self._is_away:
            log.error("database_away")
            self._is_away = True

    def trouble(self) -> Trouble | None:
        """What is known to be in the way of the next request. Asks the database at most once a second."""
        try:
            if self._is_away and not self._is_back():
                return Trouble.AWAY
            return None if migrated.is_up_to_date() else Trouble.UNFINISHED
        except psycopg.OperationalError:
            self.note(Trouble.AWAY)
            return Trouble.AWAY

    def is_unfinished(self) -> bool:
        """Whether tables are missing, as far as can be told."""
        try:
            return bool(migrated.missing())
        except psycopg.OperationalError:
            return False

    def _is_back(self) -> bool:
        with self._lock:
            if not self._is_away:
                return True
            if time.monotonic() - self._asked_s < ASK_EVERY_S:
                return False
            self._asked_s = time.monotonic()
        migrated.connected().close()
        self._is_away, self.back_s = False, time.monotonic()
        log.info("database_back")
        return True


watch = Watch()


def answer_in_trouble(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: 503 at once while it is known that nothing else can be said."""

    def answer(request: HttpRequest) -> HttpResponse:
        trouble = watch.trouble()
        if trouble is None:
            return get_response(request)
        with translation.override(translation.get_language_from_request(request)):  # whose it is cannot be asked now
            return unavailable(request, trouble)

    return answer
