"""Which language a page is in: what the person chose, else this browser's choice, else what the browser asks for."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.middleware.locale import LocaleMiddleware
from django.utils import translation
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from budgets.services import people
from portal.pages import safe_next

CODES = tuple(code for code, _ in settings.LANGUAGES)


class LanguageMiddleware(LocaleMiddleware):
    """Puts each request into its language. After authentication, since a person's choice follows them everywhere."""

    def process_request(self, request: HttpRequest) -> None:
        """Django's order (cookie, header, the setting), behind what the person chose."""
        chosen = getattr(request.user, "language", "")
        if chosen not in CODES:
            super().process_request(request)
            return
        translation.activate(chosen)
        request.LANGUAGE_CODE = chosen


@require_POST
def choose(request: HttpRequest) -> HttpResponse:
    """Keep the language with the browser, and with the person who is signed in."""
    wanted = request.POST.get("language", "")
    if wanted not in CODES:
        raise BadRequest(
            gettext("language: {wanted!r} is none of {choices}").format(wanted=wanted, choices=", ".join(CODES))
        )
    if request.user.is_authenticated:
        people.choose_language(person=request.user, language=wanted)
    response = HttpResponseRedirect(safe_next(request, "/"))
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        wanted,
        max_age=settings.LANGUAGE_COOKIE_AGE,
        httponly=settings.LANGUAGE_COOKIE_HTTPONLY,
        samesite="Lax",
        secure=settings.LANGUAGE_COOKIE_SECURE,
    )
    return response
