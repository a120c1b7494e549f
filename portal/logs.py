"""What every log line says of where it comes from, and how a line stays one line that tells no secret.

A line written while a request is answered carries the request's id, its route and who is signed in; one of a pass its
cluster and number; one of a task its name, and the id of the request that caused it (portal/logs_tasks.py).
The settings say which of these processors lines go through.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog
from django.utils.functional import SimpleLazyObject, empty

if TYPE_CHECKING:  # the settings, which need this module, come before what requests are made of
    from django.http import HttpRequest

ID_FORMAT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
"""An id that we take over from whoever asks; anything else gets one of ours."""
LONGEST = 4_000
"""Characters of one value."""
HIDDEN = "[hidden]"

Event = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class Current:
    """The request that this thread answers."""

    id: str
    request: HttpRequest


current_request: ContextVar[Current | None] = ContextVar("current_request", default=None)


def request_id() -> str:
    """The id of the request that is answered here, or that caused the task that runs here; else empty."""
    current = current_request.get()
    return current.id if current is not None else structlog.contextvars.get_contextvars().get("request_id", "")


# --- processors of lines ----------------------------------------------------------------------------------------------


def of_request(_logger: object, _method: str, event: Event) -> Event:
    """Add whose request it is: its id, its route, and the person's number once it is known. Asks no database."""
    current = current_request.get()
    if current is None:
        return event
    event.setdefault("request_id", current.id)
    match = current.request.resolver_match
    if match is not None:
        event.setdefault("route", match.route)
    person = _person_of(current.request)
    if person is not None:
        event.setdefault("person", person)
    return event


def _person_of(request: HttpRequest) -> int | None:
    user = request.__dict__.get("user")
    if isinstance(user, SimpleLazyObject) and user.__dict__.get("_wrapped") is empty:
        return None  # nobody has asked yet who it is
    return getattr(user, "pk", None)


SECRET_NAMES = re.compile(r"(?i)(^|_)(password|passwd|secrets?|token|authorization|cookie|api_?key|credentials?)$")
SECRET_TEXTS = (
    (re.compile(r"\ballot_[A-Za-z0-9_-]{8,}"), f"allot_{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"(://[^\s/:@]*:)[^\s/@]+@"), rf"\1{HIDDEN}@"),
    (
        re.compile(r"(?i)\b((?:[a-z]+_)?(?:password|passwd|secret|token|api_?key)['\"]?\s*[=:]\s*)[^\s,;&)}\]]+"),
        rf"\1{HIDDEN}",
    ),
)


def without_secrets(_logger: object, _method: str, event: Event) -> Event:
    """Hide what is called a secret, and what looks like one in texts: tokens, passwords in addresses."""
    for name, value in list(event.items()):
        event[name] = HIDDEN if SECRET_NAMES.search(name) and value else _hidden(value)
    return event


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        for pattern, instead in SECRET_TEXTS:
            value = pattern.sub(instead, value)
        return value
    if isinstance(value, dict):
        return {k: HIDDEN if SECRET_NAMES.search(str(k)) and v else _hidden(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(each) for each in value]
    return value


CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
CONTROLS |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
CONTROLS |= {code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}
"""What ends a line, moves a cursor or turns the direction of what is read: shown as an escape."""
IN_TRACES = {code: instead for code, instead in CONTROLS.items() if code != ord("\n")}
TRACES = ("exception", "stack")


def on_one_line(_logger: object, _method: str, event: Event) -> Event:
    """Escape what would end a line or disguise it, in names and messages alike: nobody forges a line of ours."""
    for name, value in event.items():
        if name not in TRACES:
            event[name] = _escaped(value)
    return event


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return (value if len(value) <= LONGEST else f"{value[:LONGEST]}…").translate(CONTROLS)
    if isinstance(value, dict):
        return {_escaped(name): _escaped(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(each) for each in value]
    return value


def traces_set_in(_logger: object, _method: str, event: Event) -> Event:
    """In plain lines, put a mark before each line of a traceback: what an exception says can't look like a new line."""
    for name in TRACES:
        if isinstance(event.get(name), str):
            event[name] = "\n".join(f"  | {line.translate(IN_TRACES)}" for line in event[name].split("\n"))
    return event
