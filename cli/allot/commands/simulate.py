"""`allot simulate` and `allot simulations`: ask what would happen, wait for the answer, and lay it side by side."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from allot import complete
from allot.app import App, asks, on_cluster
from allot.commands.following import Patient
from allot.failures import DONE, FAILED, USAGE, Failure
from allot.screen import Column, Screen, Table, clean, note, put
from allot.sentences import ago
from allot.words import DASH, Instant, ShareOf, duration, hours, hours_word, now, percent, seconds

POLL_S = 1.0
OVER = ("finished", "failed", "cancelled")
CLASSES = {
    "all": "all work",
    "debug": "debug",
    "standard": "medium",
    "large": "large gangs",
    "unallocated": "unallocated",
}
RATIOS = {"delivery": "impact", "occupancy": "occupancy", "unallocated_share": "unallocated"}
COUNTS = {"preemptions": "preemptions", "started": "workloads started", "ended": "workloads ended"}
OPTIONS = {
    "scenario": "FILE",
    "variants": "--variant",
    "knob": "--sweep",
    "values": "--sweep",
    "seeds": "--seeds",
    "sweep.knob": "--sweep",
    "sweep.values": "--sweep",
    "sweep.seeds": "--seeds",
    "history.cluster": "--cluster",
    "history.from_at": "--from",
    "history.until_at": "--until",
    "what_if.node": "--what-if",
    "what_if.cluster": "--cluster",
    "what_if.weeks": "--weeks",
    "what_if.proposals": "--share",
}
STATES = {"waiting": "dim", "running": "busy", "finished": "good", "failed": "bad", "cancelled": "dim"}


@click.command(
    short_help="Simulate a scenario file or a stretch of history under other rules.",
    epilog="\b\nExamples:\n"
    "  allot simulate lab.json\n"
    "  allot simulate lab.json --variant 'longer memory: lookback_s=14d' --variant 'fifo: scheduler=fifo'\n"
    "  allot simulate --history --from 7d --until 1h --sweep reservations=1,2,4\n"
    "  allot simulate --what-if A --share A1=40% --share A2=35% --weeks 2",
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--history", is_flag=True, help="What really happened on a cluster, --from a time --until another.")
@click.option(
    "--what-if",
    metavar="CODE",
    shell_complete=complete.budgets,
    help="Other shares below this node, over the last weeks.",
)
@on_cluster
@click.option("--from", "from_at", type=Instant(), help="With --history. [default: 7d ago]")
@click.option("--until", "until_at", type=Instant(), help="With --history. [default: now]")
@click.option(
    "--share", "shares", type=ShareOf(), multiple=True, help="With --what-if: a child's share, such as A1=40%."
)
@click.option("--weeks", type=click.IntRange(1, 8), default=1, show_default=True, help="With --what-if.")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME:KNOB=VALUE,...",
    help="Beside it as it is, the same under other knobs. Can be repeated.",
)
@click.option(
    "--sweep",
    metavar="KNOB=VALUE,...",
    help="One knob over several values: lookback_s, min_runtime_max_s, reservations.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="With --sweep: each value so often, with work that comes a little differently.",
)
@click.option("--title", default="", help="What people will know it by.")
@click.option("--no-wait", is_flag=True, help="Ask, and say its number; `allot simulations N` shows it later.")
@asks
def simulate(app: App, *, no_wait: bool, **said: Any) -> int:
    """Have the portal simulate FILE (a scenario; - is stdin), a stretch of history, or other shares.

    The same engine that schedules live decides on invented time. Ctrl-C stops waiting, not the simulation.
    """
    app.options = OPTIONS
    row = app.portal.post("simulations", body=asked(app, said))
    if no_wait:
        if not app.give(row):
            put(f"Simulation {row['number']} is asked for: allot simulations {row['number']}")
        return DONE
    return shown(app, row["number"])


def asked(app: App, said: Mapping[str, Any]) -> dict[str, Any]:
    """What the API takes, of what the options said.

    Raises:
        Failure: not exactly one kind of work; something that can't be read.
    """
    kinds = [name for name in ("file", "history", "what_if") if said[name]]
    if len(kinds) != 1:
        raise Failure("say exactly one of FILE, --history and --what-if", USAGE)
    if said["what_if"]:
        if said["variants"] or said["sweep"] or not said["shares"]:
            raise Failure("--what-if: takes --share, and neither --variant nor --sweep", USAGE)
        proposals = {said["title"] or "proposal": dict(said["shares"])}
        what = {
            "node": said["what_if"],
            "cluster": app.cluster(said["cluster"]),
            "weeks": said["weeks"],
            "proposals": proposals,
        }
        return {"what_if": what}
    body: dict[str, Any] = {"title": said["title"]}
    if said["file"]:
        body["scenario"] = scenario(said["file"])
    else:
        body["history"] = _stretch(app, said)
    if said["sweep"]:
        if said["variants"]:
            raise Failure("say either --variant or --sweep", USAGE)
        knob, values = _sweep(said["sweep"])
        body["sweep"] = {"knob": knob, "values": values, "seeds": said["seeds"]}
    else:
        body["variants"] = [{"name": "as it is", "policy": {}}, *map(variant, said["variants"])]
    return body


def _stretch(app: App, said: Mapping[str, Any]) -> dict[str, Any]:
    until = said["until_at"] or now()
    begin = said["from_at"] or datetime.fromtimestamp(until.timestamp() - 7 * 86_400, until.tzinfo)
    return {"cluster": app.cluster(said["cluster"]), "from_at": begin.isoformat(), "until_at": until.isoformat()}


def scenario(path: str) -> dict[str, Any]:
    """The object of a scenario file.

    Raises:
        Failure: it can't be read.
    """
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        found = json.loads(text)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}", USAGE) from None
    except UnicodeDecodeError:
        raise Failure(f"{path}: is no text", USAGE) from None
    except ValueError as error:
        raise Failure(f"{path}: {error}", USAGE) from None
    if not isinstance(found, dict):
        raise Failure(f"{path}: holds no scenario, which is an object", USAGE)
    return found


def variant(text: str) -> dict[str, Any]:
    """NAME:KNOB=VALUE,KNOB=VALUE.

    Raises:
        Failure: it has another form.
    """
    name, colon, knobs = text.partition(":")
    policy: dict[str, Any] = {}
    for each in knobs.split(","):
        knob, equals, value = each.strip().partition("=")
        if not colon or not name.strip() or not knob or not equals:
            raise Failure(f"--variant {text!r}: say NAME:KNOB=VALUE, such as 'fifo: scheduler=fifo'", USAGE)
        policy[knob.strip()] = _value(knob.strip(), value.strip())
    return {"name": name.strip(), "policy": policy}


def _value(knob: str, text: str) -> Any:
    """A knob's value: seconds where it ends in _s, else a number where it is one."""
    if knob.endswith("_s") and not text.isdigit():
        try:
            return seconds(text)
        except ValueError as error:
            raise Failure(f"{knob}: {error}", USAGE) from None
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _sweep(text: str) -> tuple[str, list[int]]:
    knob, equals, values = text.partition("=")
    found = [_value(knob.strip(), each.strip()) for each in values.split(",") if each.strip()]
    if not equals or not found or not all(isinstance(each, int) for each in found):
        raise Failure(f"--sweep {text!r}: say KNOB=VALUE,VALUE, such as reservations=1,2,4", USAGE)
    return knob.strip(), found


