"""What a page says, read out of its HTML: text nodes, and the attributes that people read or hear."""

from __future__ import annotations

from html.parser import HTMLParser

SAID = ("aria-label", "placeholder", "title", "alt", "data-label", "data-copied", "data-no-answer")
UNSAID = ("script", "style", "code", "pre")
HIDDEN_INPUTS = ("hidden",)


class Words(HTMLParser):
    """Collects what is said, in the order of the page, and the styles beside it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.said: list[str] = []
        self.styles: list[str] = []
        self._unsaid = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """The attributes that are said; what is inside of scripts, styles and code is not."""
        self._unsaid += tag in UNSAID
        for name, value in attributes:
            if name in SAID and value and value.strip():
                self.said.append(" ".join(value.split()))
            if name == "style" and value:
                self.styles.append(value)

    def handle_endtag(self, tag: str) -> None:
        """It ends."""
        self._unsaid -= tag in UNSAID

    def handle_data(self, data: str) -> None:
        """A text node."""
        if not self._unsaid and data.strip():
            self.said.append(" ".join(data.split()))


def words_of(html: str) -> Words:
    """What this page says."""
    reader = Words()
    reader.feed(html)
    return reader
