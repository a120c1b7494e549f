"""Signing in with an OpenID provider: authorization code with PKCE (S256), state, nonce, and a checked ID token.

authlib speaks to the provider. What a try needs until it comes back (state, nonce, verifier, where to go on) is in a
signed cookie of that browser, so that a visitor who never comes back leaves nothing here.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests
import structlog
from authlib.integrations.base_client import OAuthError
from authlib.integrations.django_client.apps import DjangoOAuth2App
from authlib.integrations.django_client.integration import DjangoIntegration
from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext
from joserfc.errors import JoseError

from budgets.models import Person
from budgets.services.identities import Rules, Said
from portal import sign_in_limits
from portal.settings_signing import OpenId

log = structlog.get_logger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that an ID token may have: a provider's key makes them, and nobody who knows a shared secret."""
BASIC, POST = "client_secret_basic", "client_secret_post"
LEEWAY_S = 60
"""By so much the provider's clock may differ from ours."""
TIMEOUT_S = 5
KNOWN_FOR_S = 3_600
"""The provider's addresses and keys are asked for again after so long, and at once where a key is not known."""
LEFT_ALONE_S = 5
TRY_S = 600
"""A try has to come back within that."""
COOKIE = "openid_"
SALT, LINK_SALT = "portal.openid", "portal.openid.link"


class NotSignedIn(Exception):
    """Why nobody was signed in, in a sentence for whoever tried.

    Attributes:
        status: 400 for what doesn't fit, 403 for a no, 429 for too often, 502 where the provider is in trouble.
        wait_s: when to try again, where that is known.
    """

    def __init__(self, status: int, message: str, wait_s: int = 0) -> None:
        super().__init__(message)
        self.status, self.message, self.wait_s = status, message, wait_s


@dataclass(frozen=True, slots=True)
class Try:
    """What a browser carries until it comes back."""

    state: str
    nonce: str
    code_verifier: str
    following: str
    links: int = 0
    """The number of the person who wants to link this to their account; 0 is signing in."""


def ours() -> OpenId:
    """The provider as it is configured.

    Raises:
        LookupError: none is.
    """
    said: OpenId | None = settings.OPEN_ID
    if said is None:
        raise LookupError("no OpenID provider is configured")
    return said


class Provider(DjangoOAuth2App):
    """The configured provider. Its own description must name it, and says no algorithm that we would not take."""

    def load_server_metadata(self) -> dict[str, Any]:
        """Its description, once it has been checked.

        Raises:
            NotSignedIn: it describes somebody else.
        """
        found: dict[str, Any] = super().load_server_metadata()
        if found.get("issuer") != ours().issuer:
            log.error("openid_issuer_differs", issuer=str(found.get("issuer"))[:200])
            self.server_metadata.clear()
            raise trouble()
        said = found.get("id_token_signing_alg_values_supported") or ["RS256"]
        found["id_token_signing_alg_values_supported"] = [each for each in ALGORITHMS if each in said]
        methods = found.get("token_endpoint_auth_methods_supported") or [BASIC]
        if self.client_secret and BASIC not in methods and POST in methods:
            self.client_kwargs["token_endpoint_auth_method"] = POST
        return found


_left_alone_until = 0.0
_made: dict[tuple[str, ...], tuple[Provider, float]] = {}


def provider() -> Provider:
    """The configured provider, asked again for what it says of itself once an hour."""
    said = ours()
    key = (said.issuer, said.client_id, said.client_secret, said.scopes)
    kept = _made.get(key)
    if kept is None or time.monotonic() - kept[1] > KNOWN_FOR_S:
        made = Provider(
            DjangoIntegration("openid"),
            name="openid",
            client_id=said.client_id,
            client_secret=said.client_secret or None,
            server_metadata_url=f"{said.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": said.scopes,
                "code_challenge_method": "S256",
                "default_timeout": TIMEOUT_S,
                "token_endpoint_auth_method": BASIC if said.client_secret else "none",
            },
        )
        kept = _made[key] = (made, time.monotonic())
    return kept[0]