@click.command(short_help="Simulations: the latest, or one with its results.")
@click.argument("number", type=click.IntRange(1), required=False)
@click.option("-n", "--rows", type=click.IntRange(1), default=20, show_default=True, help="So many at most.")
@click.option("--cancel", is_flag=True, help="Stop simulation NUMBER.")
@asks
def simulations(app: App, *, number: int | None, rows: int, cancel: bool) -> int:
    """List simulations that you may see, or show one, waiting for its results."""
    if cancel:
        if number is None:
            raise Failure("--cancel: say which simulation", USAGE)
        row = app.portal.post("simulations", str(number), "cancel")
        if not app.give(row):
            put(f"Simulation {number} is cancelled.")
        return DONE
    if number is not None:
        return shown(app, number)
    found = list(app.portal.pages("simulations", most=rows))
    if app.give(found):
        return DONE
    if not found:
        app.screen.say("Nothing was simulated yet: allot simulate --help")
        return DONE
    at = now()
    table = Table(
        [
            Column("#", is_number=True),
            Column("STATE"),
            Column("DONE", is_number=True),
            Column("ASKED", spare=1),
            Column("BY", spare=2),
            Column("TITLE", is_text=True),
        ]
    )
    for row in found:
        done = f"{row['progress_percent']} %"
        table.add(
            str(row["number"]),
            row["state"],
            done,
            ago(row["made_at"], at),
            row["made_by"] or "",
            row["title"] or row["kind"],
            c1=STATES.get(row["state"], ""),
        )
    table.show(app.screen)
    return DONE


def shown(app: App, number: int) -> int:
    """Wait until it is over, then its results."""
    try:
        row = waited(app, number)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            note(f"\nSimulation {number} goes on: allot simulations {number}")
        raise
    if not app.give(row):
        tell(app.screen, row, app.unit(row["cluster"]) if row["cluster"] else "gpu")
    if row["state"] == "failed" and app.as_json:
        note(f"allot: simulation {number} has failed: {clean(row['error'])}")
    return DONE if row["state"] == "finished" else FAILED


