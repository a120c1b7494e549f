"""`allot list`, `allot show`, `allot cancel` and `allot release`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from allot import complete
from allot.app import App, asks, workload_argument
from allot.failures import DONE, USAGE, Failure
from allot.screen import STATES, Column, Screen, Table, clean, note, put
from allot.sentences import OPEN, ago, bare_reason, fitting_reason, safety
from allot.words import amount, clock, contract, duration, now, parsed, with_unit

ENDED = ("finished", "failed", "preempted", "lost", "cancelled", "refused")
STATE_NAMES = ("open", "ended", *OPEN, *ENDED)


@click.command("list", short_help="Your workloads; --everybody for all.")
@click.option(
    "-s", "--state", type=click.Choice(STATE_NAMES), help="Only those in this state; open and ended are all such."
)
@click.option("-c", "--cluster", metavar="NAME", shell_complete=complete.clusters, help="Only those on this cluster.")
@click.option("-l", "--leaf", metavar="CODE", shell_complete=complete.budgets, help="Only those at or below this node.")
@click.option("--everybody", is_flag=True, help="Also those of others.")
@click.option("--find", metavar="TEXT", help="Only ids that begin like this.")
@click.option("-n", "--rows", type=click.IntRange(1), default=20, show_default=True, help="So many at most.")
@click.option("-q", "--quiet", is_flag=True, help="Print the ids alone.")
@asks
def listed(
    app: App,
    *,
    state: str | None,
    cluster: str | None,
    leaf: str | None,
    everybody: bool,
    find: str | None,
    rows: int,
    quiet: bool,
) -> None:
    """Workloads, the latest first."""
    owner = None if everybody else "me"
    found = list(
        app.portal.pages("workloads", most=rows, owner=owner, state=state, cluster=cluster, leaf=leaf, find=find)
    )
    if app.give(found):
        return
    if quiet:
        for row in found:
            put(row["code"])
        return
    if not found:
        app.screen.say(
            "No workload fits."
            if state or cluster or leaf or find
            else "You have submitted nothing yet: allot submit --help"
        )
        return
    rows_of(app.screen, found)


def rows_of(screen: Screen, found: Sequence[Mapping[str, Any]]) -> None:
    """One line for each; why it waits where there is room for it."""
    at = now()
    table = Table(
        [
            Column("ID"),
            Column("NAME", spare=3),
            Column("STATE"),
            Column("CLUSTER", spare=2),
            Column("SIZE", is_number=True),
            Column("CONTRACT", is_number=True, spare=4),
            Column("SINCE", is_number=True),
            Column("", is_text=True),
        ]
    )
    for row in found:
        inside = row["inside"] or {}
        table.add(
            row["code"],
            inside.get("name") or "",
            row["state"],
            row["cluster"],
            amount(row["size_milli"]),
            contract(row["min_runtime_s"]),
            since_when(row, at),
            "",
            c2=STATES.get(row["state"], ""),
            c7="dim",
        )
    room = table.text_room(screen)
    for cells, row in zip(table.rows, found):
        cells[-1] = clean(fitting_reason(row, at, room)) if row["state"] in ("queued", "held", "refused") else ""
    table.show(screen)


def since_when(row: Mapping[str, Any], at: datetime) -> str:
    """Since when it has been as it is."""
    text = row["ended_at"] or (row["first_started_at"] if row["state"] not in ("queued", "held") else None)
    return duration((at - parsed(text or row["submitted_at"])).total_seconds())


@click.command(short_help="What a workload is, and how it goes.")
@workload_argument
@asks
def show(app: App, *, code: str) -> None:
    """What a workload asked for and runs, and how it goes; what it runs is for those who may see inside."""
    if app.as_json:
        app.give(app.portal.get("workloads", code))
        return
    told = app.portal.get("workloads", code, "explain")
    row, at, screen = told["workload"], now(), app.screen
    inside = row["inside"] or {}
    kind = app.unit(row["cluster"])
    name = f"  {clean(inside['name'])}" if inside.get("name") else ""
    state = screen.paint(row["state"], STATES.get(row["state"], ""))
    put(f"{screen.paint(row['code'], 'bold')}{name}  {state} on {row['cluster']} for {row['leaf']}")
    runs = told["runs"]
    if runs and row["state"] in OPEN[1:]:
        screen.say(safety(row, runs[-1], at))
    elif row["state"] in ("queued", "held", "refused"):
        screen.say(bare_reason(row, at))
    put()
    screen.facts([*_terms(row, kind), *_times(row, runs, at), *_failure(runs), *_inside(inside)])
    put(screen.paint(f"\n  allot why {row['code']}   allot logs {row['code']}", "dim"))


def _terms(row: Mapping[str, Any], kind: str) -> list[tuple[str, str]]:
    return [
        ("size", with_unit(row["size_milli"], kind)),
        ("on each node", beside(row)),
        ("contract", contract(row["min_runtime_s"]) if row["min_runtime_s"] else "none (unallocated)"),
        ("class", row["workload_class"]),
        ("priority", str(row["priority"]) if row["priority"] else ""),
        ("spreading", clean(" ".join((row.get("spreading") or {}).get("sentences", [])))),
        ("tried again", f"{row['retried']} of {row['retries']} times" if row["retries"] else ""),
    ]


def beside(row: Mapping[str, Any]) -> str:
    """Cores and memory that it asks for on each node; "" where it asks for none."""
    cpu_milli, mib = row["cpu_milli_per_rank"], row["memory_mib_per_rank"]
    memory = f"{mib // 1_024:,} GiB" if mib % 1_024 == 0 else f"{mib:,} MiB"
    return ", ".join([f"{amount(cpu_milli)} cores"] * bool(cpu_milli) + [memory] * bool(mib))


def _times(row: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], at: datetime) -> list[tuple[str, str]]:
    last = runs[-1] if runs else None
    return [
        ("submitted", ago(row["submitted_at"], at)),
        ("started", ago(row["first_started_at"], at) if row["first_started_at"] else ""),
        ("ended", ago(row["ended_at"], at) if row["ended_at"] else ""),
        (
            "runs",
            f"{len(runs)}, the last on {', '.join(last['nodes'])} from {clock(last['started_at'], at)}" if last else "",
        ),
    ]


def _failure(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Why its last run failed, where that is known."""
    found = runs[-1]["failure"] if runs else None
    if not found:
        return []
    return [("failed", clean(found["why"])), ("it said", clean(found["line"] or ""))]


