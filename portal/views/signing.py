"""Signing in and out, and the look that a browser keeps."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.utils.translation import gettext

from portal.demo.people import sign_in_hint
from portal.pages import safe_next
from portal.views.errors import post_only

THEMES = ("system", "light", "dark")
THEME_COOKIE_AGE_S = 365 * 86_400


class SignIn(LoginView):
    """The log-in form; where the demo stands, with its people."""

    template_name = "login/page.html"
    authentication_form = AuthenticationForm
    redirect_authenticated_user = True

    def get_form_kwargs(self) -> dict[str, Any]:
        """Labels end as they are written."""
        return {**super().get_form_kwargs(), "label_suffix": ""}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Add the demo's people, if it is there."""
        return {**super().get_context_data(**kwargs), "demo": sign_in_hint()}

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """A wrong name or password is a bad request, said beside the form."""
        response = super().form_invalid(form)
        response.status_code = 400
        return response


class SignOut(LogoutView):
    """Takes a form alone, so that no link and no other site signs anybody out."""

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """405, in words."""
        return post_only(request, super().http_method_not_allowed(request, *args, **kwargs))


def theme(request: HttpRequest) -> HttpResponse:
    """Keep this browser's look: as the system says, light or dark. By POST alone."""
    if request.method != "POST":
        return post_only(request, HttpResponseNotAllowed(["POST"]))
    wanted = request.POST.get("theme", "")
    if wanted not in THEMES:
        raise BadRequest(
            gettext("theme: {wanted!r} is none of {choices}").format(wanted=wanted, choices=", ".join(THEMES))
        )
    response = HttpResponseRedirect(safe_next(request, "/"))
    if wanted == "system":
        response.delete_cookie("theme")
    else:
        response.set_cookie("theme", wanted, max_age=THEME_COOKIE_AGE_S, httponly=True, samesite="Lax")
    return response
