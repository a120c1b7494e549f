"""Shares from a file: read, laid beside the books, and applied whole or not at all.

A file has one row for each spell: parent, child, cluster, share in per cent, from, until. It goes the way of every
change of shares (services/shares.py): the same rights, the same sums on every day. A row that says what is in force
already changes nothing, so that what was exported can be imported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from budgets import authority, queries
from budgets.errors import ConflictError, NotAllowed
from budgets.models import WHOLE_BASIS_POINTS, BudgetNode, CellGrant, Cluster, Person, Share, ShareImport
from budgets.services import checks, ledger, shares
from budgets.timeline import Spell, overlay, sums

NAME_LENGTH = 120
CELL_COLUMNS = {CellGrant.Level.NODE.value: "own nodes", CellGrant.Level.RACK.value: "own racks"}
"""What a file calls counts of cells, by their level."""

Key = tuple[int, int]
"""Ids of a parent and a cluster: within them, shares sum to the whole."""
Books = dict[Key, dict[int, list[Spell]]]
"""Spells by parent and cluster, then by child."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it was understood. `line` is its number in the file, the header being 1; codes are as they were
    typed, `name` is the child's, if the file says it, and `cells` how many of a level are its own.
    """

    line: int
    parent: str
    child: str
    cluster: str
    basis_points: int
    start: date
    end: date | None
    name: str = ""
    cells: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def spell(self) -> Spell:
        """Its days and share."""
        return Spell(self.start, self.end, self.basis_points)

    def plain(self) -> list[str | int | None]:
        """As it is stored, and as it counts for "the same file"."""
        end = self.end.isoformat() if self.end else None
        return [self.line, self.parent, self.child, self.cluster, self.basis_points, self.start.isoformat(), end]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a row; `column` is empty where it is about the whole row, `line` 0 about the whole file."""

    line: int
    column: str
    message: str


@dataclass(frozen=True, slots=True)
class Change:
    """What a row would change: the share of its child on its first day that changes, before and after."""

    row: Row
    before: int
    on: date


@dataclass
class Plan:
    """A file beside the books: its faults, or what it would change."""

    rows: list[Row]
    faults: list[Fault] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    nodes: dict[str, BudgetNode] = field(default_factory=dict)
    clusters: dict[str, Cluster] = field(default_factory=dict)
    cells: dict[tuple[int, int, str], int] = field(default_factory=dict)

    @property
    def unchanged(self) -> int:
        """Rows that say what is in force already."""
        return len(self.rows) - len(self.changes)


def plan(rows: Sequence[Row], by: Person) -> Plan:
    """Lay the rows beside the books as they are now. A fixed number of queries, and a few where `by` has a part in
    something that would be raised.
    """
    found = Plan(list(rows))
    found.nodes = {node.code: node for node in BudgetNode.objects.all()}
    found.clusters = {cluster.name: cluster for cluster in Cluster.objects.all()}
    if any(row.cells for row in rows):
        found.cells = granted_cells()
    books = _books(found.clusters.values())
    known = [row for row in rows if _is_known(row, found)]
    _refuse_overlaps(known, found)
    after = {key: dict(timelines) for key, timelines in books.items()}
    last: dict[Key, list[Row]] = {}
    parts = authority.parts_of(by)
    for row in known:
        key = (found.nodes[row.parent].pk, found.clusters[row.cluster].pk)
        child = found.nodes[row.child]
        old = after.setdefault(key, {}).get(child.pk, [])
        new = overlay(old, row.spell)
        if new == old:
            continue
        problem = _problem(row, old, new, found, by, parts)
        if problem is not None:
            found.faults.append(problem)
            continue
        after[key][child.pk] = new
        last.setdefault(key, []).append(row)
        found.changes.append(_change(row, old, new))
    for key, touching in last.items():
        found.faults += _sum_faults(after[key], touching)
    found.faults.sort(key=lambda fault: fault.line)
    return found


def preview(*, name: str, rows: Sequence[Row], by: Person) -> tuple[Plan, ShareImport | None]:
    """The plan of a file, stored to be applied if it is faultless and changes something.

    A file that was applied before is noticed, whatever it was called; one that waits is not stored again.
    """
    found = plan(rows, by)
    mark = fingerprint(rows)
    applied = ShareImport.objects.filter(sha256=mark, applied_at__isnull=False).select_related("author").first()
    if applied is not None and (found.changes or found.faults):
        day = queries.day_of(applied.applied_at or timezone.now())
        said = gettext("these rows were applied on {day} by {author}, as {name}; the same file is applied once").format(
            day=day, author=applied.author, name=applied.name
        )
        found.faults = [Fault(0, "", said)]
    if found.faults or not found.changes:
        return found, None
    waiting = ShareImport.objects.filter(sha256=mark, author=by, applied_at=None).first()
    plain = [row.plain() for row in rows]
    if waiting is None:
        waiting = ShareImport.objects.create(author=by, name=name[:NAME_LENGTH], sha256=mark, rows=plain)
    return found, waiting


