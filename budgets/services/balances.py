"""Checks of the books: what the ledger says against what is in force, and sums on every date.

The ledger is written with each change and never altered; shares, names and parents are rows that change. A task builds
the one from the other and compares, so that a row which changed by any other road is found and named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import structlog
from django.utils import timezone

from budgets.models import WHOLE_BASIS_POINTS, BooksCheck, BudgetNode, LedgerEntry, Share
from budgets.timeline import Spell, sums

log = structlog.get_logger(__name__)

DIFFERENCES_KEPT = 20
LOOKS_MAX = 3
"""A change in the middle of a check looks like a fault; then it is looked at again, so many times at most."""

Line = tuple[int, str, int]
"""A node's share of a parent on a cluster: ids of node and parent, the cluster's name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check compared, and what differed, in words."""

    compared: int
    differences: Sequence[str]


def check(now: datetime | None = None) -> int:
    """Check shares, sums and tree, and keep what was found for the pages. How many differences there are."""
    now = now or timezone.now()
    found = {
        BooksCheck.Book.SHARES: _settled(shares_against_ledger),
        BooksCheck.Book.SUMS: _settled(sums_on_every_date),
        BooksCheck.Book.TREE: _settled(tree_against_ledger),
    }
    for book, finding in found.items():
        keep(book=book, finding=finding, now=now)
    return sum(len(finding.differences) for finding in found.values())


def keep(*, book: str, finding: Finding, now: datetime, cluster_name: str = "") -> BooksCheck:
    """Keep what a check found, in the place of what the last one did; differences also go to the log."""
    count = len(finding.differences)
    if count:
        log.error("books_differ", book=book, cluster=cluster_name, differences=count, first=finding.differences[0])
    row, _ = BooksCheck.objects.update_or_create(
        book=book,
        cluster_name=cluster_name,
        defaults={
            "checked_at": now,
            "compared": finding.compared,
            "differing": count,
            "differences": list(finding.differences[:DIFFERENCES_KEPT]),
        },
    )
    return row


def shares_against_ledger() -> Finding:
    """The shares of each child as its last entry says, and as they are in force, on every date."""
    codes = dict(BudgetNode.objects.values_list("pk", "code"))
    written, kept = _written(), _in_force()
    differences = []
    for line in sorted(written.keys() | kept.keys()):
        said, live = written.get(line, []), kept.get(line, [])
        if said != live:
            node, cluster, parent = line
            on = _first_difference(said, live)
            differences.append(
                f"{codes[node]}, a share of {codes[parent]} on {cluster}: from {on} the ledger says "
                f"{_percent(_on(said, on))} %, and {_percent(_on(live, on))} % is in force"
            )
    return Finding(sum(len(spells) for spells in kept.values()), differences)


def sums_on_every_date() -> Finding:
    """No parent's children have more than the whole on any date."""
    codes = dict(BudgetNode.objects.values_list("pk", "code"))
    by_parent: dict[tuple[int, str], list[list[Spell]]] = {}
    for (_, cluster, parent), spells in _in_force().items():
        by_parent.setdefault((parent, cluster), []).append(spells)
    differences, dates = [], 0
    for (parent, cluster), timelines in sorted(by_parent.items()):
        segments = sums(timelines)
        dates += len(segments)
        differences += [
            f"the children of {codes[parent]} on {cluster} sum to {_percent(total)} % from {day}"
            for day, total in segments
            if total > WHOLE_BASIS_POINTS
        ][:1]
    return Finding(dates, differences)


def tree_against_ledger() -> Finding:
    """Each node's name, parent and whether it is closed, as its entries say and as it stands in the tree."""
    said: dict[int, dict[str, object]] = {}
    entries = LedgerEntry.objects.filter(verb__in=["node.created", "node.renamed", "node.moved", "node.closed"])
    for node_id, after in entries.order_by("id").values_list("node_id", "after"):
        said.setdefault(node_id or 0, {}).update(after or {})
    nodes = list(BudgetNode.objects.order_by("path"))
    differences = []
    for node in nodes:
        known = said.get(node.pk)
        if known is None:
            differences.append(f"{node.code}: no entry says where it comes from")
            continue
        stands = {"name": node.name, "parent": node.parent_id, "closed": node.is_closed}
        wanted = {"name": known.get("name"), "parent": known.get("parent"), "closed": bool(known.get("closed_at"))}
        differences += [
            f"{node.code}: its {key} is {stands[key]!r}, and by the ledger {wanted[key]!r}"
            for key in stands
            if stands[key] != wanted[key]
        ]
    return Finding(len(nodes), differences)


def _settled(look: Callable[[], Finding]) -> Finding:
    """What a check finds; looked at again if something was written meanwhile, as that may be all that differs."""
    for _ in range(LOOKS_MAX):
        mark = _last_entry()
        finding = look()
        if not finding.differences or _last_entry() == mark:
            break
    return finding


def _last_entry() -> int:
    return LedgerEntry.objects.order_by("-id").values_list("id", flat=True).first() or 0


def _written() -> dict[Line, list[Spell]]:
    """The last word of the ledger on each share. (An entry without a parent is of the time when no entry named it: it
    is a share of the parent that the node has.)
    """
    parents = dict(BudgetNode.objects.values_list("pk", "parent"))
    found: dict[Line, list[Spell]] = {}
    entries = LedgerEntry.objects.filter(verb="share.changed").order_by("id")
    for node_id, cluster, after in entries.values_list("node_id", "cluster_name", "after").iterator():
        assert node_id is not None
        assert after is not None
        parent = after.get("parent") or parents[node_id]
        assert parent is not None
        found[(node_id, cluster, parent)] = _spells(after["shares"])
    return {line: spells for line, spells in found.items() if spells}


def _in_force() -> dict[Line, list[Spell]]:
    found: dict[Line, list[Spell]] = {}
    for share in Share.objects.select_related("cluster").order_by("valid_from"):
        line = (share.node_id, share.cluster.name, share.parent_id)
        found.setdefault(line, []).append(Spell(share.valid_from, share.valid_until, share.basis_points))
    return found


def _spells(plain: Iterable[Mapping[str, str | int | None]]) -> list[Spell]:
    return [
        Spell(
            date.fromisoformat(str(each["from"])),
            date.fromisoformat(str(each["until"])) if each["until"] else None,
            int(each["basis_points"] or 0),
        )
        for each in plain
    ]


def _first_difference(one: Sequence[Spell], other: Sequence[Spell]) -> date:
    days = {spell.start for spell in (*one, *other)} | {spell.end for spell in (*one, *other) if spell.end}
    return next((day for day in sorted(days) if _on(one, day) != _on(other, day)), min(days))


def _on(spells: Iterable[Spell], day: date) -> int:
    return sum(spell.basis_points for spell in spells if spell.holds_on(day))


def _percent(basis_points: int) -> str:
    return f"{basis_points // 100}.{basis_points % 100:02d}"
