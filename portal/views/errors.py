"""What is said where a page cannot be given: one clear line, in the same look; for the API a problem answer."""

from __future__ import annotations

import sys

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.utils.translation import gettext, gettext_lazy

from budgets.errors import one_line

NOT_THERE = gettext_lazy("There is no such page, or you may not see it.")
TITLES = {
    400: gettext_lazy("That can't be read"),
    403: gettext_lazy("That is not yours to do"),
    404: gettext_lazy("Not there"),
    405: gettext_lazy("Not in this way"),
    413: gettext_lazy("That is too large"),
    500: gettext_lazy("Something broke here"),
    503: gettext_lazy("Not just now"),
}
TROUBLES = {
    "away": gettext_lazy("The portal's database does not answer. What runs goes on; nothing new starts until it does."),
    "full": gettext_lazy("The portal's disk is full. What runs goes on; nothing can be stored until there is room."),
    "unfinished": gettext_lazy("The portal's database is being brought up to date (manage.py prepare)."),
}
COME_AGAIN_S = 5
"""After which the page asks again by itself, and programs should."""


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
        "again_s": COME_AGAIN_S if status == 503 and request.method == "GET" else None,
        "theme": theme if theme in ("light", "dark") else "",
    }
    return HttpResponse(render_to_string("errors/page.html", context), status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400, with the field that could not be read where we said so ourselves."""
    said = (
        one_line(str(exception))
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


def unavailable(request: HttpRequest, trouble: str) -> HttpResponse:
    """503, with what is in the way (portal/outages.py), and when to ask again."""
    again = gettext("Nothing was changed. This page asks again by itself.")
    detail = again if request.method == "GET" else gettext("Nothing was changed. Please try again in a moment.")
    response = answer(request, 503, str(TROUBLES[trouble]), detail)
    response.headers["Retry-After"] = str(COME_AGAIN_S)
    return response


def broken(request: HttpRequest) -> HttpResponse:
    """500, or 503 where the database or its disk is at fault: the fault is in the log."""
    from portal.outages import trouble_of, watch  # which needs these pages itself

    trouble = trouble_of(sys.exc_info()[1])
    if trouble is not None:
        watch.note(trouble)
        return unavailable(request, trouble)
    return answer(request, 500, gettext("The portal made a mistake. It has been logged; please try again."))