def waited(app: App, number: int) -> dict[str, Any]:
    """It, when it is over; its progress on a terminal meanwhile."""
    patient = Patient(app.portal)
    shows = sys.stderr.isatty()
    while True:
        row: dict[str, Any] = patient.get("simulations", str(number))
        if row["state"] in OVER:
            if shows:
                sys.stderr.write("\r\x1b[K")
            return row
        if shows:
            drawn = app.screen.bar(row["progress_percent"] / 100, 20, 20)
            sys.stderr.write(f"\rSimulation {number}: {drawn} {row['progress_percent']:3d} %  {row['state']} ")
            sys.stderr.flush()
        time.sleep(POLL_S)


def tell(screen: Screen, row: Mapping[str, Any], kind: str) -> None:
    """The variants side by side, or a sweep's values below one another."""
    state = screen.paint(row["state"], STATES.get(row["state"], ""))
    title = clean(row["title"]) or row["kind"]
    put(f"{screen.paint('Simulation ' + str(row['number']), 'bold')}  {title}: {state}")
    if row["error"]:
        screen.say(clean(row["error"]), "bad")
    for each in row["notes"]:
        screen.say(clean(each), "dim")
    parts = [part for part in row["parts"] if part["figures"]]
    for part in row["parts"]:
        if part["error"]:
            screen.say(clean(f"{part['name']}: {part['error']}"), "bad")
    if not parts:
        return
    put()
    if row["kind"] == "sweep":
        values(screen, parts)
        return
    side_by_side(screen, parts, kind)


def side_by_side(screen: Screen, parts: Sequence[Mapping[str, Any]], kind: str) -> None:
    """A column for each variant."""
    table = Table([Column(""), *(Column(clean(part["name"]), is_number=True) for part in parts)])

    def line(title: str, cell: Callable[[Mapping[str, Any]], str], **style: str) -> None:
        table.add(title, *(cell(part["figures"]) for part in parts), **style)

    for name, word in RATIOS.items():
        line(word, lambda figures, name=name: percent(figures[name]))  # type: ignore[misc]
    for name, word in COUNTS.items():
        line(word, lambda figures, name=name: f"{figures[name]:,}")  # type: ignore[misc]
    line("median wait", lambda figures: "", row="dim")
    for name, word in CLASSES.items():
        line(f"  {word}", lambda figures, name=name: _wait(figures, name, "median_s"))  # type: ignore[misc]
    line("9 in 10 wait at most", lambda figures: "", row="dim")
    for name, word in CLASSES.items():
        line(f"  {word}", lambda figures, name=name: _wait(figures, name, "p90_s"))  # type: ignore[misc]
    line(f"{hours_word(kind)}, of owed", lambda figures: "", row="dim")
    for code, depth in _from_the_top(parts[0]["figures"]["nodes"]):
        line("  " * depth + code, lambda figures, code=code: _node(figures, code))  # type: ignore[misc]
    table.show(screen)


def _from_the_top(nodes: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Every node below the root with its depth, each followed by what is below it."""
    children: dict[str | None, list[str]] = {}
    for code, node in nodes.items():
        children.setdefault(node["parent"], []).append(code)
    found, left = [], [(code, 1) for code in reversed(children.get("", []))]
    while left:
        code, depth = left.pop()
        found.append((code, depth))
        left += [(each, depth + 1) for each in reversed(children.get(code, []))]
    return found


def _wait(figures: Mapping[str, Any], name: str, which: str) -> str:
    waits = figures["waits"][name]
    return duration(waits[which]) if waits["count"] else DASH


def _node(figures: Mapping[str, Any], code: str) -> str:
    node = figures["nodes"].get(code)
    if node is None:
        return DASH
    of_owed = "" if node["delivery"] is None else f"  {percent(node['delivery'], 0):>5}"
    return f"{hours(node['charged_milli_s'])}{of_owed}"


def values(screen: Screen, parts: Sequence[Mapping[str, Any]]) -> None:
    """A row for each run of a sweep."""
    heads = ("IMPACT", "OCCUPANCY", "PREEMPTIONS", "DEBUG WAIT", "LARGE WAIT", "ALL WAIT")
    table = Table([Column("VALUE"), *(Column(head, is_number=True) for head in heads)])
    for part in parts:
        figures = part["figures"]
        waits = [_wait(figures, name, "median_s") for name in ("debug", "large", "all")]
        counts = (percent(figures["delivery"]), percent(figures["occupancy"]), f"{figures['preemptions']:,}")
        table.add(part["name"], *counts, *waits)
    table.show(screen)
    screen.say("Waits are medians.", "dim")
