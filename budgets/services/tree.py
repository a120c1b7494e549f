"""Changes to the budget tree: its nodes, their names and where they hang.

All of these lock the root first, so that two of them never see half of each other.
"""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext

from budgets import hooks
from budgets.errors import InputError
from budgets.models import BudgetNode, Person
from budgets.services import checks, ledger
from budgets.services.cells import end_cells
from budgets.services.shares import end_shares


def create_root(
    *, code: str, name: str, by: Person | None = None, reason: str = "", at: datetime | None = None
) -> BudgetNode:
    """The organisation itself; there is one. `at` dates it back, for an organisation with a history.

    Raises:
        InputError: the code or name is bad, or there is a root already.
    """
    with transaction.atomic():
        if BudgetNode.objects.filter(parent=None).exists():
            raise InputError("", gettext("there is an organisation already"))
        node = BudgetNode(kind=BudgetNode.Kind.ORGANISATION, code=checks.code(code), name=checks.name(name))
        return _store(node, None, by=by, reason=reason, at=at)


def add_child(
    *,
    parent: BudgetNode,
    kind: str,
    code: str,
    name: str,
    by: Person | None,
    reason: str = "",
    colour: int = 0,
    at: datetime | None = None,
) -> BudgetNode:
    """A new node under `parent`, with no share yet.

    If the parent is a leaf that something was submitted to, all of that moves to a closed child first ("X_0,
    earlier work of X"): runs go on and past use keeps weighing there, and what is queued is held by the next pass
    with "project closed: move it or cancel it" (semantics.md section 8).

    Raises:
        InputError: kind, code, name or colour is bad, the code is taken, or the parent is closed.
    """
    if kind not in BudgetNode.Kind.values or kind == BudgetNode.Kind.ORGANISATION:
        raise InputError(
            "kind",
            gettext("must be one of {choices}").format(
                choices=", ".join(k for k in BudgetNode.Kind.values if k != "organisation")
            ),
        )
    if not 0 <= colour <= 8:
        raise InputError("colour", gettext("must be 0 to 8"))
    with transaction.atomic():
        _lock_structure()
        above = checks.locked(parent)
        checks.allowed(by, "node.add_child", above)
        _refuse_closed("parent", above)
        keep_past(above, by=by)
        node = BudgetNode(kind=kind, code=checks.code(code), name=checks.name(name), colour=colour)
        _store(node, above, by=by, reason=reason, at=at)
        checks.announce()
        return node


def rename(
    *, node: BudgetNode, name: str, by: Person | None, reason: str = "", version: int | None = None
) -> BudgetNode:
    """Give the node another name. Its code, the ids of its workloads and its past stay.

    Raises:
        InputError: the name is bad. ConflictError: it was changed since `version`.
    """
    with transaction.atomic():
        row = checks.locked(node, version)
        checks.allowed(by, "node.rename", row)
        before, row.name = row.name, checks.name(name)
        if row.name == before:
            return row
        row.version += 1
        row.save(update_fields=["name", "version"])
        _entry("node.renamed", row, by, {"name": before}, {"name": row.name}, reason)
        return row


def move(
    *, node: BudgetNode, parent: BudgetNode, by: Person | None, reason: str = "", version: int | None = None
) -> BudgetNode:
    """Hang the node, with all below it, under another parent.

    No past is rewritten: runs keep the path they were started under, and shares name the parent they were of. The
    node's shares end with the organisation's day; the new parent's manager gives it new ones. Cells of the node and of
    all below it end at once: they were part of what lies above its old place.

    Raises:
        InputError: the root, a closed node or a parent inside the node itself. ConflictError: as for `rename`.
    """
    with transaction.atomic():
        _lock_structure()
        row, target = checks.locked(node, version), checks.locked(parent)
        if row.parent_id is None:
            raise InputError("node", gettext("the organisation itself can't be moved"))
        old = checks.locked(BudgetNode(pk=row.parent_id))
        for concerned in (old, target):
            checks.allowed(by, "node.add_child", concerned)
        _refuse_closed("node", row)
        _refuse_closed("parent", target)
        if row.pk in target.path:
            raise InputError(
                "parent",
                gettext("{target} is inside {row}: a node can't be moved under itself").format(
                    target=target.code, row=row.code
                ),
            )
        if target.pk == old.pk:
            return row
        keep_past(target, by=by)
        end_shares(node=row, by=by, reason=reason)
        end_cells(nodes=BudgetNode.objects.filter(path__contains=[row.pk]), by=by, reason=reason)
        _rehang(row, old, target)
        _entry("node.moved", row, by, {"parent": old.pk}, {"parent": target.pk}, reason)
        checks.announce()
        return row


