"""Bodies of requests: JSON, and no characters that nothing here can hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.parsers import JSONParser

DEEPEST = 40
"""Levels of a body; a scenario file has seven."""


class PlainJSONParser(JSONParser):
    """JSON whose texts can be stored: no NUL, and no half of a surrogate pair."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        """What was sent.

        Raises:
            ParseError: not JSON. ValidationError: names where a text can't be stored.
        """
        try:
            said = super().parse(stream, media_type, parser_context)
        except RecursionError:
            raise ParseError(gettext("It is nested too deeply.")) from None
        for path, text in texts(said):
            if not _is_plain(text):
                where = path.encode("ascii", "backslashreplace").decode()
                raise ValidationError({where: [gettext("It holds a character that can't be stored.")]})
        return said


def texts(said: Any) -> Iterator[tuple[str, str]]:
    """Every text in what was sent, with where it stands; names too.

    Raises:
        ParseError: it is nested too deeply.
    """
    waiting: list[tuple[str, Any, int]] = [("", said, 0)]
    while waiting:
        path, value, depth = waiting.pop()
        if depth > DEEPEST:
            raise ParseError(gettext("It is nested too deeply."))
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, list):
            waiting += [(f"{path}[{index}]", each, depth + 1) for index, each in enumerate(value)]
        elif isinstance(value, dict):
            for name, each in value.items():
                at = f"{path}.{name}" if path else name
                yield at, name
                waiting.append((at, each, depth + 1))


def _is_plain(text: str) -> bool:
    if text.isascii():
        return "\0" not in text
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
