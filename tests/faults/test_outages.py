"""Which errors say that the portal cannot answer just now, and what is then said."""

from __future__ import annotations

import errno
import json

import psycopg
import pytest
from django.db import DataError, IntegrityError, InterfaceError, OperationalError, ProgrammingError
from django.test import RequestFactory

from portal.outages import Trouble, trouble_of
from portal.views.errors import unavailable

ERRORS = psycopg.errors


def of_django(kind: type[Exception], cause: Exception) -> Exception:
    """What Django makes of an error of the driver."""
    try:
        raise kind(str(cause)) from cause
    except kind as error:
        return error


def behind(cause: Exception) -> Exception:
    """Some error that another one is the cause of."""
    try:
        raise ValueError("could not") from cause
    except ValueError as error:
        return error


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (of_django(OperationalError, psycopg.OperationalError("connection refused")), Trouble.AWAY),
        (of_django(InterfaceError, psycopg.InterfaceError("the connection is closed")), Trouble.AWAY),
        (of_django(OperationalError, ERRORS.AdminShutdown("terminating")), Trouble.AWAY),
        (of_django(OperationalError, ERRORS.CannotConnectNow("starting up")), Trouble.AWAY),
        (of_django(OperationalError, ERRORS.TooManyConnections("too many clients")), Trouble.AWAY),
        (behind(of_django(OperationalError, psycopg.OperationalError("gone"))), Trouble.AWAY),
        (of_django(OperationalError, ERRORS.DiskFull("no space left")), Trouble.FULL),
        (OSError(errno.ENOSPC, "No space left on device"), Trouble.FULL),
        (of_django(OperationalError, ERRORS.DeadlockDetected("deadlock")), None),
        (of_django(OperationalError, ERRORS.QueryCanceled("too long")), None),
        (of_django(IntegrityError, ERRORS.UniqueViolation("twice")), None),
        (of_django(DataError, ERRORS.NumericValueOutOfRange("too large")), None),
        (of_django(ProgrammingError, ERRORS.SyntaxError("no SQL")), None),
        (OSError(errno.EACCES, "Permission denied"), None),
        (KeyError("a"), None),
        (None, None),
    ],
    ids=lambda value: type(getattr(value, "__cause__", None) or value).__name__,
)
def test_what_is_an_outage_and_what_is_a_fault_of_ours(error: Exception | None, trouble: Trouble | None) -> None:
    assert trouble_of(error) is trouble


@pytest.mark.parametrize("trouble", list(Trouble))
def test_each_is_said_in_a_line_and_when_to_ask_again(trouble: Trouble) -> None:
    factory = RequestFactory()
    page, form = unavailable(factory.get("/queue/"), trouble), unavailable(factory.post("/queue/"), trouble)
    api = unavailable(factory.get("/api/v1/clusters/"), trouble)
    assert [answer.status_code for answer in (page, form, api)] == [503, 503, 503]
    assert {answer.headers["Retry-After"] for answer in (page, form, api)} == {"5"}
    assert b'http-equiv="refresh"' in page.content
    assert b'http-equiv="refresh"' not in form.content  # nothing is sent twice by itself
    said = json.loads(api.content)
    assert (said["title"], said["status"]) == ("Not just now", 503)
    assert said["detail"].startswith("The portal's")