def close(
    *, node: BudgetNode, by: Person | None, reason: str = "", version: int | None = None, at: datetime | None = None
) -> BudgetNode:
    """Close the node and all below it: nothing new, what is queued is held, what runs goes on (section 8).

    Its history stays, and keeps weighing on the parent until it leaves the window. Its shares end with the
    organisation's day, so that they show as unassigned; its cells end at once.

    Raises:
        InputError: the root, or closed already. ConflictError: as for `rename`.
    """
    with transaction.atomic():
        _lock_structure()
        row = checks.locked(node, version)
        if row.parent_id is None:
            raise InputError("node", gettext("the organisation itself can't be closed"))
        checks.allowed(by, "node.close", row)
        _refuse_closed("node", row)
        when = at or timezone.now()
        for inner in BudgetNode.objects.select_for_update(no_key=True).filter(path__contains=[row.pk], closed_at=None):
            end_shares(node=inner, by=by, reason=reason)
            end_cells(nodes=[inner], by=by, reason=reason)
            inner.closed_at, inner.version = when, inner.version + 1
            inner.save(update_fields=["closed_at", "version"])
            _entry("node.closed", inner, by, {"closed_at": None}, {"closed_at": when.isoformat()}, reason)
        checks.announce()
        row.refresh_from_db()
        return row


def keep_past(leaf: BudgetNode, *, by: Person | None) -> BudgetNode | None:
    """Before a leaf becomes an inner node: move its past into a closed child, if it has one. The child, or None."""
    if leaf.children.exists() or not any(ask(leaf) for ask in hooks.has_past):
        return None
    node = BudgetNode(
        kind=BudgetNode.Kind.SUBPROJECT,
        code=_free_code(leaf.code),
        name=f"earlier work of {leaf.name}"[: checks.NAME_LENGTH],
        colour=leaf.colour,
        closed_at=timezone.now(),
    )
    _store(node, leaf, by=by, reason=f"{leaf.code} was divided", at=leaf.created_at)
    for call in hooks.past_moves:
        call(leaf, node, by)
    return node


def _free_code(code: str) -> str:
    """The first of X_0, X_1 ... that nobody has, cut to what fits."""
    taken = set(BudgetNode.objects.filter(code__startswith=code[:11]).values_list("code", flat=True))
    number = 0
    while (free := f"{code[: 15 - len(str(number))]}_{number}") in taken:
        number += 1
    return free


def _lock_structure() -> None:
    BudgetNode.objects.select_for_update(no_key=True).get(parent=None)


def _refuse_closed(field: str, node: BudgetNode) -> None:
    if node.is_closed:
        raise InputError(field, gettext("{node} is closed").format(node=node.code))


def _store(
    node: BudgetNode, parent: BudgetNode | None, *, by: Person | None, reason: str, at: datetime | None
) -> BudgetNode:
    """Insert the node with its path and its entry."""
    node.parent = parent
    node.created_at = at or timezone.now()
    try:
        with transaction.atomic():
            node.save()
    except IntegrityError as error:
        if "code" in str(error):
            raise InputError("code", gettext("{node} is taken").format(node=node.code)) from None
        raise InputError("", gettext("there is an organisation already")) from None
    node.path = [*(parent.path if parent else []), node.pk]
    node.save(update_fields=["path"])
    after = {"parent": parent.pk if parent else None, "kind": node.kind, "code": node.code, "name": node.name}
    if node.closed_at:
        after["closed_at"] = node.closed_at.isoformat()
    _entry("node.created", node, by, None, after, reason)
    if parent is not None:
        BudgetNode.objects.filter(pk=parent.pk).update(version=F("version") + 1)
    return node


def _rehang(node: BudgetNode, old: BudgetNode, new: BudgetNode) -> None:
    """Set the parent, and in the whole subtree the part of each path that lies above the node."""
    cut = len(node.path) - 1
    subtree = list(BudgetNode.objects.select_for_update(no_key=True).filter(path__contains=[node.pk]))
    for inner in subtree:
        inner.path = [*new.path, *inner.path[cut:]]
    BudgetNode.objects.bulk_update(subtree, ["path"], batch_size=500)
    node.parent, node.path, node.version = new, [*new.path, node.pk], node.version + 1
    node.save(update_fields=["parent", "version"])
    BudgetNode.objects.filter(pk__in=[old.pk, new.pk]).update(version=F("version") + 1)


def _entry(
    verb: str, node: BudgetNode, by: Person | None, before: ledger.State | None, after: ledger.State, reason: str
) -> None:
    ledger.record(verb=verb, node=node, by=by, before=before, after=after, reason=checks.reason(reason, by))
