"""How often passwords may be tried.

Three counts, of which only wrong tries stay: of one account from one address, of one address, and of one account from
anywhere. The last is what a stranger could lock somebody out with, so a browser in which the account's owner has
signed in before holds a cookie of ours and is counted by itself alone (OWASP's "device cookies"). A try is counted
before the password is looked at, so that many at once are no way around it.
"""

from __future__ import annotations

import secrets
import unicodedata
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address, ip_network
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth.backends import BaseBackend
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import salted_hmac

from portal import counters
from portal.counters import Limit

log = structlog.get_logger(__name__)

QUARTER_S, FIVE_MINUTES_S = 15 * 60, 5 * 60
OF_PAIR, OF_ADDRESS, OF_ACCOUNT, OF_DEVICE = 5, 50, 30, 10
"""Wrong tries: of one account from one address in five minutes; the others in a quarter of an hour."""
DEVICE_COOKIE = "known_device"
DEVICE_AGE_S = int(timedelta(days=180).total_seconds())
IPV6_PREFIX = 64
"""One household or machine has that much of IPv6."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A try that has been counted. `wait_s` is 0 where it may go on."""

    limits: tuple[Limit, ...]
    wait_s: int

    def take_back(self) -> None:
        """It does not count."""
        counters.add(self.limits, -1)

    def succeeded(self) -> None:
        """It was the right password: it does not count, and wrong ones before it are forgotten."""
        self.take_back()
        counters.forget([self.limits[0].key])


def begin(limits: tuple[Limit, ...]) -> Attempt:
    """Count a try at these; where that is one too many, it is not counted and has to wait."""
    found = counters.add(limits)
    waits = [again_s for limit, (count, again_s) in zip(limits, found, strict=True) if count > limit.most]
    if waits:
        counters.add(limits, -1)
    return Attempt(limits, max(waits, default=0))


def sign_in(request: HttpRequest, username: str) -> Attempt:
    """Count a try to sign in as somebody."""
    account, address = account_key(username), client_address(request)
    if device := known_device(request, account):
        return begin((Limit(f"sign-in:device:{device}", OF_DEVICE, QUARTER_S),))
    return begin(
        (
            Limit(f"sign-in:pair:{account}:{address}", OF_PAIR, FIVE_MINUTES_S),
            Limit(f"sign-in:address:{address}", OF_ADDRESS, QUARTER_S),
            Limit(f"sign-in:account:{account}", OF_ACCOUNT, QUARTER_S),
        )
    )


def coming_back(request: HttpRequest) -> Attempt:
    """Count a try to come back from an OpenID provider, which the portal asks each time."""
    return begin((Limit(f"sign-in:openid:{client_address(request)}", OF_ADDRESS, QUARTER_S),))


def own_password(person_id: int) -> Attempt:
    """Count a try at the password of somebody who is signed in, to change it."""
    return begin((Limit(f"sign-in:own:{person_id}", OF_DEVICE, QUARTER_S),))


class Limits(BaseBackend):
    """Asked before all other backends: whoever tries too often is refused, whatever the password."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **more: Any
    ) -> None:
        """Nobody is signed in by this.

        Raises:
            PermissionDenied: too many tries, or this portal takes no passwords; no other backend is asked then.
        """
        if request is None or username is None or password is None:
            return
        if not settings.HAS_PASSWORDS:
            raise PermissionDenied
        attempt = sign_in(request, username)
        request.sign_in_attempt = attempt  # type: ignore[attr-defined]
        if attempt.wait_s:
            log.warning("sign_in_refused", address=client_address(request), wait_s=attempt.wait_s)
            raise PermissionDenied


def attempt_of(request: HttpRequest) -> Attempt | None:
    """The try that this request was counted as."""
    found: Attempt | None = getattr(request, "sign_in_attempt", None)
    return found


# --- who tries --------------------------------------------------------------------------------------------------------


def account_key(username: str) -> str:
    """What is counted for a name, known or not; the broker holds no names."""
    plain = unicodedata.normalize("NFKC", username).strip()
    return salted_hmac("portal.sign_in_limits", plain, algorithm="sha256").hexdigest()[:32]


def client_address(request: HttpRequest) -> str:
    """Where a request comes from: behind a proxy, what the proxy says last. Of IPv6, the network."""
    said = request.META.get("REMOTE_ADDR", "")
    if settings.IS_BEHIND_PROXY:
        said = request.headers.get("X-Forwarded-For", said).rpartition(",")[2].strip() or said
    try:
        address = ip_address(said)
    except ValueError:
        return "unknown"
    if address.version == 6 and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address if address.version == 4 else ip_network((address, IPV6_PREFIX), strict=False))


def known_device(request: HttpRequest, account: str) -> str:
    """The id of this browser, if the account's owner has signed in with it before; else empty."""
    try:
        said = signing.loads(request.COOKIES.get(DEVICE_COOKIE, ""), salt="portal.sign_in_limits", max_age=DEVICE_AGE_S)
    except signing.BadSignature:
        return ""
    return str(said["device"]) if isinstance(said, dict) and said.get("account") == account else ""


def remember_device(request: HttpRequest, response: HttpResponse, username: str) -> None:
    """Let this browser be known as one in which that account's owner has signed in."""
    account = account_key(username)
    device = known_device(request, account) or secrets.token_hex(16)
    response.set_cookie(
        DEVICE_COOKIE,
        signing.dumps({"account": account, "device": device}, salt="portal.sign_in_limits"),
        max_age=DEVICE_AGE_S,
        path=settings.LOGIN_URL,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
