"""What is said of a workload in words, from what the API gives: one place for queue, why, show and list."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from allot.screen import fitting
from allot.words import clock, duration, instant, parsed, percent, plural, ratio, zone

OPEN = ("queued", "starting", "running", "leaving", "unreachable", "held")
STOPPED = "cluster_stopped"
POINTED_AT = "at the instant given"
"""Where a stored sentence points at an instant that stands beside it."""
SHORT = {
    "": "new",
    "waiting_order": "others have had less",
    "waiting_capacity": "inside contracts",
    "waiting_placement": "not free together",
    "waiting_maximum": "at its budget's maximum",
    "waiting_reservation": "would delay a promise",
    "waiting_cells": "private to others",
    "waiting_victims": "being left for it",
    "waiting_nodes": "too few fit nodes",
    "too_large": "larger than the cluster",
    "unknown_class": "no such class of GPUs",
    "contract_too_long": "its contract is too long",
    "contract_too_short": "its contract is too short",
    "no_entitlement": "nothing to charge",
    "closed": "its project is closed",
}
"""Why something waits, where there is no room for the sentence."""


def reason(row: Mapping[str, Any], at: datetime) -> str:
    """The stored sentence, with the instant that it points at."""
    text = str(row["reason"] or "New: the next pass considers it.")
    if row.get("earliest_start_at") and POINTED_AT in text:
        text = text.replace(POINTED_AT, f"by {instant(row['earliest_start_at'], at)}")
    return text


def bare_reason(row: Mapping[str, Any], at: datetime) -> str:
    """The sentence without the word that its place says already."""
    text = reason(row, at)
    bare = text[len("Waiting:") :].lstrip() if text.startswith("Waiting:") else text
    return bare[:1].upper() + bare[1:]


def fitting_reason(row: Mapping[str, Any], at: datetime, room: int | None) -> str:
    """The sentence where a line has room for it, else a few words."""
    sentence = bare_reason(row, at)
    if room is None or len(sentence) <= room:
        return sentence
    if row["reason_code"] == "waiting_order" and not row["min_runtime_s"]:
        return "not free, or not its turn"
    return SHORT.get(row["reason_code"]) or fitting(sentence, room)


def off_page(text: str) -> str:
    """A sentence of the portal's page, without pointing at what stands below on that page."""
    return text.replace(": try it below", "").replace(" below", "")


def soon(text: str, at: datetime) -> str:
    """14:20 UTC (in 38 min)."""
    left_s = (parsed(text) - at).total_seconds()
    return f"{instant(text, at)} ({'in ' + duration(left_s) if left_s >= 1 else 'now'})"


def ago(text: str, at: datetime) -> str:
    """13:10 UTC (30 min ago)."""
    return f"{instant(text, at)} ({duration((at - parsed(text)).total_seconds())} ago)"


def forecast(told: Mapping[str, Any], at: datetime) -> str:
    """The range of likely starts in words."""
    low, middle, high, until = (told[name] for name in ("low_at", "middle_at", "high_at", "until"))
    if low is None:
        return f"Probably after {instant(until, at)}: in nine of ten futures it has not started by then."
    if high is None:
        half = (
            f"in half of the futures by {instant(middle, at)}"
            if middle
            else "in more than half of the futures not by then"
        )
        return f"Probably not before {instant(low, at)}, perhaps after {instant(until, at)}; {half}."
    half = f"; in half of the futures by {instant(middle, at)}" if middle else ""
    return f"Probably between {clock(low, at)} and {clock(high, at)} {zone()}{half}."


def record(told: Mapping[str, Any]) -> str:
    """How good forecasts have been."""
    known, held = told["forecasts_known"], told["forecasts_held"]
    if not known:
        return f"From {plural(told['draws'], 'future')} that the simulator ran."
    draws, ranges = plural(told["draws"], "future"), plural(known, "such range")
    return f"From {draws} that the simulator ran; of the last {ranges} {percent(held / known, 0)} held."


def when(told: Mapping[str, Any], at: datetime) -> str:
    """When a waiting workload starts, as far as that is known."""
    row = told["workload"]
    if told["certain_at"]:
        return f"It starts at the latest at {soon(told['certain_at'], at)}."
    if told["forecast"]:
        return forecast(told["forecast"], at)
    certain = (
        "When it starts is not certain yet" if row["min_runtime_s"] else "Unallocated work has no promise of a start"
    )
    if row["reason_code"] in ("", STOPPED):
        return f"{certain}."
    return f"{certain}. A forecast is made when somebody asks: look again in a few seconds."


def safety(row: Mapping[str, Any], run: Mapping[str, Any], at: datetime) -> str:
    """How safe a run is, in words."""
    if run["state"] == "leaving":
        return "It was told to stop, and saves now."
    if not run["is_funded"]:
        return "It is unallocated: charged to nobody, and whoever is funded may take its devices at any time."
    ends_at = run["contract_ends_at"]
    if run["running_at"] is None or ends_at is None:
        return "Its contract begins when every rank runs; until then nobody can take its devices either."
    if parsed(ends_at) > at:
        return f"Nobody can take its devices before its contract ends, at {soon(ends_at, at)}."
    until = "it goes on for as long as nobody who has been served less needs its devices"
    return f"Its contract ended at {ago(ends_at, at)}: {until}."


def side_served(side: Mapping[str, Any]) -> str:
    """What one side of a comparison had been served."""
    return percent(ratio(side["served"]))
