"""How long sessions live: no longer than the portal's settings say since signing in, and since something was done."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse

SINCE, SEEN = "signed_in_at_s", "seen_at_s"
NOTED_EVERY_S = 60
"""That something was done is written down no more often."""


@receiver(user_logged_in)
def note_beginning(sender: Any, request: HttpRequest, **more: Any) -> None:
    """A session begins when somebody signs in."""
    request.session[SINCE] = request.session[SEEN] = int(time.time())


def end_old_sessions(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """End a session that is over, before anybody looks whose it is."""

    def answer(request: HttpRequest) -> HttpResponse:
        if settings.SESSION_COOKIE_NAME in request.COOKIES and SESSION_KEY in request.session:
            look_at(request, int(time.time()))
        return get_response(request)

    return answer


def look_at(request: HttpRequest, now_s: int) -> None:
    """End it, or note that something is done in it."""
    session = request.session
    since_s = session.get(SINCE)
    if since_s is None:  # begun before this was noted
        session[SINCE] = session[SEEN] = now_s
        return
    idle_s = now_s - session.get(SEEN, since_s)
    is_idle = settings.SESSION_IDLE_S and idle_s >= settings.SESSION_IDLE_S
    if now_s - since_s >= settings.SESSION_COOKIE_AGE or is_idle:
        session.flush()
    elif settings.SESSION_IDLE_S and idle_s >= min(NOTED_EVERY_S, settings.SESSION_IDLE_S) and is_done_by_hand(request):
        session[SEEN] = now_s


def is_done_by_hand(request: HttpRequest) -> bool:
    """Whether somebody did something, rather than a page that asks again by itself."""
    return request.method != "GET" or "HX-Request" not in request.headers
