"""One launch script as the rules see it: its commands, split into words as a shell would, and never run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from posixpath import basename

WRAPPERS = frozenset(
    {"sudo", "nohup", "exec", "time", "env", "nice", "ionice", "numactl", "stdbuf", "setsid", "command"}
)
KEYWORDS = frozenset({"do", "then", "else", "{", "(", "!", "if", "elif"})
LAUNCHERS = frozenset(
    {"torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "horovodrun", "srun", "colossalai", "composer"}
)
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
PYTHON = re.compile(r"python[\d.]*$")
ENDS = frozenset({"\n", ";", "&", "&&", "||", "|", ";;"})
MAX_NESTED = 3


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        line: where it begins.
        words: its words without quotes, the program first; without wrappers such as `nohup`, and keywords.
        settings: `NAME=value` before it, or with `export`.
        ended_by: what follows: `&` is in the background.
        keyword: what of the shell's own words stood before it.
    """

    line: int
    words: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)
    ended_by: str = "\n"
    keyword: str = ""

    @property
    def program(self) -> str:
        """The name of the program without its folder; empty for a mere assignment."""
        return basename(self.words[0]) if self.words else ""

    @property
    def is_python(self) -> bool:
        """Python itself."""
        return bool(PYTHON.match(self.program))

    @property
    def python_module(self) -> str:
        """What `python -m` runs."""
        if self.is_python and "-m" in self.words[:-1]:
            return self.words[self.words.index("-m") + 1]
        return ""

    @property
    def is_launch(self) -> bool:
        """It starts the work: Python with a file or a module that is no tool, or a launcher."""
        if self.is_python:
            return self.python_module not in TOOLS and any(
                each.endswith(".py") or each == "-m" for each in self.words[1:] if each != "setup.py"
            )
        return self.program in LAUNCHERS

    def option(self, *names: str) -> str | None:
        """The value of `--name value` or `--name=value`, the last said; None where there is none."""
        found = None
        for index, word in enumerate(self.words):
            name, equals, value = word.partition("=")
            if name in names:
                following = self.words[index + 1] if index + 1 < len(self.words) else ""
                found = value if equals else following
        return found


TOOLS = frozenset({"pip", "venv", "ensurepip", "jupyter", "notebook", "http.server", "compileall", "build"})


@dataclass(eq=False)
class Script:
    """A launch script.

    Attributes:
        path: as it was given.
        variables: what names stand for; None where they are set more than once, or to what is not known.
    """

    path: str
    commands: list[Command]
    variables: dict[str, str | None]

    def known(self, text: str) -> str | None:
        """A word with its variables filled in; None where one is not known."""
        missing = False

        def filled(match: re.Match[str]) -> str:
            nonlocal missing
            value = self.variables.get(match[1] or match[2])
            missing = missing or value is None or "$" in value
            return value or ""

        done = VARIABLE.sub(filled, text)
        return None if missing or "$" in done or "`" in done else done

    @property
    def launch_line(self) -> int | None:
        """The first line that starts the work."""
        return next((each.line for each in self.commands if each.is_launch), None)

    def before_launch(self) -> Iterator[Command]:
        """The commands before the work begins; all of them where nothing starts it."""
        for each in self.commands:
            if each.is_launch:
                return
            yield each


def read(path: str, text: str) -> Script:
    """Split a script into its commands."""
    commands = list(_commands(text, 1, MAX_NESTED))
    variables: dict[str, str | None] = {}
    for command in commands:
        if not command.words or command.program in ("export", "declare", "local", "readonly"):
            for name, value in command.settings.items():
                variables[name] = None if name in variables else value
    return Script(path, commands, variables)


def _commands(text: str, first_line: int, nested: int) -> Iterator[Command]:
    words: list[str] = []
    begun = first_line
    for line, word, is_end in _Words(text, first_line):
        if not is_end:
            begun = begun if words else line
            words.append(word)
            continue
        if words:
            yield from _command(begun, words, word, nested)
        words = []


