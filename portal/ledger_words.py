"""The ledger's entries in words: what was done, and what it was before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from django.utils.translation import gettext, gettext_lazy, pgettext_lazy

from budgets.models import LedgerEntry
from budgets.sentences import said
from portal import formats, knob_words
from scheduler.knobs import KNOBS

VERBS = {
    "node.created": gettext_lazy("node created"),
    "node.renamed": gettext_lazy("renamed"),
    "node.moved": gettext_lazy("moved"),
    "node.closed": pgettext_lazy("node", "closed"),
    "share.changed": gettext_lazy("share changed"),
    "limits.changed": gettext_lazy("minimum, maximum or weight changed"),
    "cells.changed": gettext_lazy("private nodes changed"),
    "role.granted": gettext_lazy("role given"),
    "role.ended": gettext_lazy("role ended"),
    "request.submitted": gettext_lazy("request made"),
    "request.attached": gettext_lazy("file attached to a request"),
    "request.returned": gettext_lazy("request returned"),
    "request.went_up": gettext_lazy("request went one level up"),
    "request.passed_up": gettext_lazy("request passed up"),
    "request.approved": gettext_lazy("request approved"),
    "request.denied": gettext_lazy("request denied"),
    "request.withdrawn": gettext_lazy("request withdrawn"),
    "reallocation.proposed": gettext_lazy("reallocation proposed"),
    "reallocation.went_up": gettext_lazy("reallocation went one level up"),
    "reallocation.approved": gettext_lazy("reallocation decided"),
    "reallocation.denied": gettext_lazy("reallocation denied"),
    "reallocation.withdrawn": gettext_lazy("reallocation withdrawn"),
    "reallocation.applied": gettext_lazy("reallocation in force"),
    "review.planned": gettext_lazy("review planned"),
    "review.opened": gettext_lazy("review opened"),
    "review.closed": gettext_lazy("review closed"),
    "review.cancelled": gettext_lazy("review cancelled"),
    "delegation.given": gettext_lazy("delegation given"),
    "delegation.ended": gettext_lazy("delegation ended"),
    "person.created": gettext_lazy("account created"),
    "person.linked": gettext_lazy("sign-in linked"),
    "person.unlinked": gettext_lazy("sign-in unlinked"),
    "person.disabled": gettext_lazy("account disabled"),
    "person.enabled": gettext_lazy("account enabled"),
    "person.erased": gettext_lazy("name erased"),
    "token.created": gettext_lazy("access token made"),
    "token.revoked": gettext_lazy("access token ended"),
    "house.changed": gettext_lazy("rules of the house changed"),
    "cluster.rules": gettext_lazy("rules of a cluster changed"),
    "cluster.repair_hook": gettext_lazy("repair hook of a cluster changed"),
    "cluster.policy": gettext_lazy("policy of a cluster changed"),
    "cluster.peak": gettext_lazy("peak of a cluster's devices said"),
    "cluster.advice": gettext_lazy("rules that refuse programs changed"),
    "join_token.made": gettext_lazy("join token made"),
    "join_token.revoked": gettext_lazy("join token ended"),
    "cluster.stopped": gettext_lazy("cluster stopped"),
    "cluster.started": gettext_lazy("cluster started again"),
    "cluster.node_stopped": gettext_lazy("node of a cluster stopped"),
    "run.stopped": gettext_lazy("runs stopped by an operator"),
}
"""What each verb of the ledger is called on pages, in the order of filters."""
ON_ITS_OWN = {
    "submitted": gettext_lazy("Submitted"),
    "attached": gettext_lazy("File attached"),
    "returned": gettext_lazy("Returned"),
    "went_up": gettext_lazy("Went up"),
    "passed_up": gettext_lazy("Passed up"),
    "approved": gettext_lazy("Approved"),
    "denied": gettext_lazy("Denied"),
    "withdrawn": gettext_lazy("Withdrawn"),
    "proposed": gettext_lazy("Proposed"),
    "applied": gettext_lazy("Applied"),
}
"""The same on the page of what it is about: there "request" needs not be said."""

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
    return str(VERBS.get(verb, verb))


def short(verb: str) -> str:
    """A verb on the page of what it is about: request.went_up is "Went up"."""
    last = verb.split(".")[-1]
    return str(ON_ITS_OWN.get(last, last.replace("_", " ").capitalize()))


def diffs_of(entry: LedgerEntry, names: Mapping[int, str], people: Mapping[int, str]) -> list[Diff]:
    """What changed, by field. `names` and `people` are what nodes and people are called, by id."""
    before, after = entry.before or {}, entry.after or {}
    if entry.verb == "share.changed":
        return share_diffs(before.get("shares", []), after.get("shares", []))
    if entry.verb == "limits.changed":
        return limit_diffs(before, after)
    if entry.verb == "cells.changed":
        return cell_diffs(before, after)
    if entry.verb == "cluster.policy":
        return knob_diffs(before, after)
    found = []
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        if old != new:
            found.append(Diff(said(key.replace("_", " ")), *(_said(key, value, names, people) for value in (old, new))))
    return found


def limit_diffs(before: Mapping, after: Mapping) -> list[Diff]:
    """What a node should, and may, hold, in the cluster's units, and what its shares count times."""
    names = {
        "minimum_milli": gettext("Minimum"),
        "maximum_milli": gettext("Maximum"),
        "factor_milli": gettext("Weight"),
    }
    found = []
    for key, name in names.items():
        old, new = (
            formats.NOT_APPLICABLE if each.get(key) is None else formats.units(each[key]) for each in (before, after)
        )
        if old != new:
            found.append(Diff(name, old, new))
    return found


def cell_diffs(before: Mapping, after: Mapping) -> list[Diff]:
    """How many whole nodes and racks are a node's own."""
    names = {"node": gettext("Whole nodes"), "rack": gettext("Racks")}
    sides = [(name, before.get(level, 0), after.get(level, 0)) for level, name in names.items()]
    return [Diff(name, formats.count(old), formats.count(new)) for name, old, new in sides if old != new]


def knob_diffs(before: Mapping, after: Mapping) -> list[Diff]:
    """Which knobs of a policy changed; one that there is no longer is shown as it is stored."""
    found = []
    for name, new in after.items():
        knob, old = KNOBS.get(name), before.get(name)
        if knob is None:
            found.append(Diff(name, str(old), str(new)))
        else:
            found.append(Diff(str(knob.title), knob_words.shown(knob, old), knob_words.shown(knob, new)))
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
            found.append(
                Diff(
                    gettext("from {day}").format(day=on),
                    formats.share(old),
                    formats.share(new),
                    formats.change(new - old),
                )
            )
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
        return names.get(value, gettext("node {number}").format(number=value))
    if key in ("person", "giver", "delegate", "author", "decided_by") and isinstance(value, int):
        return people.get(value, gettext("person {number}").format(number=value))
    if key.endswith("basis_points") and isinstance(value, int):
        return formats.share_percent(value)
    if isinstance(value, dict):
        return ", ".join(f"{names.get(int(k), k) if str(k).isdigit() else k}: {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)
    return said(str(value))