def apply(*, stored: ShareImport, by: Person, reason: str, seen: str) -> int:
    """Apply a previewed file: all of it, in one transaction, or nothing.

    Args:
        seen: the mark of what the preview said would change (`mark_of`); if by now it would be something else, that
            is a conflict.

    Returns:
        how many rows changed something.

    Raises:
        NotAllowed: somebody else's file. ConflictError: it was applied already, or the books have changed since.
        InputError: no reason.
    """
    if stored.author_id != by.pk:
        raise NotAllowed("share.change", gettext("this file is somebody else's to apply"))
    why = checks.reason(reason, by)
    with transaction.atomic():
        row = ShareImport.objects.select_for_update(no_key=True).get(pk=stored.pk)
        if row.applied_at is not None:
            raise ConflictError(gettext("this file has been applied already; nothing was changed again"))
        rows = rows_of(row)
        codes = {each.parent for each in rows}
        list(BudgetNode.objects.select_for_update(no_key=True).filter(code__in=codes).order_by("pk"))
        found = plan(rows, by)
        if found.faults or mark_of(found) != seen:
            raise ConflictError(gettext("shares have changed since this preview; look at it again"))
        _set(found, by, why, row)
        row.applied_at, row.reason = timezone.now(), why
        try:
            with transaction.atomic():
                row.save(update_fields=["applied_at", "reason"])
        except IntegrityError:
            raise ConflictError(gettext("the same rows have been applied already")) from None
        return len(found.changes)


def rows_of(stored: ShareImport) -> list[Row]:
    """The rows of a stored file."""
    return [
        Row(line, parent, child, cluster, points, date.fromisoformat(start), date.fromisoformat(end) if end else None)
        for line, parent, child, cluster, points, start, end in stored.rows
    ]


