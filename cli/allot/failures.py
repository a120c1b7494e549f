"""What ends a command without success: one line for people, and an exit code for scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

DONE = 0
FAILED = 1
"""It was understood and refused, or has failed."""
USAGE = 2
"""Something that was said can't be read, here or by the portal."""
UNREACHABLE = 3
"""The portal does not answer, or is in trouble."""
NOT_ALLOWED = 4
"""Not signed in, or not allowed to."""
NOT_FOUND = 5
"""There is no such thing, or one may not see it."""
CONFLICT = 6
"""It was changed meanwhile, or is in a state in which that can't be done."""
INTERRUPTED = 130
"""Ctrl-C."""

MEANINGS = {
    DONE: "done",
    FAILED: "refused, or failed",
    USAGE: "something that was said can't be read; the line names the option",
    UNREACHABLE: "the portal can't be reached, or is in trouble",
    NOT_ALLOWED: "not signed in, or not allowed",
    NOT_FOUND: "there is no such thing, or you may not see it",
    CONFLICT: "it was changed meanwhile, or its state does not allow it",
    INTERRUPTED: "interrupted by Ctrl-C",
}


class Failure(Exception):
    """A command ends with this line on stderr, and this exit code.

    Attributes:
        message: one line.
        exit_code: one of those above.
        errors: (field, message) of everything that was wrong, where the portal says so.
        may_pass: the same may succeed in a while: the portal restarts, say.
    """

    def __init__(
        self,
        message: str,
        exit_code: int = FAILED,
        errors: Sequence[tuple[str, str]] = (),
        *,
        may_pass: bool = False,
    ) -> None:
        super().__init__(message)
        self.message, self.exit_code, self.errors = " ".join(message.split()), exit_code, errors
        self.may_pass = may_pass

    def in_words(self, options: Mapping[str, str]) -> str:
        """The line, with the options of the command in place of the portal's fields: `size_milli` is `--gpus`."""
        if not any(field for field, _ in self.errors):
            return self.message
        return "; ".join(
            " ".join(f"{_option(field, options)}: {message}".split()) if field else message
            for field, message in self.errors
        )


def _option(field: str, options: Mapping[str, str]) -> str:
    """`environment.LD_PRELOAD` is `--env LD_PRELOAD`; what no option stands for keeps its name."""
    if field in options:
        return options[field]
    name, dot, rest = field.partition(".")
    if "[" in name:
        name, bracket, index = name.partition("[")
        dot, rest = bracket, index.rstrip("]")
    if name not in options:
        return field
    if dot == "[":
        return f"{options[name]} ({int(rest) + 1})" if rest.isdigit() else options[name]
    return f"{options[name]} {rest}" if rest else options[name]
