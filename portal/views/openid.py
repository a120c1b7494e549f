"""Signing in with an OpenID provider: the way there, and the way back. Not there where none is configured."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from budgets.errors import NotAllowed
from budgets.services import identities
from portal import openid
from portal.views import signing

BACKEND = "django.contrib.auth.backends.ModelBackend"


@never_cache
@require_safe
def begin(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider."""
    configured()
    following = request.GET.get("next", "")
    if not url_has_allowed_host_and_scheme(following, {request.get_host()}, request.is_secure()):
        following = settings.LOGIN_REDIRECT_URL
    try:
        address, made = openid.begin(callback(), following)
    except openid.NotSignedIn as error:
        return refused(request, error.status, error.message)
    response = HttpResponseRedirect(address)
    openid.carry(response, made, reverse("openid"))
    return response


@never_cache
@require_safe
def end(request: HttpRequest) -> HttpResponse:
    """The browser comes back: sign in whoever the provider says it is, if they are somebody here."""
    configured()
    try:
        said, following = openid.finish(request, callback())
        person = identities.arrive(said=said, rules=openid.rules())
    except openid.NotSignedIn as error:
        response = refused(request, error.status, error.message)
    except NotAllowed as error:
        response = refused(request, 403, error.message)
    else:
        login(request, person, backend=BACKEND)
        response = HttpResponseRedirect(following)
    response.delete_cookie(openid.cookie_of(request.GET.get("state", "")), path=reverse("openid"))
    return response


def callback() -> str:
    """Our address that is registered with the provider, whatever the request calls us."""
    return settings.URL + reverse("openid_callback")


def configured() -> None:
    """Nothing.

    Raises:
        Http404: there is no provider.
    """
    if settings.OPEN_ID is None:
        raise Http404(gettext("This portal has no sign-in service."))


def refused(request: HttpRequest, status: int, message: str) -> HttpResponse:
    """The log-in page, with why nobody was signed in."""
    return signing.page(request, status, refused=message)