def _inside(inside: Mapping[str, Any]) -> list[tuple[str, str]]:
    if not inside:
        return []
    every_s = inside["checkpoint_every_s"]
    return [
        ("owner", clean(inside["owner"] or "the system")),
        ("command", clean(shlex.join(inside["command"]))),
        ("variables", clean(" ".join(f"{name}={value}" for name, value in sorted(inside["environment"].items())))),
        ("secrets", clean(", ".join(inside["secrets"]))),
        ("resumable", "yes, it returns to the queue when it was preempted" if inside["resumable"] else "no"),
        ("checkpoint", clean(inside["checkpoint"]) + (f", every {duration(every_s)}" if every_s else "")),
        ("saved by", clean(shlex.join(inside["save_command"]))),
        ("restored by", clean(shlex.join(inside["restore_command"]))),
        ("time limit", duration(inside["time_limit_s"]) if inside["time_limit_s"] else ""),
    ]


@click.command(short_help="Cancel workloads.")
@click.argument("codes", metavar="ID...", nargs=-1, required=True, shell_complete=complete.my_open_workloads)
@click.option("--reason", default="", help="Why; the others in the project can read it.")
@click.option("--array", "whole_array", is_flag=True, help="With every other task of its array.")
@asks
def cancel(app: App, *, codes: Sequence[str], reason: str, whole_array: bool) -> int:
    """Cancel workloads: at once those that wait, by a stop signal and its grace those that run."""
    app.options = {"reason": "--reason"}

    def said(row: Mapping[str, Any]) -> str:
        words = {"cancelled": "is cancelled"}.get(row["state"], f"was told to stop ({row['state']})")
        ended = row["state"] in ENDED and row["state"] != "cancelled"
        return f"had ended before: {row['state']}" if ended else words

    return _each(app, codes, "cancel", {"reason": reason, "whole_array": whole_array}, said)


@click.command(short_help="Let workloads go on that wait for your word.")
@click.argument("codes", metavar="ID...", nargs=-1, required=True, shell_complete=complete.my_open_workloads)
@click.option("--array", "whole_array", is_flag=True, help="With every other task of its array that is held.")
@asks
def release(app: App, *, codes: Sequence[str], whole_array: bool) -> int:
    """Let workloads enter the queue that are held since they failed as before, or their canaries did."""

    def said(row: Mapping[str, Any]) -> str:
        return "is back in the queue" if row["state"] == "queued" else f"is not held for that: {row['state']}"

    return _each(app, codes, "release", {"whole_array": whole_array}, said)


def _each(
    app: App, codes: Sequence[str], verb: str, body: Mapping[str, Any], said: Callable[[Mapping[str, Any]], str]
) -> int:
    """Ask the same of every workload, and say what became of it; the exit code is that of the worst."""
    exit_code, done = DONE, []
    for code in dict.fromkeys(codes):
        try:
            row = app.portal.post("workloads", code, verb, body=dict(body))
        except Failure as failure:
            if failure.exit_code in (USAGE,) or len(codes) == 1:
                raise
            # The others still go on; the worst that happened is what the command says.
            note(f"allot: {code}: {clean(failure.message)}")
            exit_code = max(exit_code, failure.exit_code)
            continue
        done.append(row)
        if not app.as_json:
            put(f"{row['code']} {said(row)}")
    if app.as_json:
        app.give(done)
    return exit_code
