"""What a machine can check: format, lint, types, which package imports which, and the tidiness of the source."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

TEXT_SUFFIXES = {".py", ".html", ".css", ".js", ".md", ".toml", ".txt", ".json", ".yml", ".yaml", ".sh", ".svg", ""}
MAX_LINES = 700
"""Files over 400 lines ask to be split by duty; this is where it is no longer a question."""

UNWANTED = {
    "a path of the machine it was written on": re.compile(r"/(?:work|root|home/\w+)/[a-z]"),
    "a package registry's host": re.compile(
        r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|registry\.yarnpkg|deb\.debian\.org"
    ),
    "something left to do": re.compile(r"\b(?:TODO|FIXME|XXX)\b"),
    "a merge that was left": re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE),
}
VAGUE_NAMES = {
    "utils.py",
    "util.py",
    "helpers.py",
    "helper.py",
    "manager.py",
    "managers.py",
    "info.py",
    "misc.py",
    "common.py",
}


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of the virtual environment in the repository."""
    program = Path(sys.executable).with_name(argv[0])
    return subprocess.run((str(program), *argv[1:]), check=False, capture_output=True, text=True, cwd=REPOSITORY)


def known_paths() -> list[Path]:
    """Everything of ours that git knows of, or would take up."""
    listed = subprocess.run(
        ("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        check=True,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    ).stdout
    return [REPOSITORY / name for name in listed.split("\0") if name and not name.startswith("static/vendor/")]


def source_files() -> list[Path]:
    """Every file of ours."""
    return [path for path in known_paths() if path.is_file()]


def text_files() -> list[Path]:
    """Those of them that people read and write, without this one, which names what it forbids."""
    return [path for path in source_files() if path.suffix in TEXT_SUFFIXES and path != Path(__file__)]


def named(path: Path) -> str:
    """A path as the repository calls it."""
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(("ruff", "check", "--quiet"), id="lint"),
        pytest.param(("ruff", "format", "--check", "--quiet"), id="format"),
        pytest.param(("mypy",), id="types"),
        pytest.param(("lint-imports", "--no-cache"), id="imports"),
    ],
)
def test_the_tool_finds_nothing(argv: tuple[str, ...]) -> None:
    done = run(*argv)
    assert done.returncode == 0, f"\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("what", UNWANTED)
def test_no_file_holds(what: str) -> None:
    found = [
        f"{named(path)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for path in text_files()
        for text in [path.read_text(encoding="utf-8")]
        for match in UNWANTED[what].finditer(text)
    ]
    assert found == []


def test_nothing_leads_out_of_the_repository() -> None:
    assert [path for path in known_paths() if path.is_symlink()] == []


def test_every_requirement_is_pinned_exactly_and_says_what_it_is_for() -> None:
    lines = (REPOSITORY / "requirements.txt").read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith(("#", "-c "))]
    assert [line for line in wanted if not re.fullmatch(r"[\w.\[\],-]+==[\w.]+ +# \S.*", line)] == []
    pinned = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in pinned if line and not re.fullmatch(r"#.*|[\w.-]+==[\w.]+", line)] == []


def test_files_are_named_by_their_duty_and_short_enough_to_read() -> None:
    code = [path for path in source_files() if path.suffix == ".py" and "migrations" not in path.parts]
    assert [named(path) for path in code if path.name in VAGUE_NAMES] == []
    long = {named(path): count for path in code if (count := path.read_text(encoding="utf-8").count("\n")) > MAX_LINES}
    assert long == {}


def test_every_module_says_what_it_is() -> None:
    code = [path for path in source_files() if path.suffix == ".py" and "migrations" not in path.parts]
    silent = [
        path for path in code if not re.match(r'(#![^\n]*\n)?\s*(?:#[^\n]*\n)*r?"""', path.read_text(encoding="utf-8"))
    ]
    assert [named(path) for path in silent if path.stat().st_size] == []
