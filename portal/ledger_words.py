"""The ledger's entries in words: what was done, and what it was before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from budgets.models import LedgerEntry
from portal import formats

VERBS = {
    "node.created": "node created",
    "node.renamed": "renamed",
    "node.moved": "moved",
    "node.closed": "closed",
    "share.changed": "share changed",
    "role.granted": "role given",
    "role.ended": "role ended",
    "request.submitted": "request made",
    "request.attached": "file attached to a request",
    "request.returned": "request returned",
    "request.went_up": "request went one level up",
    "request.passed_up": "request passed up",
    "request.approved": "request approved",
    "request.denied": "request denied",
    "request.withdrawn": "request withdrawn",
    "reallocation.proposed": "reallocation proposed",
    "reallocation.went_up": "reallocation went one level up",
    "reallocation.approved": "reallocation decided",
    "reallocation.denied": "reallocation denied",
    "reallocation.withdrawn": "reallocation withdrawn",
    "reallocation.applied": "reallocation in force",
    "review.planned": "review planned",
    "review.opened": "review opened",
    "review.closed": "review closed",
    "review.cancelled": "review cancelled",
    "delegation.given": "delegation given",
    "delegation.ended": "delegation ended",
    "person.disabled": "account disabled",
    "person.enabled": "account enabled",
    "person.erased": "name erased",
    "house.changed": "rules of the house changed",
}
"""What each verb of the ledger is called on pages, in the order of filters."""

Spells = Sequence[Mapping]


@dataclass(frozen=True, slots=True)
class Diff:
    """One thing that an entry changed, in words."""

    what: str
    before: str
    after: str
    change: str = ""


def called(verb: str) -> str:
    """What a verb is called; one without a name of its own is shown as it is stored."""
    return VERBS.get(verb, verb)


def diffs_of(entry: LedgerEntry, names: Mapping[int, str], people: Mapping[int, str]) -> list[Diff]:
    """What changed, by field. `names` and `people` are what nodes and people are called, by id."""
    before, after = entry.before or {}, entry.after or {}
    if entry.verb == "share.changed":
        return share_diffs(before.get("shares", []), after.get("shares", []))
    found = []
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        if old != new:
            found.append(Diff(key.replace("_", " "), *(_said(key, value, names, people) for value in (old, new))))
    return found


def share_diffs(before: Spells, after: Spells) -> list[Diff]:
    """From each day on which the share is another one than it was: before, after, difference."""
    days = sorted({each[edge] for each in (*before, *after) for edge in ("from", "until") if each[edge]})
    found: list[Diff] = []
    was_other = False
    last: tuple[int, int] | None = None
    for day in days:
        old, new = share_at(before, day), share_at(after, day)
        if (old, new) != last and (old != new or was_other):
            on = formats.day(date.fromisoformat(day))
            found.append(Diff(f"from {on}", formats.share(old), formats.share(new), formats.change(new - old)))
        was_other, last = old != new, (old, new)
    return found


def share_at(spells: Spells, day: str) -> int:
    """The basis points in force on a day; dates written 2026-07-02 compare as text."""
    for each in spells:
        if each["from"] <= day and (each["until"] is None or day < each["until"]):
            return int(each["basis_points"])
    return 0


def _said(key: str, value: object, names: Mapping[int, str], people: Mapping[int, str]) -> str:
    if value is None:
        return formats.NOT_APPLICABLE
    if key in ("parent", "node", "desk") and isinstance(value, int):
        return names.get(value, f"node {value}")
    if key in ("person", "giver", "delegate", "author", "decided_by") and isinstance(value, int):
        return people.get(value, f"person {value}")
    if key.endswith("basis_points") and isinstance(value, int):
        return formats.share_percent(value)
    if isinstance(value, dict):
        return ", ".join(f"{names.get(int(k), k) if str(k).isdigit() else k}: {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)
    return str(value)
