"""Who asks the API: a session with its CSRF token, or an access token in `Authorization: Bearer allot_...`.

A token becomes its person only after its scope was looked at, for whichever view: a view that forgets about scopes
refuses tokens. Agents' secrets and join tokens are of another kind, and nothing here knows them.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from budgets.models import AccessToken, Person
from budgets.services import tokens
from portal.api import scopes

SCHEME = "Bearer"


class TokenAuthentication(BaseAuthentication):
    """A person's access token. `request.auth` is the token then, and None in a session."""

    def authenticate(self, request: Request) -> tuple[Person, AccessToken] | None:
        """The token's person and the token; None where the request shows no bearer token at all.

        Raises:
            AuthenticationFailed: it shows one that is not known or has ended (401).
            PermissionDenied: the token is not for what was asked (403).
        """
        kind, _, shown = get_authorization_header(request).decode("latin-1").partition(" ")
        if kind.lower() != SCHEME.lower():
            return None
        token = tokens.find(shown.strip())
        if token is None:
            raise AuthenticationFailed(gettext("This token is not known here, or it has ended."))
        scopes.check(token, request.parser_context.get("view"), str(request.method))
        return token.person, token

    def authenticate_header(self, request: Request) -> str:
        """What a request without any of this is told, so that it is answered with 401."""
        return f'{SCHEME} realm="allotment"'


def token_of(request: Request) -> AccessToken | None:
    """The token that the request was made with; None for a session."""
    return request.auth if isinstance(request.auth, AccessToken) else None


class TokenScheme(OpenApiAuthenticationExtension):
    """How the API's description names it."""

    target_class = "portal.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """HTTP bearer."""
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "allot_...",
            "description": "An access token of a person's own, made on the page *Access tokens*. It has scopes (read, "
            "submit, operate, decide) and an end; each operation says which scope it takes.",
        }
