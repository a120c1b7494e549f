"""Refuses addresses that hold what no address of ours can: nothing behind has to expect it."""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext

NUL = "\0"
"""The one character that PostgreSQL keeps in no text."""
LONGEST = 8_000
"""Characters of a query; the longest that a page links to is a tree with all its nodes open."""


def refuse_strange(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: 400 for a NUL in the path or the query, and for a query that is far too long."""

    def answer(request: HttpRequest) -> HttpResponse:
        if NUL in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            raise BadRequest(gettext("The address holds the character NUL, which nothing here is called by."))
        if len(request.META.get("QUERY_STRING", "")) > LONGEST:
            raise BadRequest(gettext("The address is too long to be one of ours."))
        return get_response(request)

    return answer
