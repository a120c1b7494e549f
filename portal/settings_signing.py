"""The settings of signing in: sessions, passwords, access tokens, and an OpenID provider (docs/settings.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
ROLES = ("manager", "member", "reviewer", "operator", "administrator")
ROLE_AT_NODE = re.compile(rf"({'|'.join(ROLES)})@([A-Za-z0-9][A-Za-z0-9_.]{{0,15}})")
UNKNOWN = ("refuse", "create")
LINK_BY = ("nothing", "username", "email")
TOKEN_DAYS_MOST = 3_650

BACKENDS = [
    "portal.sign_in_limits.Limits",  # before any password is looked at
    "rules.permissions.ObjectPermissionBackend",
    "django.contrib.auth.backends.ModelBackend",
]
PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]


@dataclass(frozen=True, slots=True)
class OpenId:
    """An OpenID provider, and what its word counts for.

    Attributes:
        issuer: its address, as ID tokens name it.
        client_id, client_secret: how the portal is registered there; an empty secret is a public client.
        name: what the button calls it.
        scopes: what is asked for.
        groups_claim: where groups stand in what it says; a path with dots.
        roles: which roles at which nodes (their codes) each group has.
        roles_days: how long roles hold without signing in again.
        unknown: what becomes of people whom nobody has linked yet.
        link_by: by what an account without a link is taken to be theirs.
    """

    issuer: str
    client_id: str
    client_secret: str
    name: str
    scopes: str
    groups_claim: str
    roles: dict[str, tuple[tuple[str, str], ...]]
    roles_days: int
    unknown: str
    link_by: str


@dataclass(frozen=True, slots=True)
class Signing:
    """How people sign in.

    Attributes:
        session_s: the longest life of a session, whatever happens in it.
        session_idle_s: a session in which nothing was done for so long ends; 0 is never.
        token_max_days: the longest time for which an access token is made; older ones end by it as well.
        has_passwords: whether people may sign in with a password of the portal's own.
        open_id: the OpenID provider that people may sign in with.
    """

    session_s: int
    session_idle_s: int
    token_max_days: int
    has_passwords: bool
    open_id: OpenId | None


def open_id(env: environ.Env, secret: Callable[[str], str]) -> OpenId | None:
    """The OpenID provider that the environment names; None where it names none.

    Raises:
        ImproperlyConfigured: names the variable.
    """
    issuer = env.str("ALLOTMENT_OIDC_ISSUER", default="").strip()
    if not issuer:
        return None
    parts = urlsplit(issuer)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS)
    if not is_safe or not parts.hostname or parts.query or parts.fragment:
        raise ImproperlyConfigured(
            f"ALLOTMENT_OIDC_ISSUER: {issuer!r} is not an address such as https://login.example.org/realm"
        )
    client_id = env.str("ALLOTMENT_OIDC_CLIENT_ID", default="")
    if not client_id:
        raise ImproperlyConfigured("ALLOTMENT_OIDC_CLIENT_ID: must say how the portal is registered with the provider")
    scopes = env.str("ALLOTMENT_OIDC_SCOPES", default="openid profile email").split()
    if "openid" not in scopes:
        raise ImproperlyConfigured("ALLOTMENT_OIDC_SCOPES: must hold openid")
    return OpenId(
        issuer=issuer,
        client_id=client_id,
        client_secret=secret("ALLOTMENT_OIDC_CLIENT_SECRET"),
        name=env.str("ALLOTMENT_OIDC_NAME", default="") or parts.hostname,
        scopes=" ".join(scopes),
        groups_claim=env.str("ALLOTMENT_OIDC_GROUPS_CLAIM", default="groups"),
        roles=mapped_roles(secret("ALLOTMENT_OIDC_ROLES")),
        roles_days=whole(env, "ALLOTMENT_OIDC_ROLES_DAYS", 30, 1, TOKEN_DAYS_MOST),
        unknown=one_of(env, "ALLOTMENT_OIDC_UNKNOWN", UNKNOWN),
        link_by=one_of(env, "ALLOTMENT_OIDC_LINK_BY", LINK_BY),
    )


def mapped_roles(text: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """ALLOTMENT_OIDC_ROLES: {"group": ["role@NODE", ...], ...} as JSON, or the file of it.

    Raises:
        ImproperlyConfigured: something else.
    """
    if not text:
        return {}
    try:
        said: Any = json.loads(text)
    except ValueError as error:
        raise ImproperlyConfigured(f"ALLOTMENT_OIDC_ROLES: is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise ImproperlyConfigured('ALLOTMENT_OIDC_ROLES: must be {"group": ["role@NODE", ...], ...}')
    found = {}
    for group, given in said.items():
        pairs = [ROLE_AT_NODE.fullmatch(each) if isinstance(each, str) else None for each in as_list(given)]
        if not pairs or None in pairs:
            raise ImproperlyConfigured(
                f"ALLOTMENT_OIDC_ROLES: {group!r} must have roles such as member@A1, each one of {', '.join(ROLES)}"
            )
        found[group] = tuple((pair[1], pair[2]) for pair in pairs if pair is not None)
    return found


def as_list(given: Any) -> list[Any]:
    """What JSON gives as a list; anything else is a list of one."""
    return given if isinstance(given, list) else [given]


def whole(env: environ.Env, name: str, default: int, least: int, most: int) -> int:
    """A whole number within bounds."""
    value = env.int(name, default=default)
    if not least <= value <= most:
        raise ImproperlyConfigured(f"{name}: {value} is not a whole number from {least} to {most}")
    return value


def one_of(env: environ.Env, name: str, choices: tuple[str, ...]) -> str:
    """One of a few words; the first unless said."""
    value = env.str(name, default=choices[0])
    if value not in choices:
        raise ImproperlyConfigured(f"{name}: {value!r} is none of {', '.join(choices)}")
    return value


def signing(env: environ.Env, secret: Callable[[str], str]) -> Signing:
    """Everything that the environment says about signing in.

    Raises:
        ImproperlyConfigured: names the variable.
    """
    provider = open_id(env, secret)
    has_passwords = env.bool("ALLOTMENT_PASSWORDS", default=True)
    if not has_passwords and provider is None:
        raise ImproperlyConfigured("ALLOTMENT_PASSWORDS: without an OpenID provider nobody could sign in")
    return Signing(
        session_s=3_600 * whole(env, "ALLOTMENT_SESSION_HOURS", 7 * 24, 1, 24 * 365),
        session_idle_s=60 * whole(env, "ALLOTMENT_SESSION_IDLE_MINUTES", 0, 0, 7 * 24 * 60),
        token_max_days=whole(env, "ALLOTMENT_TOKEN_MAX_DAYS", 365, 1, TOKEN_DAYS_MOST),
        has_passwords=has_passwords,
        open_id=provider,
    )
