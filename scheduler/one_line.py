"""What errors say about other people's input: on one line that every page, terminal and log can hold. Pure."""

from __future__ import annotations

MOST = 300


def one_line(text: str, most: int = MOST) -> str:
    """The text, cut to `most` characters; what cannot be printed is written out (`\\n`, `\\ud800`)."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    if cut.isprintable():
        return cut
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut)
