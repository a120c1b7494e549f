"""docs/cli.md is true: its session is what `allot` prints, its lines can be typed, and nothing is left out.

WRITE_GUIDE=1 writes the session anew.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Iterator

import click
import pytest
from allot.failures import MEANINGS
from allot.main import cli

from tests.cli.conftest import Run, World
from tests.conftest import REPOSITORY

GUIDE = REPOSITORY / "docs" / "cli.md"
SESSION = re.compile(r"(<!-- session -->\n)(.*?)(\n<!-- end of session -->)", re.DOTALL)
TYPED = re.compile(r"^(?:    )?\$ (allot .*)$", re.MULTILINE)
STEPS = (
    ("Who you are, and what is there.", "whoami"),
    ("", "clusters"),
    ("The queue: who goes first, and why the others wait.", "queue"),
    (
        "Why does it wait? The sentence first, then the numbers that decided, from the top of the tree down.",
        "why A1-0002",
    ),
    ("What if it had asked for less?", "try A1-0002 -g 1 --min-runtime 30m"),
    (
        "Submit another one, and see what became of it.",
        "submit -g 2 --min-runtime 30m -n sweep-1 -- python train.py --lr 3e-4",
    ),
    ("", "list"),
    ("What runs is safe for as long as its contract lasts.", "show A1-0001"),
    ("", "logs A1-0001"),
    ("What the team was entitled to, and what it got.", "usage A1 --from 2d --until yesterday"),
    ("Change your mind.", "cancel A1-0004 --reason 'wrong learning rate'"),
)
PREEMPTED = ("Somebody else reads why a run of theirs was preempted:", "why B1-0002 --run 1")


def session(as_who: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What somebody types and sees, as Markdown."""
    monkeypatch.setenv("COLUMNS", "100")
    for who, steps in (("ada", STEPS), ("ben", (PREEMPTED,))):
        for title, line in steps:
            done = as_who(who)(*shlex.split(line))
            assert (done.code, done.err) == (0, "")
            if title:
                yield f"{title}\n"
            yield "\n".join(f"    {each}".rstrip() for each in [f"$ allot {line}", *done.out.splitlines()]) + "\n"


def shape(text: str) -> list[str]:
    """A text without what is another at each hour: numbers, days, lengths of times, bars, and what was used by then."""
    text = re.sub(r"(that it was entitled to).*?(?=\n *\n)", r"\1", text, flags=re.DOTALL)
    text = text.replace("New: the next pass considers it.", "new")  # whichever there is room for
    text = re.sub(r"http://\S+", "ADDRESS", text)
    text = re.sub(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d+ \w{3}(, )?", "", text)
    text = re.sub(r"[█▏▎▍▌▋▊▉·│▶■□#]+", "", text)
    text = re.sub(r"\d[\d,.]*", "0", text)
    text = re.sub(r"0 (s|min|h|d)\b( 0 (s|min|h)\b)?", "0 s", text)
    return [line for line in (" ".join(line.split()) for line in re.split(r"\n(?=    \$|\n|[A-Z])", text)) if line]


@pytest.mark.django_db
def test_the_session_of_the_guide_is_what_allot_prints(
    as_who: Callable[[str], Run], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = "\n".join(session(as_who, monkeypatch)).rstrip()
    now = now.replace(world.url, "https://gpu.example.org")
    text = GUIDE.read_text(encoding="utf-8")
    if os.environ.get("WRITE_GUIDE"):
        GUIDE.write_text(SESSION.sub(lambda found: f"{found[1]}{now}{found[3]}", text), encoding="utf-8")
        return
    found = SESSION.search(text)
    assert found is not None
    assert shape(now) == shape(found[2])


def commands(group: click.Command, path: str = "allot") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with how it is typed."""
    if isinstance(group, click.Group):
        for name, command in group.commands.items():
            yield from commands(command, f"{path} {name}")
    else:
        yield path, group


def test_every_command_is_in_the_guide_and_every_line_of_it_can_be_typed() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert [path for path, _ in commands(cli) if path not in text] == []
    blocks = [*TYPED.findall(text), *re.findall(r"^    (allot [^$\n]*?)(?: {2,}#.*)?$", text, re.MULTILINE)]
    inline = [line.replace(" N", " 1") for line in re.findall(r"`(allot [^`]*)`", text) if "COMMAND" not in line]
    assert (len(blocks) > 15, len(inline) > 25) == (True, True)
    for line in (*blocks, *inline):
        command: click.Command = cli
        name, words = "allot", shlex.split(line.split(" | ")[0])[1:]
        while isinstance(command, click.Group) and words and words[0] in command.commands:
            name, command = f"{name} {words[0]}", command.commands[words.pop(0)]
        with contextlib.suppress(click.MissingParameter if line in inline else ()):
            command.make_context(name, words)


def test_the_exit_codes_of_the_guide_are_those_there_are() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {int(code): said for code, said in rows} == MEANINGS
