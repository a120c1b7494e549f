"""Reading what came over a wire strictly: whatever is not exactly as described is `Malformed`, and names the field.

Standard library only: nodes' agents use it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from enum import StrEnum
from functools import cache
from typing import Any, get_type_hints

from scheduler.one_line import one_line

LARGEST = 2**62
"""Whole numbers beyond this are nobody's count, age or id."""


class Malformed(ValueError):
    """Something that came over the wire is not as described here: nothing was done."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(one_line(f"{field}: {message}" if field else message))
        self.field = one_line(field)
        self.message = one_line(message)


_KINDS: dict[Any, tuple[type, str]] = {
    int: (int, "a whole number"),
    str: (str, "text"),
    bool: (bool, "true or false"),
    list[str]: (list, "a list of texts"),
    list[int]: (list, "a list of whole numbers"),
    dict[str, str]: (dict, "an object of texts"),
}


def read_object(value: Any, where: str, kinds: Mapping[str, Any], required: Iterable[str]) -> dict[str, Any]:
    """A JSON object with exactly these fields, none missing of `required`, each of its kind.

    Args:
        value: what came.
        where: its own field name, for messages; empty for the whole message.
        kinds: int, str, bool, list[str], list[int], dict[str, str], or a StrEnum; `| None` where null is allowed.
        required: names that must be there.

    Raises:
        Malformed: names the field.
    """
    if not isinstance(value, dict):
        raise Malformed(where, "is not an object")
    dot = f"{where}." if where else ""
    for name in required:
        if name not in value:
            raise Malformed(f"{dot}{name}", "is missing")
    for name in value:
        if name not in kinds:
            raise Malformed(f"{dot}{name}"[:200], "is not a known field")
    return {name: _value(each, f"{dot}{name}", kinds[name]) for name, each in value.items()}


def _value(value: Any, where: str, kind: Any) -> Any:
    """The value, if it is of that kind."""
    alternatives = getattr(kind, "__args__", ()) if kind not in _KINDS else ()
    if type(None) in alternatives:
        if value is None:
            return None
        kind = next(each for each in alternatives if each is not type(None))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if value not in list(kind):
            raise Malformed(where, f"is not one of {', '.join(kind)}")
        return kind(value)
    python, said = _KINDS[kind]
    good = type(value) is python
    if good and kind is str:
        good = _is_plain(value)
    elif good and kind == list[str]:
        good = all(type(each) is str and _is_plain(each) for each in value)
    elif good and kind == list[int]:
        good = all(type(each) is int and 0 <= each <= LARGEST for each in value)
    elif good and kind == dict[str, str]:
        good = all(type(each) is str and _is_plain(each + name) for name, each in value.items())
    if not good:
        raise Malformed(where, f"is not {said}")
    if kind is int and not -LARGEST <= value <= LARGEST:
        raise Malformed(where, "is too large a number")
    return value


@cache
def kinds_of(cls: Any) -> dict[str, Any]:
    """The kinds of a dataclass's fields; looked up once, which takes longer than reading a whole heartbeat."""
    return get_type_hints(cls)


def _is_plain(text: str) -> bool:
    """Whether a process can be given it, and a database: no zero byte, and no half of a surrogate pair."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text))


def fields_of(
    cls: Any, value: Any, where: str, *, negative: tuple[str, ...] = (), unread: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The keyword arguments for a dataclass from JSON; whole numbers are 0 or more except those in `negative`."""
    hints = {name: kind for name, kind in kinds_of(cls).items() if name not in unread}
    required = [each.name for each in fields(cls) if each.name in hints and _is_required(each)]
    left = {name: value[name] for name in unread if isinstance(value, dict) and name in value}
    rest = {name: each for name, each in value.items() if name not in unread} if isinstance(value, dict) else value
    read = read_object(rest, where, hints, required)
    for name, each in read.items():
        if type(each) is int and each < 0 and name not in negative:
            raise Malformed(f"{where}.{name}" if where else name, f"{each} is negative")
    return read | left


def _is_required(each: Any) -> bool:
    return each.default is MISSING and each.default_factory is MISSING
