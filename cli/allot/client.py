"""Requests to the portal's API: what is asked again, and what an answer that is no success means.

Certificates are verified, redirections are not followed (a token goes where it was meant to and nowhere else), and
proxies are those of the environment, except for this machine itself. What is asked again after a failed connection is
only what can be: reading, and writing under an idempotency key, which the portal carries out once however often it
hears of it.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import ssl
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from allot import __version__
from allot.failures import CONFLICT, FAILED, NOT_ALLOWED, NOT_FOUND, UNREACHABLE, USAGE, Failure
from allot.settings import LOOPBACK, Settings

API = "/api/v1/"
WAITS_S = (0.3, 1.0, 2.5)
"""Before a request is sent again, somewhat more or less."""
AGAIN = (429, 502, 503, 504)
"""Answers that say: not now."""
LONGEST_WAIT_S = 20.0
PAGE_LIMIT = 200
CODES = {400: USAGE, 401: NOT_ALLOWED, 403: NOT_ALLOWED, 404: NOT_FOUND, 409: CONFLICT, 410: NOT_FOUND, 412: CONFLICT,
         413: USAGE, 422: USAGE, 428: CONFLICT, 429: UNREACHABLE}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """A success: the JSON that came, None where there was none, and the headers."""

    status: int
    body: Any
    headers: Mapping[str, str]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirection is an answer like any other."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Never."""


class Portal:
    """The API of one portal, as one person.

    Args:
        settings: where, and who.
        tries: how often a request that can be sent again is sent at most.
    """

    def __init__(self, settings: Settings, tries: int = 1 + len(WAITS_S)) -> None:
        self.settings, self.tries = settings, tries
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if urlsplit(settings.url).hostname in LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({}))
        if settings.url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=trusting(settings.ca_file)))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, *path: str, **params: Any) -> Any:
        """What is at that address; parts of the path are quoted, parameters that are None left out."""
        return self.send("GET", *path, params=params).body

    def post(self, *path: str, body: Any = None) -> Any:
        """Do something, once."""
        return self.send("POST", *path, body={} if body is None else body, key=new_key()).body

    def pages(self, *path: str, most: int | None = None, **params: Any) -> Iterator[Any]:
        """The rows of a list that comes page by page, at most so many."""
        left = most
        params = {**params, "limit": PAGE_LIMIT if left is None else min(PAGE_LIMIT, left)}
        while left is None or left > 0:
            page = self.get(*path, **params)
            rows = page["results"]
            yield from rows if left is None else rows[:left]
            left = None if left is None else left - len(rows)
            # Only what the next address asks: the host in it may be one that a proxy made up.
            following = dict(parse_qsl(urlsplit(page.get("next") or "").query))
            if "cursor" not in following:
                return
            params = {**params, **following}

    def send(
        self,
        method: str,
        *path: str,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request, sent again where that is safe.

        Args:
            method: GET, POST, PATCH, DELETE.
            path: parts of the address below /api/v1/.
            params: of the address.
            body: becomes JSON; None sends none.
            key: the idempotency key of something that is to be done once.
            headers: more of them.

        Raises:
            Failure: no answer, or one that is no success.
        """
        request = self._request(
            method, path, params, body, {**(headers or {}), **({"Idempotency-Key": key} if key else {})}
        )
        tries = self.tries if method in ("GET", "HEAD") or key else 1
        for left in range(tries - 1, -1, -1):
            wait_s = WAITS_S[min(tries - 1 - left, len(WAITS_S) - 1)] * random.uniform(0.8, 1.2)
            try:
                with self._opener.open(request, timeout=self.settings.timeout_s) as response:
                    return self._read(response)
            except urllib.error.HTTPError as error:
                is_at_it = error.code == 409 and key and "Retry-After" in error.headers
                if not left or not (error.code in AGAIN or is_at_it):
                    raise self._failure(error) from None
                wait_s = _asked_to_wait_s(error.headers.get("Retry-After", ""), wait_s)
            except (OSError, http.client.HTTPException) as error:
                if not left or not _may_pass(error):
                    raise self._unreachable(error) from None
            time.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    def _request(
        self,
        method: str,
        path: tuple[str, ...],
        params: Mapping[str, Any] | None,
        body: Any,
        headers: Mapping[str, str],
    ) -> urllib.request.Request:
        url = self.settings.url + API + "".join(f"{quote(part, safe='')}/" for part in path)
        query = urlencode({name: _text(value) for name, value in (params or {}).items() if value is not None})
        request = urllib.request.Request(f"{url}?{query}" if query else url, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        request.add_header("Accept", "application/json, application/problem+json")
        request.add_header("Accept-Language", "en")
        request.add_header("User-Agent", f"allot/{__version__}")
        # Unredirected: not even a handler that followed a redirection would carry it on.
        request.add_unredirected_header("Authorization", f"Bearer {self.settings.token}")
        for name, value in headers.items():
            request.add_header(name, value)
        return request

    def _read(self, response: Any) -> Answer:
        data = response.read()
        kind = response.headers.get_content_type()
        if not data:
            return Answer(response.status, None, response.headers)
        try:
            if "json" in kind:
                return Answer(response.status, json.loads(data), response.headers)
        except ValueError:
            pass
        url = self.settings.url
        raise Failure(f"{url} answers, but not as Allotment does ({kind}): is that its address?", UNREACHABLE)

    def _failure(self, error: urllib.error.HTTPError) -> Failure:
        """What an answer that is no success means."""
        code = error.code
        with error:
            try:
                problem = json.loads(error.read())
            except (ValueError, OSError, http.client.HTTPException):
                problem = None
        if 300 <= code < 400:
            where = error.headers.get("Location", "")
            return Failure(f"{self.settings.url} sends on to {where}: run `allot login` with that address", UNREACHABLE)
        if not isinstance(problem, dict):
            return self._strange(code)
        if code == 401:
            return Failure(
                f"{self.settings.url} does not accept the token: {_said(problem)} Run `allot login`.", NOT_ALLOWED
            )
        errors = [
            (str(each.get("field", "")), str(each.get("message", "")))
            for each in problem.get("errors") or []
            if isinstance(each, dict)
        ]
        exit_code = CODES.get(code, UNREACHABLE if code >= 500 else FAILED)
        return Failure(_said(problem), exit_code, errors, may_pass=exit_code == UNREACHABLE)

    def _strange(self, code: int) -> Failure:
        """No problem document: a proxy, another server, or a portal that can't say more."""
        url = self.settings.url
        if code in (401, 403):
            return Failure(
                f"{url} refuses (HTTP {code}), and not as Allotment does: is a proxy in between?", NOT_ALLOWED
            )
        if code == 404:
            return Failure(f"there is no API of Allotment at {url} (HTTP 404): is that its address?", UNREACHABLE)
        if code == 407:
            return Failure("the proxy asks for a name and password (HTTP 407)", UNREACHABLE)
        return Failure(f"{url} is in trouble (HTTP {code})", UNREACHABLE, may_pass=code >= 500 or code in AGAIN)

    def _unreachable(self, error: Exception) -> Failure:
        url = self.settings.url
        reason = why(error, urlsplit(url).hostname or "")
        return Failure(f"{url} can't be reached: {reason}", UNREACHABLE, may_pass=_may_pass(error))


def trusting(ca_file: str) -> ssl.SSLContext:
    """What certificates are checked against.

    Raises:
        Failure: the file of authorities can't be read.
    """
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ValueError) as error:
        is_there = isinstance(error, (ssl.SSLError, ValueError))
        reason = "no certificates in it" if is_there else getattr(error, "strerror", None)
        raise Failure(f"the file of certificates {ca_file}: {reason}", USAGE) from None


