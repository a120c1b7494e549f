"""What a command consists of, as far as it lies here: the scripts that it names, and the modules that these import.

They are read as text, and parsed to see what they import; nothing is run or imported.
"""

from __future__ import annotations

import ast
import os
import shlex
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from allot.failures import USAGE, Failure

MOST_FILES = 500
MOST_BYTES, MOST_IN_ALL = 500_000, 1_000_000
ENDINGS = (".py", ".sh", ".bash", ".sbatch", ".slurm")
LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env"})
MOST_NESTED = 3


def sources(paths: Sequence[str]) -> dict[str, str]:
    """The text of each file by its path; of folders, of all programs in them.

    Raises:
        Failure: one can't be read, is no text, or is too large; or there are too many, or none.
    """
    found: dict[str, str] = {}
    for path in (each for said in paths for each in _files(said)):
        if len(found) >= MOST_FILES and str(path) not in found:
            raise Failure(f"{paths[0]}: more than {MOST_FILES} files; name those that belong to the work", USAGE)
        found[str(path)] = text_of(path)
    if not found:
        raise Failure(f"{paths[0]}: holds no program ({', '.join(ENDINGS)})", USAGE)
    return found


def _files(said: str) -> Iterator[Path]:
    """Itself, or the programs below it, without what hides or was installed."""
    path = Path(said)
    if not path.is_dir():
        yield path
        return
    for folder, below, names in os.walk(path):
        below[:] = sorted(each for each in below if not each.startswith(".") and each not in LEFT_OUT)
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(ENDINGS) and name[0] != ".")


def text_of(path: Path) -> str:
    """What stands in a file.

    Raises:
        Failure: it can't be read, is no text, or is too large.
    """
    try:
        if not path.is_file():
            raise Failure(f"{path}: {'is no file' if path.exists() else 'No such file or directory'}", USAGE)
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise Failure(f"{path}: {size / 1e6:.1f} MB; a program has at most {MOST_BYTES / 1e6:.1f} MB a file", USAGE)
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}", USAGE) from None
    except ValueError:
        raise Failure(f"{path}: is no text", USAGE) from None
    if "\0" in text:
        raise Failure(f"{path}: is no text", USAGE)
    return text


def of_command(command: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The text by path of what a command names and lies here, and what of it can't be read, a line each.

    A submission fails for none of it: what is not sent is only not read.
    """
    found: dict[str, str] = {}
    problems: list[str] = []
    waiting = list(_named(command))
    seen: set[Path] = set()
    room = MOST_IN_ALL
    while waiting and len(found) < MOST_FILES:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        try:
            text = text_of(path)
        except Failure as failure:
            problems.append(failure.message)
            continue
        room -= len(text.encode())
        if room < 0:
            problems.append(f"{path}: the files have more than {MOST_IN_ALL / 1e6:.0f} MB in all")
            break
        found[str(path)] = text
        waiting += _imported(path, text) if path.suffix == ".py" else _started(text)
    return found, problems


def _named(words: Sequence[str], nested: int = MOST_NESTED) -> Iterator[Path]:
    """The programs among arguments, those of `sh -c` too, and what `python -m` runs."""
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        if before == "-m":
            yield from _module(Path(), word)
        elif before == "-c" and nested:
            yield from _named(_split(word), nested - 1)
        elif word.endswith(ENDINGS) and Path(word).is_file():
            yield Path(word)


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return []


def _started(text: str) -> Iterator[Path]:
    """What a launch script names."""
    for line in text.replace("\\\n", " ").split("\n"):
        if ".py" in line or ".sh" in line or " -m " in line:
            yield from _named(_split(line))


def _imported(path: Path, text: str) -> Iterator[Path]:
    """The modules that a Python file imports and that lie beside it, or below the working directory."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module, *(f"{module}.{each.name}".lstrip(".") for each in node.names)]
        else:
            continue
        level = node.level if isinstance(node, ast.ImportFrom) else 0
        folder = Path(os.path.normpath(path.parent.joinpath(*[".."] * (level - 1)))) if level else path.parent
        for name in filter(None, names):
            yield from _module(folder, name)
            if not level and folder != Path():
                yield from _module(Path(), name)


def _module(folder: Path, name: str) -> Iterator[Path]:
    """The files of a module of that name below a folder: its own, and those of the packages around it."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return
    for count in range(1, len(parts) + 1):
        package = folder.joinpath(*parts[:count])
        yield from (each for each in (package / "__init__.py", package / "__main__.py") if each.is_file())
    if (single := folder.joinpath(*parts).with_suffix(".py")).is_file():
        yield single
