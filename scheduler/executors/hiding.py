"""Taking secrets out of what a command prints, before anybody keeps it; also when one is split over several writes."""

from __future__ import annotations

import re
from collections.abc import Mapping


class Hiding:
    """A stream of bytes, in which each secret's value is replaced by its name in brackets."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """`secrets` are values by name; empty values hide nothing."""
        marks = {value.encode(): f"[{name}]".encode() for name, value in secrets.items() if value}
        values = sorted(marks, key=len, reverse=True)  # of two that begin alike, the longer one
        self._marks, self._values = marks, values
        self._pattern = re.compile(b"|".join(re.escape(value) for value in values)) if values else None
        self._kept = b""

    def feed(self, data: bytes) -> bytes:
        """What may be told of all that has come so far: not its end, where that may be the beginning of a secret."""
        if self._pattern is None:
            return data
        text, told, at = self._kept + data, b"", 0
        while True:
            held_from = self._unfinished(text, at)
            match = self._pattern.search(text, at)
            if match is None or match.start() >= held_from:
                self._kept = text[held_from:]
                return told + text[at:held_from]
            told += text[at : match.start()] + self._marks[match.group()]
            at = match.end()

    @property
    def rest_bytes(self) -> bytes:
        """What is held back now, as it came."""
        return self._kept

    def rest(self) -> bytes:
        """What was held back, at the end of the stream."""
        kept, self._kept = self._kept, b""
        return kept if self._pattern is None else self._pattern.sub(lambda match: self._marks[match.group()], kept)

    def _unfinished(self, text: bytes, at: int) -> int:
        """From where on the text may be a secret that goes on; its length if nowhere."""
        earliest = max(at, len(text) - len(self._values[0]) + 1)
        for start in range(earliest, len(text)):
            end = text[start:]
            if any(len(value) > len(end) and value.startswith(end) for value in self._values):
                return start
        return len(text)


def hide(text: str, secrets: Mapping[str, str]) -> str:
    """One whole text without these secrets."""
    hiding = Hiding(secrets)
    return (hiding.feed(text.encode(errors="replace")) + hiding.rest()).decode(errors="replace")
