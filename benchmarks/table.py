"""The figures as text: for the terminal, and as sections of docs/benchmarks.md between two marks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmarks import Row

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
"""What is between them is written by `python -m benchmarks`."""
HEADER = "| what | value | target | times better |\n|---|---:|---:|---:|"
SECTION = re.compile(r"^### .+?(?=^### |\Z)", re.MULTILINE | re.DOTALL)


def amount(value: float) -> str:
    """Three digits that count, or all whole ones."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def as_text(rows: Sequence[Row]) -> str:
    """Lines for the terminal."""
    width = max(len(row.name) for row in rows)
    lines = []
    for row in rows:
        line = f"{row.name:<{width}}  {amount(row.value):>9} {row.unit}"
        if row.ratio is not None:
            verdict = "" if row.ratio >= 1 else "  MISSED"
            line += f"   {row.target} {row.unit}, {row.ratio:.2f} x{verdict}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def as_section(name: str, rows: Sequence[Row], machine: str) -> str:
    """A benchmark's part of the document."""
    lines = [
        f"| {row.name} | {amount(row.value)} {row.unit} | {row.target and f'{row.target} {row.unit}'} "
        f"| {'' if row.ratio is None else f'{row.ratio:.2f}'} |"
        for row in rows
    ]
    return "\n".join([f"### {name}", "", HEADER, *lines, "", machine, "", ""])


def with_section(document: str, name: str, section: str) -> str:
    """The document with this benchmark's section in place of its old one; sections stand by name.

    Raises:
        ValueError: the marks are not in it.
    """
    before, begin, rest = document.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"docs/benchmarks.md: {BEGIN} and {END} are not in it")
    sections = {each.splitlines()[0].removeprefix("### "): each for each in SECTION.findall(old)}
    sections[name] = section
    between = "".join(f"{sections[each].rstrip()}\n\n" for each in sorted(sections))
    return f"{before}{begin}\n\n{between}{end}{after}"
