"""All that was given, read: Python modules, launch scripts, and what could not be read."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from posixpath import basename, splitext

from scheduler.advisor import shell, syntax
from scheduler.advisor.shell import Command, Script
from scheduler.advisor.syntax import Call, Module
from scheduler.advisor.values import Text

MAX_FILES = 500
MAX_FILE_BYTES = 500_000
MAX_PACKAGE_BYTES = 1_000_000
MAX_WORDS = 100_000
"""A parsed program takes up to two kilobytes for each word of its own; ten thousand lines have some 80,000."""
COMMAND, ENVIRONMENT = "the command", "the environment"
"""Where a finding is that stands in no file: in what starts the program, or in the variables that are set for it."""
MAX_LINE_CHARS = 20_000
"""A longer line is no program that people wrote; parsing it may need hundreds of times its size."""

SHELL_ENDINGS = frozenset({".sh", ".bash", ".zsh", ".ksh", ".sbatch", ".slurm", ".job", ".pbs", ".lsf"})
PYTHON_ENDINGS = frozenset({".py", ".pyw"})
WORD = re.compile(r"\w+")
LOOKS_LIKE_PYTHON = re.compile(r"^(?:import|from|def|class|@\w|if __name__)\b", re.MULTILINE)
OF_ANOTHER_PYTHON = ("Missing parentheses in call to", "multiple exception types must be", "leading zeros in decimal")


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that the rules have not seen, and why, in a sentence."""

    path: str
    line: int
    why: str


