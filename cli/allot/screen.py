"""What a command prints: text that fits the terminal, plain where nobody looks; JSON for programs.

Where the output is no terminal, nothing is cut or wrapped: a row is a line, so that grep and awk find whole rows.
Colour is only ever a second way to say something, and is left out for NO_COLOR, dumb terminals and pipes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import click

LEAST_WIDTH, LEAST_TEXT, NARROWEST_TEXT = 40, 22, 10
"""Columns that a screen has at least, and a column of text before others are left out for it, and in the end."""
MOST_WIDTH = 160
GAP = "  "
STYLES: dict[str, dict[str, Any]] = {
    "bold": {"bold": True},
    "dim": {"dim": True},
    "good": {"fg": "green"},
    "busy": {"fg": "cyan"},
    "warn": {"fg": "yellow"},
    "bad": {"fg": "red"},
    "head": {"dim": True},
    "mine": {"bold": True},
}
STATES = {"queued": "warn", "starting": "busy", "running": "good", "leaving": "warn", "unreachable": "bad",
          "held": "bad", "finished": "dim", "failed": "bad", "preempted": "warn", "lost": "bad", "cancelled": "dim",
          "refused": "bad", "healthy": "good", "draining": "warn", "drained": "warn", "unhealthy": "bad",
          "down": "bad"}  # fmt: skip
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
NO_BREAK = str.maketrans({"\u00a0": " ", "\u202f": " "})


def clean(text: str) -> str:
    """Text of other people, with nothing in it that a terminal would obey."""
    return CONTROL.sub("�", text.translate(NO_BREAK).replace("\n", " ").replace("\t", " "))


def wide(text: str) -> int:
    """How many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


