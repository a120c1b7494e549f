"""What all pages share: whole page or htmx part, what a URL may say, and forms that are sent once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any, Protocol

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString
from django.utils.text import compress_string
from django.utils.translation import gettext
from django.views.generic import View

from budgets.authority import may
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import Cluster
from budgets.queries import FIRST_YEAR, LAST_YEAR
from portal.views.errors import post_only

CHOICES_OFFERED = 200
"""A list box with more than this helps nobody to find one."""
PART_HEADERS = ("HX-Request", "HX-History-Restore-Request")
MAX_SPENT_ACTIONS = 40
"""How many one-use action ids a session remembers."""


class Page(LoginRequiredMixin, View):
    """A page for people who are signed in."""

    def allow(self, action: str, thing: Any = None) -> None:
        """Go on only if the person may; what one may not see is not there.

        Raises:
            Http404: they may not.
        """
        if not may(self.request.user, action, thing):
            raise Http404

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """405, in words."""
        return post_only(request, super().http_method_not_allowed(request, *args, **kwargs))


class OnceForm(Protocol):
    """What `Once` needs of a form."""

    cleaned_data: dict[str, Any]

    def is_valid(self) -> bool:
        """Whether what was sent can be read."""

    def take(self, error: InputError) -> None:
        """Show a service's error."""


class Once(Page):
    """A page whose post does one thing once, and says beside the field what can't be done.

    What is done has an address of its own, a word below the page's. Asked for without a form (an old tab, or after
    signing in again), it leads to the page.
    """

    verbs: Container[str] = ()

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """The page, or what is done on it.

        Raises:
            Http404: nobody can do that here.
        """
        if not request.user.is_authenticated:
            return self.handle_no_permission()
        verb = kwargs.get("verb")
        if verb is not None and request.method in ("GET", "HEAD"):
            if verb not in self.verbs:
                raise Http404(gettext("There is no {verb!r} here.").format(verb=verb))
            return HttpResponseRedirect("../")
        if verb is None and self.verbs and request.method == "POST":
            return post_only(request, HttpResponseNotAllowed(["GET", "HEAD"]))
        return super().dispatch(request, *args, **kwargs)

    def once(
        self,
        request: HttpRequest,
        form: OnceForm,
        led_to: str | Callable[[Any], str],
        done: str | Callable[[Any], str],
        service: Callable[[dict[str, Any]], Any],
    ) -> tuple[HttpResponse | None, int]:
        """Do it, if it was not done before.

        Args:
            led_to, done: where it leads and what is said then (maybe nothing), or what makes them of what the service
                gave back.
            service: takes what the form says.

        Returns:
            (a redirect, 302) when it was done, now or before; else (None, status) with the form's errors filled in.
        """
        before = spent_on(request, request.POST.get("action", ""))
        if before is not None:
            messages.info(request, gettext("This had been sent already; nothing was changed again."))
            return HttpResponseRedirect(before), 302
        if not form.is_valid():
            return None, 400
        try:
            found = service(form.cleaned_data)
        except InputError as error:
            form.take(error)
            return None, status_of(error)
        address = led_to if isinstance(led_to, str) else led_to(found)
        words = done(found) if callable(done) else done
        spend(request, form.cleaned_data["action"], address)
        if words:
            messages.info(request, words)
        return HttpResponseRedirect(address), 302


def render_page(
    request: HttpRequest, name: str, context: dict[str, Any], *, part: str = "", status: int = 200
) -> HttpResponse:
    """The page templates/NAME/page.html, or to htmx its `part`; both live at one address, so caches keep them apart."""
    template = f"{name}/{part}.html" if part and is_part(request) else f"{name}/page.html"
    response = render(request, template, {"now": datetime.now(UTC), **context}, status=status)
    patch_vary_headers(response, PART_HEADERS)
    return response


class Live:
    """The part of a page that refreshes itself, made once for many."""

    def __init__(self, html: SafeString) -> None:
        """`html` is all of it."""
        self.html = html

    @cached_property
    def packed(self) -> bytes:
        """Compressed, as the middleware would do it for each of them."""
        return compress_string(self.html.encode(), max_random_bytes=GZipMiddleware.max_random_bytes)


