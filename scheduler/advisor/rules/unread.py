"""What could not be read at all."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import basename

from scheduler.advisor.findings import Severity, Spot, rule
from scheduler.advisor.package import Package


@rule(
    "READ",
    Severity.UNKNOWN,
    pattern="a file that is no Python 3.11, no text, or too large; a program that the launch script starts "
    "and that was not given",
    fix="Give the files that the work consists of, as Python that this version reads; the other rules "
    "saw only the rest.",
    effect="",
    source="",
)
def read(package: Package) -> Iterator[Spot]:
    """What was not read, so that nobody takes silence for praise."""
    for each in package.unread:
        yield Spot(each.path, each.line, each.why)
    known = {basename(path) for path in package.texts} | {basename(each.path) for each in package.unread}
    for script in package.scripts:
        told: set[str] = set()
        for command in script.commands:
            program = next((word for word in command.words[1:] if word.endswith(".py")), "")
            if command.is_launch and program and "$" not in program and basename(program) not in known | told:
                told.add(basename(program))
                what = f"It starts {basename(program)}, which was not among the files: nothing is known about it."
                yield Spot(script.path, command.line, what)
