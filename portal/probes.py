"""Probes and scrapers: answered first, since they have to be when nothing else is, and by any host name."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import resolve

from portal.metrics_access import is_reader

HEALTHY, READY, METRICS = PATHS = ("/healthz", "/readyz", "/metrics")
"""Their answers name no host and lead nowhere."""


def answered_first(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: answers PATHS ahead of whatever looks at sessions, at tables or at whether the database is there.

    Only who may be an operator, and so may get details of `/readyz`, goes the long way. Whoever asks knows a machine by
    some address: the host that they name is not looked at.
    """
    own = urlsplit(settings.URL).netloc

    def answer(request: HttpRequest) -> HttpResponse:
        if request.path not in PATHS:
            return get_response(request)
        request.META["HTTP_HOST"] = own
        is_signed_in = settings.SESSION_COOKIE_NAME in request.COOKIES
        if request.path == READY and is_signed_in and not is_reader(request):
            return get_response(request)
        request.resolver_match = resolve(request.path)
        return request.resolver_match.func(request)

    return answer
