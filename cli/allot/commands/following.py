"""`allot logs` and `allot wait`: what goes on for as long as a workload does, over restarts of the portal."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from allot import complete
from allot.app import App, asks, workload_argument
from allot.client import Portal
from allot.failures import DONE, FAILED, USAGE, Failure
from allot.screen import clean, note
from allot.sentences import OPEN, bare_reason
from allot.words import Duration, duration, now

POLL_S, LONGEST_POLL_S = 1.0, 5.0
LINE_BYTES = 200
"""Of a line, to ask for so many bytes of the end as hold the last lines."""
PATIENCE_S = 15 * 60
"""For so long a portal that is away is asked again before following gives up."""
GOOD_ENDS = ("finished",)
ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # a control sequence: colours, and moving about
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links, what a terminal would answer
    r"|[ -/]*[0-~])"
)
HALF = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?$")
COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
UNSEEN = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")


class Harmless:
    """Passes on what a program printed, with its colours, tabs and returns; nothing else that a terminal obeys."""

    def __init__(self) -> None:
        self.kept = ""

    def __call__(self, text: str) -> str:
        """The text that may be shown; the beginning of a sequence waits for its end."""
        text = self.kept + text
        half = HALF.search(text)
        self.kept = half[0] if half and len(half[0]) < 4_096 else ""
        text = text[: len(text) - len(self.kept)]
        return UNSEEN.sub("", ESCAPE.sub(lambda found: found[0] if COLOUR.fullmatch(found[0]) else "", text))


class Patient:
    """Asks a portal that may be away for a while, and says so once."""

    def __init__(self, portal: Portal, patience_s: float = PATIENCE_S) -> None:
        self.portal, self.patience_s = portal, patience_s

    def get(self, *path: str, **params: Any) -> Any:
        """What is there, as soon as the portal answers.

        Raises:
            Failure: it stays away for too long, or answers otherwise.
        """
        began: float | None = None
        while True:
            try:
                found = self.portal.get(*path, **params)
            except Failure as failure:
                if not failure.may_pass:
                    raise
                if began is None:
                    began = time.monotonic()
                    note(f"allot: {failure.message}; waiting for it to come back")
                if time.monotonic() - began > self.patience_s:
                    raise
                time.sleep(POLL_S)
                continue
            if began is not None:
                note("allot: it is back")
            return found


@click.command(short_help="Print what a workload prints; -f follows it.")
@workload_argument
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Go on until the workload is over, over preemptions and restarts of the portal.",
)
@click.option("--rank", type=click.IntRange(0), default=0, help="Of this rank of the gang. [default: 0]")
@click.option("--run", "run_number", type=click.IntRange(1), help="Of this run. [default: the last]")
@click.option("--tail", type=click.IntRange(1, 1_000), metavar="N", help="Only about the last N lines.")
@click.option("--raw", is_flag=True, help="Pass on all control characters, also to a terminal.")
@asks
def logs(app: App, *, code: str, follow: bool, rank: int, run_number: int | None, tail: int | None, raw: bool) -> int:
    """Print what a rank of a workload has printed, of its last run unless said."""
    if follow and (app.as_json or tail is not None):
        raise Failure("--follow prints text as it comes: leave out --json and --tail", USAGE)
    if follow:
        return follow_until_over(app, code, rank=rank, run=run_number, raw=raw)
    asked: dict[str, Any] = {"rank": rank, "run": run_number, "tail": None if tail is None else tail * LINE_BYTES}
    page = app.portal.get("workloads", code, "logs", **asked)
    if app.give(page):
        return DONE
    out = Output(raw)
    if tail is not None:
        lines = page["text"].splitlines(keepends=True)
        out.write("".join(lines[max(0, len(lines) - tail) :]))
        return DONE
    while page["text"]:
        out.write(page["text"])
        page = app.portal.get("workloads", code, "logs", rank=rank, run=page["run"], offset=page["next_offset"])
    if page["run"] is None:
        note(f"allot: {code} has not run yet")
    return DONE


class Output:
    """Where a log goes: as it is to a file or pipe, harmless to a terminal."""

    def __init__(self, raw: bool) -> None:
        self.shown = None if raw or not sys.stdout.isatty() else Harmless()

    def write(self, text: str) -> None:
        """Print it now."""
        sys.stdout.write(self.shown(text) if self.shown else text)
        sys.stdout.flush()


def follow_until_over(app: App, code: str, *, rank: int = 0, run: int | None = None, raw: bool = False) -> int:
    """Print what a workload prints until it is over, run after run; gives the exit code that says how it ended.

    Args:
        app: the command.
        code: the workload.
        rank: of its gang.
        run: this run alone; None is the last, and those that follow it.
        raw: nothing is kept from a terminal.
    """
    patient, out = Patient(app.portal), Output(raw)
    at_run, offset, poll_s, said = run, 0, POLL_S, ""
    while True:
        page = patient.get("workloads", code, "logs", rank=rank, run=at_run, offset=offset)
        at_run = page["run"]
        if page["text"]:
            out.write(page["text"])
            offset, poll_s = page["next_offset"], POLL_S
            continue
        row = patient.get("workloads", code)
        if row["state"] not in OPEN or (run is not None and page["is_over"]):
            # What it printed last may have come between the two answers.
            rest = patient.get("workloads", code, "logs", rank=rank, run=at_run, offset=offset)
            out.write(rest["text"])
            return ended(row)
        if run is None and page["is_over"]:
            latest = patient.get("workloads", code, "logs", rank=rank)["run"]
            if latest != at_run:
                note(f"allot: {code} runs again (run {latest})")
                at_run, offset = latest, 0
                continue
        if row["state"] != said and row["state"] in ("queued", "held"):
            note(f"allot: {code} is {row['state']}. {clean(bare_reason(row, now()))}")
        said = row["state"]
        time.sleep(poll_s)
        poll_s = min(LONGEST_POLL_S, poll_s * 1.5)


def ended(row: dict[str, Any]) -> int:
    """Say how a workload ended."""
    good = row["state"] in GOOD_ENDS
    why = "" if good or not row["reason"] else f": {clean(row['reason'])}"
    note(f"allot: {row['code']} {'has ' if row['state'] in ('finished', 'failed') else 'was '}{row['state']}{why}")
    return DONE if good else FAILED


@click.command(short_help="Wait until workloads run, or are over.")
@click.argument("codes", metavar="ID...", nargs=-1, required=True, shell_complete=complete.my_open_workloads)
@click.option(
    "--until", type=click.Choice(["over", "running"]), default="over", show_default=True, help="What to wait for."
)
@click.option("--timeout", type=Duration(), help="Give up after so long. [default: never]")
@asks
def wait(app: App, *, codes: Sequence[str], until: str, timeout: int | None) -> int:
    """Wait for workloads, for scripts: 0 when all have finished (or run), 1 when one ended otherwise or time is up."""
    patient, ends_at = Patient(app.portal), None if timeout is None else time.monotonic() + timeout
    rows = []
    for code in dict.fromkeys(codes):
        row = awaited(patient, code, until, ends_at)
        if row is None:
            raise Failure(f"{code} is not {'over' if until == 'over' else 'running'} after {duration(timeout or 0)}")
        rows.append(row)
    if app.as_json:
        app.give(rows)
    return max(ended(row) if row["state"] not in OPEN else DONE for row in rows)


def awaited(patient: Patient, code: str, until: str, ends_at: float | None) -> dict[str, Any] | None:
    """A workload when it is over, or runs where that is enough; None where time is up before."""
    poll_s = POLL_S
    while True:
        row: dict[str, Any] = patient.get("workloads", code)
        if row["state"] not in OPEN or (until == "running" and row["state"] == "running"):
            return row
        left_s = None if ends_at is None else ends_at - time.monotonic()
        if left_s is not None and left_s <= 0:
            return None
        time.sleep(poll_s if left_s is None else min(poll_s, left_s))
        poll_s = min(LONGEST_POLL_S, poll_s * 1.5)