def why(error: Exception, host: str) -> str:
    """What kept a request from being answered, in a few words."""
    reason: Any = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        hint = " (a certificate authority of your own: ALLOT_CA_FILE, or `allot login --ca-file`)"
        wrong_name = "match" in reason.verify_message
        return f"its certificate is not trusted: {reason.verify_message}{'' if wrong_name else hint}"
    if isinstance(reason, ssl.SSLError):
        return f"no encrypted connection: {(reason.reason or str(reason)).lower().replace('_', ' ')}"
    if isinstance(reason, socket.gaierror):
        return f"there is no host {host}"
    if isinstance(reason, (socket.timeout, TimeoutError)):
        return "it does not answer in time"
    if isinstance(reason, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(reason, (http.client.HTTPException, ConnectionError)):
        return "the connection broke off"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror.lower()
    return str(reason)


def new_key() -> str:
    """A key under which something is done once."""
    return uuid.uuid4().hex


def _may_pass(error: Exception) -> bool:
    """Whether the same request may get through in a moment: not with a wrong name or certificate."""
    reason: Any = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, socket.gaierror):
        return reason.errno == socket.EAI_AGAIN
    return not isinstance(reason, ssl.SSLCertVerificationError)


def _asked_to_wait_s(text: str, otherwise: float) -> float:
    return min(float(text), LONGEST_WAIT_S) if text.isascii() and text.isdigit() else otherwise


def _said(problem: Mapping[str, Any]) -> str:
    return str(problem.get("detail") or problem.get("title") or "refused")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