@dataclass(eq=False)
class Package:
    """What the rules look at.

    Attributes:
        texts: lines by file, for evidence.
        gpus: asked for, on all nodes together.
        said_nodes: how many nodes that is; None where nobody said.
        is_interactive_pool: it is meant for a pool where people work interactively.
        beginnings: how texts begin, by the id of their expression, as far as somebody asked.
    """

    gpus: int
    said_nodes: int | None
    is_interactive_pool: bool
    modules: list[Module] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)
    beginnings: dict[int, Text] = field(default_factory=dict)

    @cached_property
    def _calls(self) -> dict[str, list[Call]]:
        found: dict[str, list[Call]] = {}
        for module in self.modules:
            for call in module.calls:
                found.setdefault(call.last, []).append(call)
        return found

    def calls(self, *lasts: str) -> Iterator[Call]:
        """The calls whose name ends so."""
        for last in lasts:
            yield from self._calls.get(last, ())

    @cached_property
    def words(self) -> frozenset[str]:
        """Every identifier of every module."""
        return frozenset(word for module in self.modules for word in module.words)

    @cached_property
    def classes(self) -> frozenset[str]:
        """Classes of the package's own."""
        return frozenset(name for module in self.modules for name in module.classes)

    @cached_property
    def local_names(self) -> frozenset[str]:
        """What an import of the package's own files begins with."""
        parts = (splitext(module.path)[0].split("/") for module in self.modules)
        return frozenset({".", *(part for path in parts for part in path)})

    @cached_property
    def _by_name(self) -> dict[str, Module]:
        found: dict[str, Module] = {}
        for module in self.modules:
            path = splitext(module.path)[0].replace("/", ".").removesuffix(".__init__")
            found[path] = module
            found.setdefault(path.rpartition(".")[2], module)
        return found

    def constant(self, module: Module, node: ast.expr) -> tuple[Module, ast.expr] | None:
        """What a name stands for: assigned once, here or in the module of the package that it comes from."""
        if isinstance(node, ast.Name) and node.id in module.constants:
            return module, module.constants[node.id]
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        source, _, name = module.named(node).rpartition(".")
        source = source.lstrip(".")
        other = self._by_name.get(source) or self._by_name.get(source.rpartition(".")[2])
        if other is None or other is module or name not in other.constants:
            return None
        return other, other.constants[name]

    @cached_property
    def commands(self) -> list[tuple[str, int, Command, Script | None]]:
        """(file, line, command, its script): of launch scripts, and of literals that Python gives to a shell."""
        found: list[tuple[str, int, Command, Script | None]] = [
            (script.path, command.line, command, script) for script in self.scripts for command in script.commands
        ]
        for call in self.calls("system", "popen", "run", "call", "check_call", "check_output", "Popen"):
            if call.name.startswith(("os.", "subprocess.")):
                found += [(call.module.path, call.line, command, None) for command in commands_of(call)]
        return found

    @cached_property
    def nodes(self) -> int | None:
        """How many nodes: as said, or as a launch script says; one where nobody says more; None is unknown."""
        if self.said_nodes is not None:
            return self.said_nodes
        for script in self.scripts:
            for command in script.commands:
                text = command.option("--nnodes", "--num_nodes", "--num_machines") if command.is_launch else None
                if text is not None:
                    known = script.known(text)
                    return int(known) if known and known.isdecimal() and int(known[:6]) > 0 else None
        return 1

    @property
    def gpus_per_node(self) -> int | None:
        """None where the number of nodes is unknown."""
        return None if self.nodes is None else max(1, -(-self.gpus // self.nodes)) if self.gpus else 0


def commands_of(call: Call) -> list[Command]:
    """What a call gives to a shell, where it is written out."""
    text = _literal_command(call)
    return shell.read(call.module.path, text).commands if text else []


def _literal_command(call: Call) -> str:
    given = call.node.args[0] if call.node.args else None
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return given.value
    if isinstance(given, ast.List):
        words = [each.value for each in given.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        return " ".join(words)
    return ""


def read(
    files: Mapping[str, str | bytes],
    *,
    gpus: int,
    nodes: int | None = None,
    is_interactive_pool: bool = False,
    command: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Package:
    """Read all files; what can't be read is told in `unread`, and nothing is raised for it.

    The argument list that starts the program, and its variables, are a launch script more.

    Raises:
        ValueError: gpus or nodes are no sensible numbers.
    """
    if isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 0:
        raise ValueError(f"gpus: {gpus!r} is no number of GPUs")
    if nodes is not None and (isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 1):
        raise ValueError(f"nodes: {nodes!r} is no number of nodes")
    package = Package(gpus, nodes, is_interactive_pool)
    room, words_left = MAX_PACKAGE_BYTES, MAX_WORDS
    for number, (path, content) in enumerate(files.items()):
        if number == MAX_FILES:
            package.unread.append(Unread(path, 0, f"It and what follows was not read: more than {MAX_FILES} files."))
            break
        text = _text(package, path, content, room)
        if text is None:
            continue
        room -= len(text)
        words_left -= len(WORD.findall(text))
        if words_left < 0:
            why = f"It and what follows was not read: the files have more than {MAX_WORDS:,} words in all."
            package.unread.append(Unread(path, 0, why))
            break
        _read_one(package, path, text)
    _read_start(package, command, environment or {})
    return package


def _read_start(package: Package, command: Sequence[str], environment: Mapping[str, str]) -> None:
    if environment:
        settings = Command(1, ("export",), dict(environment))
        package.scripts.append(Script(ENVIRONMENT, [settings], dict(environment)))
    if command:
        line = shlex.join(command)
        script = shell.read(COMMAND, line)
        script.variables = {**environment, **script.variables}
        package.texts[COMMAND] = line.split("\n")
        package.scripts.append(script)


def _text(package: Package, path: str, content: str | bytes, room: int) -> str | None:
    """The text of a file; None where it is too large or none."""
    size = len(content)
    if size > MAX_FILE_BYTES:
        why = f"It was not read: {size / 1e6:.1f} MB; a file may have {MAX_FILE_BYTES / 1e6:.1f} MB."
    elif size > room:
        why = f"It was not read: the files have more than {MAX_PACKAGE_BYTES / 1e6:.0f} MB in all."
    else:
        try:
            text = content.decode("utf-8") if isinstance(content, bytes) else content
            text.encode("utf-8")
        except UnicodeError:
            text = "\0"
        text = text.removeprefix("\ufeff")
        if "\0" not in text:
            return text
        why = "It was not read: it is no text."
    package.unread.append(Unread(path, 0, why))
    return None


def _read_one(package: Package, path: str, text: str) -> None:
    ending = splitext(basename(path))[1].lower()
    lines = text.split("\n")
    package.texts[path] = lines
    longest = max(range(len(lines)), key=lambda index: len(lines[index]))
    if len(lines[longest]) > MAX_LINE_CHARS:
        why = f"It was not read: this line has {len(lines[longest]):,} characters."
        package.unread.append(Unread(path, longest + 1, why))
    elif ending in PYTHON_ENDINGS or (ending not in SHELL_ENDINGS and _is_python(lines[0], text)):
        _read_python(package, path, text)
    elif ending in SHELL_ENDINGS or lines[0].startswith("#!") or not ending:
        package.scripts.append(shell.read(path, text))
    else:
        package.unread.append(Unread(path, 0, "It was not read: neither Python (.py) nor a launch script (.sh)."))


def _is_python(first: str, text: str) -> bool:
    return "python" in first if first.startswith("#!") else bool(LOOKS_LIKE_PYTHON.search(text))


def _read_python(package: Package, path: str, text: str) -> None:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        said = error.msg or "invalid syntax"
        of = "another version of Python" if said.startswith(OF_ANOTHER_PYTHON) else "Python 3.11, or has an error"
        is_older = of.startswith("another")
        what = f"It was not read: it is written for {of}" if is_older else f"It was not read: it is not {of}"
        line = min(max(error.lineno or 0, 0), text.count("\n") + 1)
        package.unread.append(Unread(path, line, f"{what}: {' '.join(said.split())[:120]}."))
    except (ValueError, RecursionError, MemoryError):
        package.unread.append(Unread(path, 0, "It was not read: it is nested too deeply, or holds what Python can't."))
    else:
        package.modules.append(syntax.read(path, tree))