def _command(line: int, words: list[str], ended_by: str, nested: int) -> Iterator[Command]:
    keyword = ""
    while words and (words[0] in KEYWORDS or words[0] in ("while", "until") or words[0].endswith("()")):
        keyword = words[0]
        words = words[1:]
    settings: dict[str, str] = {}
    rest = list(words)
    is_export = bool(rest) and rest[0] in ("export", "declare", "local", "readonly")
    while rest and (ASSIGNMENT.match(rest[0]) or rest[0] in WRAPPERS or is_export):
        if ASSIGNMENT.match(rest[0]):
            name, _, value = rest[0].partition("=")
            settings[name] = value
        elif rest[0].startswith("-") and not is_export:
            break
        rest = rest[1:]
    found = Command(line, ("export",) if is_export else tuple(rest), settings, ended_by, keyword)
    yield found
    if nested and found.program in ("bash", "sh", "zsh") and "-c" in found.words[:-1]:
        yield from _commands(found.words[found.words.index("-c") + 1], line, nested - 1)


class _Words:
    """Goes over a text once, and gives (line, word, is the end of a command)."""

    def __init__(self, text: str, line: int) -> None:
        self.text, self.line, self.at = text.replace("\r\n", "\n"), line, 0
        self.word: list[str] = []
        self.is_word = False
        self.markers: list[str] = []
        self.counted = 0

    def __iter__(self) -> Iterator[tuple[int, str, bool]]:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in "'\"":
                self._quoted(char)
            elif char == "\\":
                self._escaped()
            elif char == "#" and not self.word and not self.is_word:
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif char == "<" and (document := HEREDOC.match(self.text, self.at)) and self.text[self.at + 2] != "<":
                self.markers.append(document[2])
                self.at = document.end()
            elif char.isspace() or (char in ";&|()" and not self._is_part(char)):
                yield from self._between(char)
            else:
                self.word.append(char)
                self.at += 1
        yield from self._between("\n")

    def _quoted(self, quote: str) -> None:
        """Up to the next quote of its kind, over lines; `\\` escapes in double ones."""
        self.is_word = True
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != quote:
            if self.text[self.at] == "\\" and quote == '"' and self.at + 1 < len(self.text):
                self.at += 1
            self.word.append(self.text[self.at])
            self.at += 1
        self.at += 1

    def _escaped(self) -> None:
        """The next character is nothing special; a line that ends so goes on with the next."""
        following = self.text[self.at + 1 : self.at + 2]
        if following != "\n":
            self.word.append(following)
        self.at += 2

    def _is_part(self, char: str) -> bool:
        """`2>&1` and `&>file` end nothing, nor does what begins `$(...)`, `((...))`, and a list of words."""
        if char in "()":
            following = self.text[self.at + 1 : self.at + 2]
            return (bool(self.word) or following == "(") if char == "(" else "(" in self.word
        return char == "&" and (self.word[-1:] == [">"] or self.text[self.at + 1 : self.at + 2] == ">")

    def _between(self, char: str) -> Iterator[tuple[int, str, bool]]:
        """White space, or the end of a command."""
        line = self.line_here()
        if self.word or self.is_word:
            yield line, "".join(self.word), False
        self.word, self.is_word = [], False
        self.at += 1
        if char == "\n":
            yield line, char, True
            self._skip_documents()
        elif not char.isspace():
            is_double = self.text[self.at : self.at + 1] == char
            self.at += is_double
            yield line, char * (1 + is_double), True

    def line_here(self) -> int:
        """The line of the place that has been reached; counted from the last one."""
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = max(self.at, self.counted)
        return self.line

    def _skip_documents(self) -> None:
        """What stands between a line with `<<END` and the line END."""
        for marker in self.markers:
            ended = re.compile(rf"^[ \t]*{marker}[ \t]*$", re.MULTILINE).search(self.text, self.at)
            end = self.text.find("\n", ended.end()) if ended else -1
            self.at = len(self.text) if end < 0 else end + 1
        self.markers = []