def fingerprint(rows: Iterable[Row]) -> str:
    """The same for the same rows in any order, encoding and spelling of numbers."""
    lines = sorted(json.dumps(row.plain()[1:]) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def mark_of(found: Plan) -> str:
    """What names what a plan would change: rows, and what stands there before."""
    said = [[*each.row.plain(), each.before, each.on.isoformat()] for each in found.changes]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


# --- one row ----------------------------------------------------------------------------------------------------------


def _is_known(row: Row, found: Plan) -> bool:
    """Whether all that the row names is there, and fits; if not, say so."""
    parent, child = found.nodes.get(row.parent), found.nodes.get(row.child)
    problem = None
    if row.cluster not in found.clusters:
        problem = ("cluster", gettext("there is no cluster {name!r}").format(name=row.cluster))
    elif parent is None:
        problem = ("parent", gettext("there is no node {code!r}").format(code=row.parent))
    elif child is None:
        problem = ("child", gettext("there is no node {code!r}").format(code=row.child))
    elif row.name and row.name != child.name:
        problem = (
            "name",
            gettext("{code} is called {name}; a file of shares renames nothing").format(
                code=child.code, name=child.name
            ),
        )
    elif (level := _differing_level(row, child, found)) is not None:
        now = found.cells.get((child.pk, found.clusters[row.cluster].pk, level), 0)
        said = gettext("{code} has {count} on {cluster}; a file of shares changes none")
        problem = (CELL_COLUMNS[level], said.format(code=child.code, count=now, cluster=row.cluster))
    elif row.end is not None and row.end <= row.start:
        problem = ("until", gettext("must be later than from; it is the first day without this share"))
    if problem is not None:
        found.faults.append(Fault(row.line, *problem))
    return problem is None


def granted_cells() -> dict[tuple[int, int, str], int]:
    """How many cells are granted, by ids of node and cluster, and level. One query."""
    granted = CellGrant.objects.values_list("node", "cluster", "level", "count")
    return {(node, cluster, level): count for node, cluster, level, count in granted}


def _differing_level(row: Row, child: BudgetNode, found: Plan) -> str | None:
    """The first level of cells of which the row says another number than the child has."""
    cluster = found.clusters[row.cluster]
    for level, count in row.cells.items():
        if count != found.cells.get((child.pk, cluster.pk, level), 0):
            return level
    return None


def _problem(
    row: Row, old: list[Spell], new: list[Spell], found: Plan, by: Person, parts: frozenset[int]
) -> Fault | None:
    """Why a row that changes something can't."""
    parent, child = found.nodes[row.parent], found.nodes[row.child]
    if child.parent_id != parent.pk:
        return Fault(
            row.line, "child", gettext("{child} is no child of {parent}").format(child=child.code, parent=parent.code)
        )
    if not authority.may(by, "share.change", parent):
        return Fault(
            row.line,
            "parent",
            gettext("the shares of {parent} are for its managers to change").format(parent=parent.code),
        )
    if child.is_closed and row.basis_points:
        return Fault(row.line, "child", gettext("{child} is closed").format(child=child.code))
    if row.start < queries.today():
        return Fault(row.line, "from", gettext("can't be a day that is over, where it changes something"))
    days = {spell.start for spell in (*old, *new)}
    if any(_on(new, day) > _on(old, day) for day in days) and child.pk in parts:
        return Fault(
            row.line,
            "child",
            gettext("you have a part in {child}: to raise it is for another manager, or the level above").format(
                child=child.code
            ),
        )
    return None


def _refuse_overlaps(rows: Sequence[Row], found: Plan) -> None:
    """A child has one share on a day: two rows of a file can't both be right."""
    by_child: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_child.setdefault((row.child, row.cluster), []).append(row)
    for same in by_child.values():
        same.sort(key=lambda row: (row.start, row.line))
        widest = same[0]
        for row in same[1:]:
            if widest.end is None or row.start < widest.end:
                later, earlier = max(row, widest, key=_line), min(row, widest, key=_line)
                said = gettext("{code} has a share on {day} in row {line} already").format(
                    code=row.child, day=row.start, line=earlier.line
                )
                found.faults.append(Fault(later.line, "from", said))
            if widest.end is not None and (row.end is None or row.end > widest.end):
                widest = row


def _line(row: Row) -> int:
    return row.line


def _change(row: Row, old: list[Spell], new: list[Spell]) -> Change:
    """The first day on which the row changes something, and what stood there."""
    edges = {each for spell in (*old, *new) for each in (spell.start, spell.end) if each is not None}
    on = next(day for day in sorted(edges | {row.start}) if _on(old, day) != _on(new, day))
    return Change(row, _on(old, on), on)


def _sum_faults(timelines: Mapping[int, list[Spell]], touching: Sequence[Row]) -> list[Fault]:
    """Where the children would sum to too much: named at the last row that counts on the first such day."""
    for day, total in sums(timelines.values()):
        if total > WHOLE_BASIS_POINTS:
            there = [row for row in touching if row.spell.holds_on(day)] or list(touching)
            said = gettext(
                "the children of {parent} on {cluster} would sum to {total} % on {day}, {over} too much"
            ).format(
                parent=there[-1].parent,
                cluster=there[-1].cluster,
                total=_percent(total),
                day=day,
                over=_percent(total - WHOLE_BASIS_POINTS),
            )
            return [Fault(there[-1].line, "share %", said)]
    return []


def _percent(basis_points: int) -> str:
    return f"{basis_points // 100}.{basis_points % 100:02d}"


def _on(spells: Iterable[Spell], day: date) -> int:
    return sum(spell.basis_points for spell in spells if spell.holds_on(day))


def _books(clusters: Iterable[Cluster]) -> Books:
    found: Books = {}
    rows = Share.objects.filter(cluster__in=list(clusters)).order_by("valid_from")
    for share in rows:
        spell = Spell(share.valid_from, share.valid_until, share.basis_points)
        found.setdefault((share.parent_id, share.cluster_id), {}).setdefault(share.node_id, []).append(spell)
    return found


def _set(found: Plan, by: Person, why: str, stored: ShareImport) -> None:
    """Each parent's changes at once, on each cluster."""
    groups: dict[tuple[str, str], dict[BudgetNode, list[Spell]]] = {}
    for change in found.changes:
        row = change.row
        group = groups.setdefault((row.parent, row.cluster), {})
        group.setdefault(found.nodes[row.child], []).append(row.spell)
    about = ledger.About(evidence={"import": stored.pk, "file": stored.name})
    for (parent, cluster), spells in sorted(groups.items()):
        shares.set_spells(
            parent=found.nodes[parent], cluster=found.clusters[cluster], spells=spells, by=by, reason=why, about=about
        )
