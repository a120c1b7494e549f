"""Probes and scrapers come by whatever address they know a machine by: the host they name is not looked at."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse

PATHS = ("/healthz", "/readyz", "/metrics")
"""Their answers name no host and lead nowhere."""


def any_host(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: takes what is asked of PATHS as asked of the portal's own address."""
    own = urlsplit(settings.URL).netloc

    def answer(request: HttpRequest) -> HttpResponse:
        if request.path in PATHS:
            request.META["HTTP_HOST"] = own
        return get_response(request)

    return answer
