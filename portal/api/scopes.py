"""What a token may be used for, method by method: each view of the API says so in its `scopes`.

    class Drain(Api):
        scopes = {"POST": OPERATE}

GET, HEAD and OPTIONS take `read` unless said otherwise. A method that says nothing is refused to tokens, whoever they
belong to, and fails a test. Sessions have no scopes: people who are signed in do what they may.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext
from rest_framework.exceptions import PermissionDenied

from budgets.models import AccessToken, Scope

READ, SUBMIT, OPERATE, DECIDE = Scope.READ.value, Scope.SUBMIT.value, Scope.OPERATE.value, Scope.DECIDE.value
ANY = "any"
"""Any token will do, whatever its scopes; the view itself asks what it may."""
SESSION = "session"
"""No token will do: only people who are signed in."""
KNOWN = frozenset({*Scope.values, ANY, SESSION})
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def scope_of(view: Any, method: str) -> str | None:
    """The scope that a view asks for; None where it says nothing.

    Args:
        view: the view, or its class.
        method: in capitals.
    """
    said: dict[str, str] = getattr(view, "scopes", {})
    if method in SAFE_METHODS:
        return said.get(method, said.get("GET", READ))
    return said.get(method)


def check(token: AccessToken, view: Any, method: str) -> None:
    """Nothing, if the token has the scope for it.

    Raises:
        PermissionDenied: it has not, or no token has.
    """
    wanted = scope_of(view, method)
    if wanted == ANY or (wanted in Scope.values and wanted in token.scopes):
        return
    if wanted in Scope.values:
        raise PermissionDenied(gettext("This token has not the scope {scope!r}.").format(scope=wanted))
    raise PermissionDenied(gettext("No token can be used for this; sign in to the portal."))
