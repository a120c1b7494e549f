"""What the commands on files have in common: no database, one clear line for what is wrong, exit status 2."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError

from scheduler.simulator import ScenarioError, read_duration

BAD_INPUT = 2
"""Exit status for a fault in a file or on the command line."""
INTERRUPTED = 130


class CommandOnFiles(BaseCommand):
    """A command that reads and writes files only. Subclasses raise `CommandError` with one line."""

    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Run, and turn whatever is wrong with the input into one line on standard error."""
        try:
            parser = self.create_parser(argv[0], argv[1])
            options = vars(parser.parse_args(argv[2:]))
            options.pop("args", ())
            self.execute(**options)
        except CommandError as error:
            message = " ".join(str(error).removeprefix("Error: ").split())
            sys.stderr.write(f"{argv[1]}: {message}\n")
            sys.exit(BAD_INPUT)
        except BrokenPipeError:
            sys.stderr.close()  # whoever read us has seen enough
            sys.exit(0)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def print_json(self, value: Any) -> None:
        """One JSON object on standard output."""
        self.stdout.write(json.dumps(value, ensure_ascii=False))


def read_text(name: str) -> str:
    """The text of a file, "-" for standard input.

    Raises:
        CommandError: it can't be read, or is not UTF-8.
    """
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        fail(name, f"cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        fail(name, "is not UTF-8 text")


def write_text(name: str, content: str) -> None:
    """Write a file.

    Raises:
        CommandError: it can't be written.
    """
    try:
        Path(name).write_text(content, encoding="utf-8")
    except OSError as error:
        fail(name, f"cannot be written: {error.strerror}")


def check_folder(name: str) -> None:
    """Refuse a file to be written where there is no folder for it: not after minutes of work.

    Raises:
        CommandError: there is none.
    """
    if not Path(name).parent.is_dir():
        fail(name, "cannot be written: No such file or directory")


def read_duration_option(option: str, value: str) -> int:
    """Seconds from an option such as "90s", "1h30m" or "3600".

    Raises:
        CommandError: it is neither, or negative.
    """
    try:
        return read_duration(int(value) if value.isascii() and value.isdigit() else value, option)
    except ScenarioError as error:
        fail(option, error.message)


def fail(name: str, message: str) -> NoReturn:
    """Refuse an input: `name` is the file or option at fault."""
    raise CommandError(f"{name}: {message}")