def begin(callback: str, following: str, links: int = 0) -> tuple[str, Try]:
    """Where to send the browser, and what it carries.

    Args:
        callback: our address that the provider sends it back to.
        following: where to go on afterwards.
        links: the number of the person who wants to link this to their account.

    Raises:
        NotSignedIn: the provider does not answer, or not as one.
    """
    with troubles():
        made = provider().create_authorization_url(
            callback, state=secrets.token_urlsafe(32), nonce=secrets.token_urlsafe(32)
        )
    return made["url"], Try(made["state"], made["nonce"], made["code_verifier"], following, links)


def finish(request: HttpRequest, callback: str) -> tuple[Said, Try]:
    """What the provider says of whoever comes back, and what they were sent with.

    Raises:
        NotSignedIn: it does not fit what this browser was sent with, or the provider said no or is in trouble.
    """
    carried = carried_by(request)
    if error := request.GET.get("error"):
        log.warning("openid_refused", error=error[:80])
        raise NotSignedIn(403, gettext("The sign-in service said no ({error}).").format(error=error[:80]))
    if not request.GET.get("code"):
        raise NotSignedIn(400, gettext("The sign-in service sent no code. Sign in once more."))
    attempt = sign_in_limits.coming_back(request)
    if attempt.wait_s:
        raise NotSignedIn(429, gettext("Too many tries. Wait a while."), attempt.wait_s)
    asked = provider()
    with troubles():
        described = asked.load_server_metadata()
        has_to_say = bool(described.get("authorization_response_iss_parameter_supported"))
        if request.GET.get("iss", "" if has_to_say else ours().issuer) != ours().issuer:
            raise NotSignedIn(400, gettext("The answer comes from another sign-in service."))
        token = asked.fetch_access_token(
            redirect_uri=callback, code=request.GET["code"], code_verifier=carried.code_verifier
        )
        claims = checked(asked, token, carried.nonce)
        said = said_of(claims, groups_of(asked, token, claims))
    attempt.take_back()
    return said, carried


def checked(asked: Provider, token: dict[str, Any], nonce: str) -> Mapping[str, Any]:
    """The claims of an ID token that is ours: signature, issuer, audience, times, and the nonce of this try.

    Raises:
        NotSignedIn: there is none.
    """
    if not token.get("id_token"):
        raise NotSignedIn(502, gettext("The sign-in service sent no ID token."))
    wanted = {
        "iss": {"essential": True, "value": ours().issuer},
        "aud": {"essential": True, "value": ours().client_id},
        "nonce": {"essential": True, "value": nonce},
    }
    claims: Mapping[str, Any] = asked.parse_id_token(token, nonce=nonce, claims_options=wanted, leeway=LEEWAY_S)
    return claims


def groups_of(asked: Provider, token: dict[str, Any], claims: Mapping[str, Any]) -> frozenset[str]:
    """The groups that the provider lists them in: in the ID token, or where that names none, at its userinfo."""
    said = ours()
    found = at_path(claims, said.groups_claim)
    if found is None and said.roles and asked.load_server_metadata().get("userinfo_endpoint"):
        more = asked.userinfo(token=token)
        if more.get("sub") != claims["sub"]:
            raise NotSignedIn(502, gettext("The sign-in service speaks of two people at once."))
        found = at_path(more, said.groups_claim)
    given = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return frozenset(each for each in given if isinstance(each, str))


def at_path(claims: Mapping[str, Any], path: str) -> Any:
    """What stands at a path with dots, such as realm_access.roles; a claim of just that name counts, too."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def said_of(claims: Mapping[str, Any], groups: frozenset[str]) -> Said:
    """The claims, in our words."""

    def text(name: str) -> str:
        value = claims.get(name)
        return value if isinstance(value, str) else ""

    return Said(
        issuer=ours().issuer,
        subject=text("sub"),
        username=text("preferred_username"),
        display_name=text("name"),
        email=text("email"),
        is_email_verified=claims.get("email_verified") is True,
        groups=groups,
    )


def rules() -> Rules:
    """What the provider's word counts for, as configured."""
    said = ours()
    return Rules(creates=said.unknown == "create", links_by=said.link_by, roles=said.roles)


