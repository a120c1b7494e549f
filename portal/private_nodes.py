"""Cells of budget nodes in words: what a node has of its own on a cluster, and what a cluster has given away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext

from budgets.authority import may
from budgets.models import BudgetNode, Cluster, LedgerEntry, Person
from portal import formats
from scheduler.engine import NO_CELLS, CellCounts
from scheduler.queries import cells as queries
from scheduler.services import cells

NAMES_SHOWN = 8
"""So many nodes are named; of more it is said how many."""


@dataclass(frozen=True, slots=True)
class Own:
    """What a section or page says of one node's cells. `told` is None as of a past day, of which the ledger alone
    knows.
    """

    has: str
    entry: LedgerEntry | None
    by: Person | None
    told: queries.Told | None
    faults: list[str]

    @property
    def used(self) -> str:
        """Which nodes it uses."""
        return names_of(self.told.used) if self.told else ""

    @property
    def grantable(self) -> str:
        """What could come to it."""
        return grantable_words(self.told.grantable) if self.told else ""

    @property
    def entitled_milli(self) -> int:
        """What its share comes to, cut to thousandths of a device."""
        return int(self.told.entitled_milli) if self.told else 0


def refuse_others(person: Person | AnonymousUser, node: BudgetNode) -> None:
    """Cells are set by whoever sets the node's share.

    Raises:
        PermissionDenied: somebody else.
    """
    if not may(person, "share.change", node.parent):
        raise PermissionDenied(gettext("The cells of {code} are for the managers above it.").format(code=node.code))


def own_of(node: BudgetNode, cluster: Cluster) -> Own:
    """As things stand, with the last decision, also where that was to withdraw."""
    told = queries.told_of(node, cluster)
    return _own(cluster, told.cells, queries.last_entry(node, cluster), told)


def section_of(node: BudgetNode, cluster: Cluster, entitlement: Fraction) -> Own:
    """As things stand, for a page that knows what the node is entitled to; with the decision, if it has cells."""
    told = queries.told_with(node, cluster, entitlement)
    entry = None if told.cells == NO_CELLS else queries.last_entry(node, cluster)
    return _own(cluster, told.cells, entry, told)


def own_before(node: BudgetNode, cluster: Cluster, before: datetime) -> Own:
    """As things stood before an instant, by the ledger."""
    entry = queries.last_entry(node, cluster, before)
    return _own(cluster, CellCounts(**(entry.after or {})) if entry else NO_CELLS, entry, None)


def _own(cluster: Cluster, has: CellCounts, entry: LedgerEntry | None, told: queries.Told | None) -> Own:
    return Own(
        has=cells.amounts(has),
        entry=entry,
        by=Person.objects.filter(pk=entry.person_id).first() if entry and entry.person_id else None,
        told=told,
        faults=_sentences(told.faults, cluster) if told else [],
    )


def spoken_for(cluster: Cluster) -> dict[str, Any] | None:
    """What the page of nodes says of a cluster's cells; None where nobody has any."""
    found = queries.spoken_on(cluster)
    if found is None:
        return None
    return {
        "nodes": found.nodes,
        "of_nodes": found.of_nodes,
        "holders": [(each.code, cells.amounts(each.cells)) for each in found.holders],
        "grantable": grantable_words(found.grantable),
        "bound": {name: each.code for name, each in found.bound.items()},
        "faults": _sentences(found.faults, cluster),
    }


def _sentences(faults: Sequence[cells.Fault], cluster: Cluster) -> list[str]:
    return [said for fault in faults for said in cells.sentences(fault, cluster)]


def marks(cluster: Cluster) -> Mapping[int, str]:
    """What stands beside shares, by node: 2 whole nodes and 1 rack."""
    return {pk: cells.amounts(each.cells) for pk, each in cells.holders_on(cluster).items()}


def grantable_words(room: CellCounts) -> str:
    """Up to 3 whole nodes, or 1 rack; nothing."""
    if not room.node:
        return gettext("nothing")
    words = gettext("up to {amount}").format(amount=cells.amount("node", room.node))
    return (
        gettext("{nodes}, or {racks}").format(nodes=words, racks=cells.amount("rack", room.rack))
        if room.rack
        else words
    )


def names_of(names: Sequence[str]) -> str:
    """The first of them, and how many more."""
    shown = list(names[:NAMES_SHOWN])
    if len(names) > len(shown):
        shown = [*shown[:-1], gettext("{number} more").format(number=formats.count(len(names) - len(shown) + 1))]
    return formats.joined(shown)