def render_live(request: HttpRequest, name: str, context: dict[str, Any], live: Live) -> HttpResponse:
    """The page templates/NAME/page.html around its live part, or to htmx that part alone."""
    if not is_part(request):
        return render_page(request, name, context | {"live": live.html})
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        response = HttpResponse(live.packed, headers={"Content-Encoding": "gzip"})
    else:
        response = HttpResponse(live.html)
    patch_vary_headers(response, (*PART_HEADERS, "Accept-Encoding"))
    return response


def is_part(request: HttpRequest) -> bool:
    """Whether htmx asks for a part of the page, and not for a whole page that it has no longer."""
    htmx = request.htmx  # type: ignore[attr-defined]
    return bool(htmx) and not htmx.history_restore_request


def clusters() -> list[Cluster]:
    """All clusters in the order of pages."""
    return list(Cluster.objects.order_by("position", "name"))


def cluster_named(name: str | None, among: list[Cluster]) -> Cluster:
    """The cluster of that name, or without a name the first.

    Raises:
        Http404: there is none.
    """
    for cluster in among:
        if name in (None, "", cluster.name):
            return cluster
    raise Http404(
        gettext("There is no cluster {name!r}.").format(name=name) if name else gettext("There is no cluster yet.")
    )


def choice(request: HttpRequest, field: str, allowed: dict[str, Any], default: str) -> str:
    """One of the named choices of a URL's parameter.

    Raises:
        BadRequest: something else.
    """
    value = request.GET.get(field, default)
    if value not in allowed:
        raise BadRequest(
            gettext("{field}: {value!r} is none of {choices}").format(
                field=field, value=value, choices=", ".join(allowed)
            )
        )
    return value


def prefilled(request: HttpRequest, field: str, known: Iterable[str], default: str = "") -> str:
    """What an address fills into a form: one of the known names.

    Raises:
        BadRequest: something else.
    """
    value = request.GET.get(field, "")
    if value and value not in set(known):
        raise BadRequest(gettext("{field}: there is no {value!r} to choose here").format(field=field, value=value))
    return value or default


def whole_number(request: HttpRequest, field: str, default: int, *, at_least: int = 1, at_most: int = 100_000) -> int:
    """A whole number of a URL's parameter.

    Raises:
        BadRequest: not a whole number within the bounds.
    """
    text = request.GET.get(field, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and at_least <= int(text) <= at_most):
        raise BadRequest(
            gettext("{field}: {text!r} is not a whole number from {at_least} to {at_most:,}").format(
                field=field, text=text, at_least=at_least, at_most=at_most
            )
        )
    return int(text)


def offered(choices: Iterable[Any]) -> list[Any] | None:
    """What a list box offers, in order; None where there are so many that their code is typed instead."""
    found = sorted(choices)
    return found if len(found) <= CHOICES_OFFERED else None


def day_named(request: HttpRequest, field: str, default: date) -> date:
    """A date of a URL's parameter, written 2026-07-02.

    Raises:
        BadRequest: not a date, or one with which days can't be counted.
    """
    text = request.GET.get(field, "")
    if not text:
        return default
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise BadRequest(
            gettext("{field}: {text!r} is not a date such as 2026-07-02").format(field=field, text=text)
        ) from None
    if not FIRST_YEAR <= day.year <= LAST_YEAR:
        message = gettext("{field}: {day} is not of the years {first} to {last}")
        raise BadRequest(message.format(field=field, day=day, first=FIRST_YEAR, last=LAST_YEAR))
    return day


def safe_next(request: HttpRequest, default: str) -> str:
    """Where the form says to go on, if that is an address of ours."""
    address = request.POST.get("next", "")
    here = {request.get_host()}
    return address if url_has_allowed_host_and_scheme(address, here, request.is_secure()) else default


def status_of(error: InputError) -> int:
    """The status of a page with a service's error: 409 for what came too late, 403 for what isn't theirs, else 400."""
    return 409 if isinstance(error, ConflictError) else 403 if isinstance(error, NotAllowed) else 400


def new_action() -> str:
    """A one-use id for a form."""
    return uuid.uuid4().hex


def spent_on(request: HttpRequest, action: str) -> str | None:
    """Where the form with this id led when it was sent before; None if it was not."""
    return request.session.get("spent_actions", {}).get(action)


def spend(request: HttpRequest, action: str, led_to: str) -> None:
    """Remember that the form with this id was carried out; one without an id is like any other without."""
    if not action:
        return
    spent = {**request.session.get("spent_actions", {}), action: led_to}
    request.session["spent_actions"] = dict(list(spent.items())[-MAX_SPENT_ACTIONS:])
