"""What is said where a page cannot be given: one clear line, in the same look; for the API a problem answer."""

from __future__ import annotations

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.utils.translation import gettext, gettext_lazy

NOT_THERE = gettext_lazy("There is no such page, or you may not see it.")
TITLES = {
    400: gettext_lazy("That can't be read"),
    403: gettext_lazy("That is not yours to do"),
    404: gettext_lazy("Not there"),
    405: gettext_lazy("Not in this way"),
    500: gettext_lazy("Something broke here"),
}


def answer(request: HttpRequest, status: int, message: str, detail: str = "") -> HttpResponse:
    """The page of an error; it needs neither database nor session, so it can be shown when these fail."""
    if request.path.startswith("/api/"):
        body = {"type": "about:blank", "title": TITLES[status], "status": status, "detail": message}
        return JsonResponse(body, status=status, content_type="application/problem+json")
    theme = request.COOKIES.get("theme", "")
    context = {
        "title": TITLES[status],
        "message": message,
        "detail": detail,
        "theme": theme if theme in ("light", "dark") else "",
    }
    return HttpResponse(render_to_string("errors/page.html", context), status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400, with the field that could not be read where we said so ourselves."""
    said = (
        str(exception)
        if isinstance(exception, BadRequest)
        else gettext("The browser sent something that can't be read.")
    )
    return answer(request, 400, said, gettext("Nothing was changed."))


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """403."""
    return answer(
        request,
        403,
        str(exception or "") or gettext("You may see this, but not do it."),
        gettext("Nothing was changed."),
    )


def post_only(request: HttpRequest, refused: HttpResponse) -> HttpResponse:
    """405 in words, for an address that takes other methods than the one it was asked with."""
    said = gettext("This address takes {methods} alone, and not {method}.")
    words = answer(request, 405, said.format(methods=refused.headers["Allow"], method=request.method or ""))
    words.headers["Allow"] = refused.headers["Allow"]
    return words


def expired_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 for a form without our token: an old tab, or another site's doing."""
    return answer(
        request,
        403,
        gettext("This form is too old. Open the page again and send it once more."),
        gettext("Nothing was changed."),
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404, in our own words where a view gave some."""
    said = exception.args[0] if isinstance(exception, Http404) and exception.args else NOT_THERE
    return answer(request, 404, said if isinstance(said, str) else str(NOT_THERE))


def broken(request: HttpRequest) -> HttpResponse:
    """500: the fault is in the log."""
    return answer(request, 500, gettext("The portal made a mistake. It has been logged; please try again."))
