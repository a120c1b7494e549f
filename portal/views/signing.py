"""Signing in and out, and the look that a browser keeps."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages as banners
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView, redirect_to_login
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext

from budgets.models import Identity, Person
from budgets.services import passwords
from portal import sign_in_limits
from portal.demo.people import sign_in_hint
from portal.forms.password import PasswordForm
from portal.pages import Page, render_page, safe_next
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
        """Add the demo's people, if it is there, and the other way in."""
        return {**ways_in(), **super().get_context_data(**kwargs)}

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Signed in; this browser is known from now on."""
        if attempt := sign_in_limits.attempt_of(self.request):
            attempt.succeeded()
        response = super().form_valid(form)
        sign_in_limits.remember_device(self.request, response, form.cleaned_data["username"])
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """A wrong name or password is a bad request, said beside the form; tried too often, 429."""
        attempt = sign_in_limits.attempt_of(self.request)
        if attempt is not None and attempt.wait_s:
            return too_often(self.render_to_response(self.get_context_data(form=form, wait=attempt.wait_s)), attempt)
        response = super().form_invalid(form)
        response.status_code = 400
        return response


def ways_in() -> dict[str, Any]:
    """What the log-in page offers beside its form."""
    return {
        "demo": sign_in_hint(),
        "provider": settings.OPEN_ID.name if settings.OPEN_ID else "",
        "has_passwords": settings.HAS_PASSWORDS,
    }


def page(request: HttpRequest, status: int, *, refused: str) -> HttpResponse:
    """The log-in page, with why somebody was not signed in by other means."""
    context = {**ways_in(), "form": AuthenticationForm(label_suffix=""), "next": "", "refused": refused}
    return render(request, "login/page.html", context, status=status)


def too_often(response: HttpResponse, attempt: sign_in_limits.Attempt) -> HttpResponse:
    """429, and when to try again."""
    response.status_code = 429
    response.headers["Retry-After"] = str(attempt.wait_s)
    return response


def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """Django's own screens have no log-in of their own: staff sign in as everybody does.

    Raises:
        PermissionDenied: somebody who is signed in and no staff.
    """
    following = request.GET.get("next", "")
    if not url_has_allowed_host_and_scheme(following, {request.get_host()}, request.is_secure()):
        following = reverse("admin:index")
    if not request.user.is_authenticated:
        return redirect_to_login(following)
    if not request.user.is_staff:
        raise PermissionDenied(gettext("These screens are for staff."))
    return HttpResponseRedirect(following)


class Password(Page):
    """Changing my own password. Other sessions of mine end with it."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form."""
        return self.show(request, PasswordForm(user=request.user))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Change it."""
        person: Person = request.user  # type: ignore[assignment]
        if not has_password(person):
            raise PermissionDenied(gettext("This account has no password here."))
        attempt = sign_in_limits.own_password(person.pk)
        form = PasswordForm(user=person, data=request.POST)
        if attempt.wait_s:
            return too_often(self.show(request, PasswordForm(user=person), wait=attempt.wait_s), attempt)
        if "old_password" not in form.errors:
            attempt.succeeded()
        if not form.is_valid():
            return self.show(request, form, 400)
        passwords.change(person=person, new=form.cleaned_data["new_password1"])
        update_session_auth_hash(request, person)
        banners.info(request, gettext("Your password is changed; you are signed out everywhere else."))
        return HttpResponseRedirect(reverse("password"))

    def show(self, request: HttpRequest, form: PasswordForm, status: int = 200, wait: int = 0) -> HttpResponse:
        """The page."""
        context = {
            "here": "password",
            "form": form,
            "wait": wait,
            "has_password": has_password(request.user),  # type: ignore[arg-type]
            "provider": settings.OPEN_ID.name if settings.OPEN_ID else "",
            "identity": identity_of(request.user),  # type: ignore[arg-type]
        }
        return render_page(request, "password", context, status=status)


def identity_of(person: Person) -> Identity | None:
    """Who the person is to the OpenID provider, if there is one and they are linked."""
    if settings.OPEN_ID is None:
        return None
    return Identity.objects.filter(issuer=settings.OPEN_ID.issuer, person=person).first()


def has_password(person: Person) -> bool:
    """Whether the person can sign in with a password of the portal's own."""
    return settings.HAS_PASSWORDS and person.has_usable_password()


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
        secure = settings.SESSION_COOKIE_SECURE
        response.set_cookie("theme", wanted, max_age=THEME_COOKIE_AGE_S, httponly=True, samesite="Lax", secure=secure)
    return response
