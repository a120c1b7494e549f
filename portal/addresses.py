"""Refuses addresses that hold what no address of ours can, and bodies beyond all bounds: nothing behind has to expect
them.
"""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext

from portal.views import errors
from portal.web_client import BODY_MAX

NUL = "\0"
"""The one character that PostgreSQL keeps in no text."""
LONGEST = 8_000
"""Characters of a query; the longest that a page links to is a tree with all its nodes open."""


def refuse_strange(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: 400 for a NUL in the path or the query, and for a query that is far too long; 413 for a body that is,
    before any of it is read.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        if NUL in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            raise BadRequest(gettext("The address holds the character NUL, which nothing here is called by."))
        if len(request.META.get("QUERY_STRING", "")) > LONGEST:
            raise BadRequest(gettext("The address is too long to be one of ours."))
        if _size_of_body(request) > BODY_MAX:
            most = BODY_MAX // 1024 // 1024
            return errors.answer(request, 413, gettext("Nothing here takes more than {most} MiB.").format(most=most))
        return get_response(request)

    return answer


def _size_of_body(request: HttpRequest) -> int:
    try:
        return int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return 0