# --- what a browser carries -------------------------------------------------------------------------------------------


def carry(response: HttpResponse, made: Try, path: str) -> None:
    """Have the browser carry it; several tries at once don't disturb each other."""
    response.set_cookie(
        cookie_of(made.state),
        signing.dumps([made.state, made.nonce, made.code_verifier, made.following, made.links], salt=SALT),
        max_age=TRY_S,
        path=path,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def carried_by(request: HttpRequest) -> Try:
    """What this browser was sent with.

    Raises:
        NotSignedIn: it was sent with something else, too long ago, or not at all.
    """
    state = request.GET.get("state", "")
    try:
        carried = Try(*signing.loads(request.COOKIES.get(cookie_of(state), ""), salt=SALT, max_age=TRY_S))
    except signing.BadSignature:
        carried = None
    if carried is None or not constant_time_compare(carried.state, state):
        raise NotSignedIn(400, gettext("This sign-in was not begun in this browser, or too long ago. Sign in again."))
    return carried


def shown_for_link(said: Said, person: Person) -> str:
    """What a form carries by which the person says that this is them."""
    return signing.dumps([said.subject, person.pk], salt=LINK_SALT)


def subject_to_link(shown: str, person: Person) -> str:
    """The subject that such a form is about.

    Raises:
        NotSignedIn: it is another person's, too old, or not ours.
    """
    try:
        subject, number = signing.loads(shown, salt=LINK_SALT, max_age=TRY_S)
    except signing.BadSignature:
        subject, number = "", 0
    if number != person.pk:
        raise NotSignedIn(400, gettext("This is not yours to link, or it is too old. Begin again."))
    return str(subject)


def cookie_of(state: str) -> str:
    """The name of the cookie of a try; of what somebody else wrote, nothing that could not be one."""
    return COOKIE + "".join(each for each in state[:16] if each.isascii() and each.isalnum())


# --- trouble ----------------------------------------------------------------------------------------------------------


def trouble() -> NotSignedIn:
    """The provider can't be reached, or speaks strangely."""
    return NotSignedIn(502, gettext("The sign-in service is in trouble. Try again in a while."))


@contextmanager
def troubles() -> Iterator[None]:
    """What goes wrong with the provider becomes a sentence for whoever tried, and a line in the log.

    One that can't be reached is left alone for a while: waiting for it must not keep all of the portal's threads.
    """
    global _left_alone_until
    if time.monotonic() < _left_alone_until:
        raise trouble()
    try:
        yield
    except (requests.ConnectionError, requests.Timeout) as error:
        _left_alone_until = time.monotonic() + LEFT_ALONE_S
        log.error("openid_away", error=shortened(error))
        raise trouble() from None
    except JoseError as error:
        log.warning("openid_token_refused", error=shortened(error))
        raise NotSignedIn(400, gettext("What the sign-in service says does not hold. Sign in once more.")) from None
    except OAuthError as error:
        log.warning("openid_code_refused", error=shortened(error))
        raise NotSignedIn(400, gettext("The sign-in service took its own code for none. Sign in once more.")) from None
    except STRANGE as error:
        log.error("openid_trouble", error=shortened(error), exc_info=not isinstance(error, requests.RequestException))
        raise trouble() from None


STRANGE = (requests.RequestException, ValueError, LookupError, RuntimeError, AttributeError, TypeError)
"""A provider that can't be reached, or that says what no provider says."""


def shortened(error: Exception) -> str:
    """For the log."""
    return f"{type(error).__name__}: {error}"[:300]