@dataclass(frozen=True)
class Screen:
    """Where a command prints to.

    Attributes:
        width: its columns; None where it is no terminal.
        has_colour, has_blocks: whether it shows colours, and block characters.
    """

    width: int | None
    has_colour: bool
    has_blocks: bool

    @classmethod
    def of_stdout(cls) -> Screen:
        """What this process prints to."""
        env = os.environ
        is_terminal = sys.stdout.isatty()
        has_colour = is_terminal and "NO_COLOR" not in env and env.get("TERM") != "dumb"
        if env.get("FORCE_COLOR") and "NO_COLOR" not in env:
            has_colour = True
        width = None
        if is_terminal or env.get("COLUMNS", "").isdigit():
            width = min(MOST_WIDTH, max(LEAST_WIDTH, shutil.get_terminal_size((100, 24)).columns))
        return cls(width, has_colour, "utf" in (sys.stdout.encoding or "").lower())

    @property
    def text_width(self) -> int:
        """Columns for running text."""
        return min(self.width or 100, 100)

    def paint(self, text: str, style: str) -> str:
        """The text in a style."""
        return click.style(text, **STYLES[style]) if self.has_colour and style and text else text

    def say(self, text: str = "", style: str = "", *, indent: int = 0) -> None:
        """Running text, wrapped to the screen."""
        pad = " " * indent
        for line in text.split("\n"):
            wrapped = self.wrapped(line, self.text_width - indent) if self.width else [line]
            for part in wrapped:
                put(f"{pad}{self.paint(part, style)}".rstrip())

    def item(self, text: str, mark: str = "-", *, indent: int = 2) -> None:
        """A point of a list, its further lines below its first word."""
        mark = mark if self.has_blocks or mark.isascii() else "-"
        lines = self.wrapped(text, self.text_width - indent - 2) if self.width else [text]
        for number, line in enumerate(lines):
            put(f"{' ' * indent}{mark if not number else ' '} {line}")

    def head(self, text: str, beside: str = "") -> None:
        """The title of a section, after an empty line."""
        put()
        put(self.paint(text, "bold") + (f"  {self.paint(beside, 'dim')}" if beside else ""))

    def beside(self, name: str, texts: Iterable[str]) -> None:
        """A name, and beside it texts, each on lines of its own."""
        room = self.text_width - wide(name) - len(GAP)
        lines = [line for text in texts for line in (self.wrapped(text, room) if self.width else [text])]
        for number, line in enumerate(lines):
            put(f"{' ' * wide(name) if number else self.paint(name, 'bold')}{GAP}{line}")

    def facts(self, rows: Iterable[tuple[str, str]]) -> None:
        """Names and what they are, in two columns."""
        shown = [(name, clean(text)) for name, text in rows if text]
        most = max((wide(name) for name, _ in shown), default=0)
        for name, text in shown:
            lines = self.wrapped(text, self.text_width - most - 4) if self.width else [text]
            for number, line in enumerate(lines):
                label = name if not number else ""
                put(f"  {self.paint(label, 'dim')}{' ' * (most - wide(label))}  {line}")

    def wrapped(self, text: str, width: int) -> list[str]:
        """Lines of at most so many columns; words that are longer alone are cut."""
        if wide(text) <= width:
            return [text]
        if text.isascii() or wide(text) == len(text):
            return textwrap.wrap(text, max(8, width), break_on_hyphens=False) or [""]
        lines = [""]
        for word in text.split():
            longer = f"{lines[-1]} {word}".strip()
            if wide(longer) <= width or not lines[-1]:
                lines[-1] = longer
            else:
                lines.append(word)
        return [fitting(line, width) for line in lines]

    def bar(self, part: Fraction | float | None, columns: int = 14, whole: int = 10) -> str:
        """A part as a bar; `whole` columns are 100 %, marked, and what is beyond all of it ends in an arrow."""
        if part is None:
            return ""
        eighths = round(min(float(part), columns / whole) * whole * 8)
        full, rest = divmod(max(0, eighths), 8)
        full_sign, empty, mark = ("█", "·", "│") if self.has_blocks else ("#", ".", "|")
        tip = " ▏▎▍▌▋▊▉"[rest] if self.has_blocks and rest else ""
        drawn = list((full_sign * full + tip)[:columns].ljust(columns, " "))
        for at in range(len(drawn)):
            if drawn[at] == " ":
                drawn[at] = empty if at < whole else " "
        if full <= whole <= columns - 1 and drawn[whole] == " ":
            drawn[whole] = mark
        if float(part) > columns / whole:
            drawn[-1] = "▶" if self.has_blocks else ">"
        return "".join(drawn)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        head: its title.
        is_number: its cells stand to the right.
        is_text: its cells are wrapped where the screen is too narrow, for as long as they are readable.
        spare: left out where the screen is too narrow, the highest first; 0 never is.
    """

    head: str
    is_number: bool = False
    is_text: bool = False
    spare: int = 0


@dataclass
class Table:
    """Rows below heads, as wide as they need to be and the screen allows."""

    columns: Sequence[Column]
    rows: list[list[str]] = field(default_factory=list)
    styles: list[dict[int, str]] = field(default_factory=list)
    """By row, the style of a cell's column; -1 is the whole row."""

    def add(self, *cells: str, **styles: str) -> None:
        """A row. `row="dim"` styles it, `c3="bad"` its fourth cell."""
        self.rows.append([clean(cell) for cell in cells])
        at = {-1 if name == "row" else int(name[1:]): style for name, style in styles.items() if style}
        self.styles.append(at)

    def show(self, screen: Screen, indent: int = 0) -> None:
        """Print it."""
        shown, widths = self._fitted(screen, indent)
        heads = [self.columns[at].head for at in shown]
        if any(heads):
            self._line(screen, indent, shown, widths, heads, {-1: "head"})
        for cells, styles in zip(self.rows, self.styles):
            lines = [
                screen.wrapped(cells[at], width) if self.columns[at].is_text and screen.width else [cells[at]]
                for at, width in zip(shown, widths)
            ]
            for number in range(max(map(len, lines))):
                self._line(
                    screen,
                    indent,
                    shown,
                    widths,
                    [each[number] if number < len(each) else "" for each in lines],
                    styles,
                )

    def text_room(self, screen: Screen) -> int | None:
        """Columns for the last one, a text, where the others are as wide as they need to be; None is no bound."""
        if screen.width is None:
            return None
        last = len(self.columns) - 1
        shown = [at for at in self._shown(screen, 0) if at != last]
        return max(LEAST_TEXT, screen.width - _total(self._natural(), shown) - len(GAP))

    def _natural(self) -> list[int]:
        """How wide each column would like to be."""
        return [max([wide(each.head), *(wide(row[at]) for row in self.rows)]) for at, each in enumerate(self.columns)]

    def _shown(self, screen: Screen, indent: int) -> list[int]:
        """The columns that have something in them, and for which there is room."""
        natural = self._natural()
        least = [
            min(natural[at], LEAST_TEXT) if column.is_text else natural[at] for at, column in enumerate(self.columns)
        ]
        shown = [at for at in range(len(least)) if not self.rows or any(row[at] for row in self.rows)]
        for at in sorted(shown, key=lambda at: -self.columns[at].spare):
            if screen.width is None or _total(least, shown) <= screen.width - indent or not self.columns[at].spare:
                break
            shown.remove(at)
        return shown

    def _fitted(self, screen: Screen, indent: int) -> tuple[list[int], list[int]]:
        """The columns that are shown, and how wide each is: texts give way, the widest first."""
        widths, shown = self._natural(), self._shown(screen, indent)
        texts = [at for at in shown if self.columns[at].is_text]
        while texts and screen.width is not None and _total(widths, shown) > screen.width - indent:
            widest = max(texts, key=widths.__getitem__)
            if widths[widest] <= NARROWEST_TEXT:
                break
            widths[widest] -= 1
        return shown, [widths[at] for at in shown]

    def _line(
        self,
        screen: Screen,
        indent: int,
        shown: Sequence[int],
        widths: Sequence[int],
        cells: Sequence[str],
        styles: dict[int, str],
    ) -> None:
        parts = []
        for at, width, cell in zip(shown, widths, cells):
            pad = " " * max(0, width - wide(cell))
            painted = screen.paint(cell, styles.get(at, styles.get(-1, "")))
            parts.append(f"{pad}{painted}" if self.columns[at].is_number else f"{painted}{pad}")
        put((" " * indent + GAP.join(parts)).rstrip())


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[at] for at in shown) + len(GAP) * (len(shown) - 1)


def fitting(text: str, width: int) -> str:
    """A text cut to so many columns, with an ellipsis where something is missing."""
    if wide(text) <= width:
        return text
    kept = ""
    for each in text:
        if wide(kept + each) > width - 1:
            break
        kept += each
    return kept + "…"


def put(line: str = "") -> None:
    """One line on stdout."""
    sys.stdout.write(f"{line}\n")


def note(line: str) -> None:
    """One line for people on stderr, beside what a program reads from stdout."""
    sys.stderr.write(f"{line}\n")


def put_json(value: Any) -> None:
    """What the API gave, for programs."""
    put(json.dumps(value, ensure_ascii=False, indent=2))
