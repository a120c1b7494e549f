"""Signing in with an OpenID provider: the way there, and the way back. Not there where none is configured."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages as banners
from django.contrib.auth import login
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from budgets.errors import InputError, NotAllowed
from budgets.models import Person
from budgets.services import identities
from portal import openid
from portal.pages import Page, render_page
from portal.views import signing

BACKEND = "django.contrib.auth.backends.ModelBackend"
HOME = "home"
"""Says in an address that it was led to the portal's own name already."""
BOTH_SIDES = "by themselves, signed in on both sides"


@never_cache
@require_safe
def begin(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider: to sign in, or (`?link=yes`) to link an account that is signed in here."""
    configured()
    if elsewhere := at_our_own_name(request):
        return HttpResponseRedirect(elsewhere)
    following, links = request.GET.get("next", ""), 0
    if not url_has_allowed_host_and_scheme(following, {request.get_host()}, request.is_secure()):
        following = settings.LOGIN_REDIRECT_URL
    if request.GET.get("link") == "yes":
        if not request.user.is_authenticated:
            return redirect_to_login(reverse("password"))
        links = int(request.user.pk)
    try:
        address, made = openid.begin(callback(), following, links)
    except openid.NotSignedIn as error:
        return refused(request, error.status, error.message)
    response: HttpResponse = HttpResponseRedirect(address)
    openid.carry(response, made, reverse("openid"))
    return response


@never_cache
@require_safe
def end(request: HttpRequest) -> HttpResponse:
    """The browser comes back: sign in whoever the provider says it is, if they are somebody here; or ask whether to
    link them.
    """
    configured()
    try:
        said, carried = openid.finish(request, callback())
        response = sure(request, said, carried.links) if carried.links else arrived(request, said, carried.following)
    except openid.NotSignedIn as error:
        response = refused(request, error.status, error.message)
        if error.wait_s:
            response.headers["Retry-After"] = str(error.wait_s)
    except NotAllowed as error:
        response = refused(request, 403, error.message)
    response.delete_cookie(openid.cookie_of(request.GET.get("state", "")), path=reverse("openid"))
    return response


def arrived(request: HttpRequest, said: identities.Said, following: str) -> HttpResponse:
    """Sign them in."""
    person = identities.arrive(said=said, rules=openid.rules())
    login(request, person, backend=BACKEND)
    return HttpResponseRedirect(following)


def sure(request: HttpRequest, said: identities.Said, links: int) -> HttpResponse:
    """Ask whoever is signed in here whether to link their account; nothing is changed by coming back alone."""
    if request.user.pk != links:
        raise openid.NotSignedIn(400, gettext("You are not signed in as whoever began this. Begin again."))
    context = {
        "here": "password",
        "provider": openid.ours().name,
        "called": said.email or said.username or said.display_name,
        "subject": said.subject,
        "shown": openid.shown_for_link(said, request.user),
    }
    return render_page(request, "openid_link", context)


class Link(Page):
    """Linking the account that is signed in here to whoever has just signed in with the provider."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """Link."""
        configured()
        person: Person = request.user  # type: ignore[assignment]
        try:
            subject = openid.subject_to_link(request.POST.get("shown", ""), person)
            issuer = openid.ours().issuer
            identities.link(person=person, issuer=issuer, subject=subject, by=person, reason=BOTH_SIDES)
        except (openid.NotSignedIn, InputError) as error:
            banners.error(request, error.message)
        else:
            banners.info(request, gettext("Your account is linked; you can sign in that way from now on."))
        return HttpResponseRedirect(reverse("password"))


def at_our_own_name(request: HttpRequest) -> str:
    """This address by the portal's own name, where it was asked for by another one; else empty.

    The provider leads back to our own name, and a browser shows there what it was given there alone. A proxy that
    hides our name from us sends nobody round in circles.
    """
    own = urlsplit(settings.URL)
    if urlsplit(f"//{request.get_host()}").hostname == own.hostname or HOME in request.GET:
        return ""
    query = request.GET.copy()
    query[HOME] = "yes"
    return f"{settings.URL}{request.path}?{query.urlencode()}"


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
