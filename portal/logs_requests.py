"""Outermost middleware: each request has an id, and one line of the log with how long it took."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

from portal import metrics_http
from portal.logs import ID_FORMAT, Current, current_request

ID_HEADER = "X-Request-ID"
QUIET = ("/static/", "/healthz", "/readyz", "/metrics", "/api/v1/agent/")
"""What goes well there is asked all the time, and would be all there is to read."""

log = structlog.get_logger(__name__)


class RequestLog:
    """Takes over the id that a proxy gave, or draws one; every line until the answer carries it, and the answer too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """`get_response` is what answers."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """The answer, which names the id."""
        began_s = time.perf_counter()
        given = request.headers.get(ID_HEADER, "")
        current = Current(given if ID_FORMAT.fullmatch(given) else uuid.uuid4().hex, request)
        token = current_request.set(current)
        try:
            response = self.get_response(request)
            response.headers[ID_HEADER] = current.id
            took_s = time.perf_counter() - began_s
            match = request.resolver_match
            metrics_http.observe(match.route if match else None, request.method or "", response.status_code, took_s)
            _write(request, response, took_s)
            return response
        finally:
            current_request.reset(token)


def client_of(request: HttpRequest) -> str:
    """The address that asked, as the nearest proxy saw it; unproved where there is none in front."""
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2].strip()
    return forwarded or request.META.get("REMOTE_ADDR", "")


def _write(request: HttpRequest, response: HttpResponse, took_s: float) -> None:
    is_quiet = request.path.startswith(QUIET) and response.status_code < 400
    write = log.debug if is_quiet else log.warning if response.status_code >= 500 else log.info
    write(
        "request",
        method=request.method,
        path=request.path,
        status=response.status_code,
        ms=round(took_s * 1_000, 1),
        client=client_of(request),
    )
