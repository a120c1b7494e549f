"""Reading a JSON file key by key, so that every fault is reported with the place where it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from scheduler.one_line import one_line

Value = TypeVar("Value")
_DURATION = re.compile(r"(-?)((?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)?)")
_UNIT_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_LARGEST = 10**12
"""No count or duration in a scenario may exceed this; it keeps typing errors from becoming endless runs."""


class ScenarioError(Exception):
    """A fault in a file, with the key path where it stands ("workloads[3].gpus"); empty for the whole file."""

    def __init__(self, path: str, message: str) -> None:
        """Say where and what."""
        super().__init__(one_line(f"{path}: {message}" if path else message))
        self.path = one_line(path)
        self.message = one_line(message)


def parse_json(text: str) -> Any:
    """A JSON text with exact numbers.

    Raises:
        ScenarioError: not JSON, a key twice in one object, NaN or Infinity.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant, parse_int=_short_int
        )
    except json.JSONDecodeError as error:
        raise ScenarioError("", f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ScenarioError("", "nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise ScenarioError(twice, "this key is given twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ScenarioError("", f"{name} is not a number that may stand here")


def _short_int(digits: str) -> int:
    if len(digits) > 30:
        raise ScenarioError("", f"the number {digits[:12]}… is too large")
    return int(digits)


def _finite(digits: str) -> Decimal:
    if len(digits) > 60 or Decimal(digits).adjusted() > 30:
        raise ScenarioError("", f"the number {digits[:12]}… is too large")
    return Decimal(digits)


def shown(value: object) -> str:
    """A value as it stood in the file, shortened."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}…"


class Fields:
    """One object of the file. Every key is asked for once; `finish` refuses what nobody asked for."""

    def __init__(self, value: object, path: str) -> None:
        """Take an object.

        Raises:
            ScenarioError: it is something else.
        """
        if not isinstance(value, Mapping):
            raise ScenarioError(path, f"must be an object, not {shown(value)}")
        self._rest = dict(value)
        self.path = path

    def at(self, key: str) -> str:
        """The path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def has(self, key: str) -> bool:
        """Whether the key is there and was not taken yet."""
        return key in self._rest

    def need(self, key: str, read: Callable[[object, str], Value]) -> Value:
        """The value of a key that must be there."""
        if key not in self._rest:
            slips = get_close_matches(key, self._rest, 1)
            raise ScenarioError(self.at(key), f'is missing; "{slips[0]}" is no key' if slips else "is missing")
        return read(self._rest.pop(key), self.at(key))

    def take(self, key: str, read: Callable[[object, str], Value], default: Value) -> Value:
        """The value of a key, or the default where it is absent."""
        return read(self._rest.pop(key), self.at(key)) if key in self._rest else default

    def items(self) -> Iterator[tuple[str, object]]:
        """All keys that are left, taken."""
        rest, self._rest = self._rest, {}
        yield from rest.items()

    def finish(self) -> None:
        """Refuse keys that nobody asked for."""
        for key in self._rest:
            raise ScenarioError(self.at(key), "unknown key")


def elements(value: object, path: str) -> list[tuple[object, str]]:
    """The elements of a list, each with its path."""
    if not isinstance(value, list):
        raise ScenarioError(path, f"must be a list, not {shown(value)}")
    return [(each, f"{path}[{index}]") for index, each in enumerate(value)]


def text(value: object, path: str) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ScenarioError(path, f"must be a text that is not empty, not {shown(value)}")
    return value


def flag(value: object, path: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ScenarioError(path, f"must be true or false, not {shown(value)}")
    return value


def whole(value: object, path: str) -> int:
    """A whole number of either sign."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST:
        raise ScenarioError(path, f"must be a whole number, not {shown(value)}")
    return value


def count(value: object, path: str) -> int:
    """A whole number that is not negative."""
    number = whole(value, path)
    if number < 0:
        raise ScenarioError(path, f"must not be negative, but is {number}")
    return number


def positive(value: object, path: str) -> int:
    """A whole number of at least 1."""
    number = whole(value, path)
    if number < 1:
        raise ScenarioError(path, f"must be at least 1, but is {number}")
    return number


def memory(value: object, path: str) -> int:
    """An amount of memory in GiB, above 0, as MiB."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 < value <= _LARGEST:
        raise ScenarioError(path, f"must be a number of GiB above 0, not {shown(value)}")
    mib = value * 1_024
    if mib != int(mib):
        raise ScenarioError(path, f"must be a whole number of MiB, 1/1,024 of a GiB, not {shown(value)}")
    return int(mib)


def size_milli(value: object, path: str) -> int:
    """An amount of GPUs: a whole number, or a fraction of one GPU in whole thousandths."""
    if isinstance(value, Decimal) and 0 < value < 1 and value * 1_000 == int(value * 1_000):
        return int(value * 1_000)
    return positive(value, path) * 1_000


def instant(value: object, path: str) -> int:
    """Whole seconds, or a text such as "1h30m" or "-173h"."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None or not match[2]:
            raise ScenarioError(path, f'must be seconds or a text such as "90s" or "1h30m", not {shown(value)}')
        parts = re.findall(r"(\d{1,15})([dhms])", match[2])
        seconds = sum(int(number) * _UNIT_S[unit] for number, unit in parts)
        return whole(-seconds if match[1] else seconds, path)
    return whole(value, path)


def duration(value: object, path: str) -> int:
    """An instant that is not negative."""
    seconds = instant(value, path)
    if seconds < 0:
        raise ScenarioError(path, f"must not be negative, but is {shown(value)}")
    return seconds
