"""`allot check`: what in a program is known to leave GPUs idle, before it waits for any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from allot.app import App, asks
from allot.failures import DONE, FAILED
from allot.program import sources
from allot.screen import Screen, clean, put

STYLES = {"error": "bad", "warn": "warn", "info": "busy", "unknown": "dim"}
WORDS = {"error": "error", "warn": "warning", "info": "hint", "unknown": "unknown"}


@click.command(short_help="What in a program is known to leave GPUs idle.")
@click.argument("paths", metavar="FILE|DIR...", nargs=-1, required=True)
@click.option("-g", "--gpus", type=click.IntRange(0), required=True, help="How many GPUs it will ask for, in all.")
@click.option("-N", "--nodes", type=click.IntRange(1), help="On how many nodes. [default: as --launch says, or 1]")
@click.option("--launch", metavar="FILE", multiple=True, help="A script that starts it; may be said again.")
@click.option("--interactive", is_flag=True, help="It is for a pool where people work interactively.")
@asks
def check(
    app: App, *, paths: tuple[str, ...], gpus: int, nodes: int | None, launch: tuple[str, ...], interactive: bool
) -> int:
    """Read Python files, and the scripts that start them, for what is known to leave GPUs idle.

    Nothing is run, kept or refused. Of a DIR all .py and .sh files are read. Ends with 1 where there is an error, and
    with 0 where there are warnings, hints and unknowns alone.
    """
    app.options = {"gpus": "--gpus", "nodes": "--nodes", "files": "FILE"}
    body: dict[str, Any] = {"files": sources([*paths, *launch]), "gpus": gpus, "is_interactive_pool": interactive}
    if nodes is not None:
        body["nodes"] = nodes
    answer = app.portal.send("POST", "advice", body=body).body
    if not app.give(answer):
        tell(app.screen, answer)
    return FAILED if answer["counts"]["error"] else DONE


def tell(screen: Screen, answer: Mapping[str, Any]) -> None:
    """Each finding with its line, what to do, and what was published."""
    for each in answer["findings"]:
        place = f"{each['file']}:{each['line']}" if each["line"] else each["file"]
        word = screen.paint(WORDS[each["severity"]], STYLES[each["severity"]])
        put(f"{word}  {screen.paint(each['rule'], 'bold')}  {clean(place)}")
        if each["evidence"]:
            put(f"  > {clean(each['evidence'])}")
        screen.say(clean(each["what"]), indent=2)
        screen.say(f"Do: {clean(each['fix'])}", indent=2)
        if each["effect"]:
            screen.say(f"Known: {clean(each['effect'])}", "dim", indent=2)
        put()
    put(summary(answer["counts"]))


def summary(counts: Mapping[str, int]) -> str:
    """`1 error, 2 warnings`, or that there is nothing."""
    told = [
        f"{counts[name]} {word}{'s' if counts[name] != 1 and name != 'unknown' else ''}"
        for name, word in WORDS.items()
        if counts[name]
    ]
    return ", ".join(told) if told else "Nothing that is known to leave GPUs idle."
