"""The rows of reallocations: locked as they are now, their lines against the shares of a day, and the ledger's view."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from django.utils.translation import gettext

from budgets import queries
from budgets.errors import ConflictError, InputError
from budgets.models import (
    BudgetNode,
    Cluster,
    Person,
    Reallocation,
    ReallocationLine,
    Share,
    State,
)
from budgets.services import (
    checks,
    ledger,
    request_rows,
)

NOTICE = timedelta(days=3)
"""How long managers of the root are told ahead, where the organisation chose notice (governance.md)."""

Shares = Mapping[BudgetNode, int]
"""Basis points of the parent by child; children that are not named keep theirs."""


def locked(reallocation: Reallocation, version: int | None, *among: State) -> Reallocation:
    """The row as it is now, locked until the end of the transaction.

    Raises:
        ConflictError: it is in none of these states (which says what happened), or was changed since `version`.
    """
    row = (
        Reallocation.objects.select_for_update(of=("self",), no_key=True)
        .select_related("parent", "cluster", "desk", "author", "author_for", "decided_by", "request")
        .get(pk=reallocation.pk)
    )
    request_rows.refuse_late(row, version, among)
    return row


def plain(row: Reallocation) -> ledger.State:
    """A reallocation as the ledger keeps it."""
    return {
        "from": row.starts_on.isoformat(),
        "until": row.ends_on.isoformat() if row.ends_on else None,
        "lines": {line.node.code: [line.before, line.after] for line in row.lines.select_related("node")},
    }


def shares_on(parent: BudgetNode, cluster: Cluster, day: date) -> dict[int, int]:
    """Basis points in force on the day, by child id."""
    rows = Share.objects.filter(queries.in_force(day), parent=parent, cluster=cluster)
    return dict(rows.values_list("node_id", "basis_points"))


def lines(
    parent: BudgetNode, cluster: Cluster, shares: Shares, day: date, *, may_be_none: bool = False
) -> list[tuple[BudgetNode, int, int]]:
    """(child, before, after) of the children whose share on the day would be another one."""
    children = {child.pk: child for child in parent.children.all()}
    now = shares_on(parent, cluster, day)
    found = []
    for child, after in shares.items():
        if child.pk not in children:
            raise InputError(
                f"shares[{child.code}]",
                gettext("{child} is no child of {parent}").format(child=child.code, parent=parent.code),
            )
        if type(after) is not int or not 0 <= after <= 10_000:
            raise InputError(
                f"shares[{child.code}]", gettext("must be a whole number of basis points from 0 to 10,000")
            )
        if after != now.get(child.pk, 0):
            found.append((child, now.get(child.pk, 0), after))
    if not found and not may_be_none:
        raise InputError("shares", gettext("nothing changes"))
    return found


def check_days(starts_on: date, ends_on: date | None) -> None:
    """Nothing, if a change may begin and end on these days."""
    checks.days(starts_on=starts_on, ends_on=ends_on)
    if starts_on < queries.today():
        raise InputError("starts_on", gettext("can't be a day that is over"))
    if ends_on is not None and ends_on <= starts_on:
        raise InputError("ends_on", gettext("must be later than the first day"))


def base(parent: BudgetNode, cluster: Cluster, day: date) -> dict[str, int]:
    """What `Reallocation.base` keeps: basis points on the day, by child id."""
    return {str(pk): points for pk, points in sorted(shares_on(parent, cluster, day).items())}


def keep_lines(row: Reallocation, lines: list[tuple[BudgetNode, int, int]]) -> None:
    """Store the lines of a reallocation."""
    ReallocationLine.objects.bulk_create(
        ReallocationLine(reallocation=row, node=child, before=before, after=after) for child, before, after in lines
    )


def discard(draft: Reallocation, by: Person) -> None:
    """A draft that became a decision is gone; nobody but its author ever saw it."""
    row = locked(draft, None, State.DRAFT)
    checks.only_author(row, by)
    row.delete()


def refuse_stale(row: Reallocation, parent: BudgetNode) -> None:
    """Nothing, if each share it changes is still what it was when it was proposed; else a ConflictError."""
    now = shares_on(parent, row.cluster, max(row.starts_on, queries.today()))
    for line in row.lines.select_related("node"):
        if now.get(line.node_id, 0) != line.before:
            raise ConflictError(
                gettext(
                    "{node} has {node_id:,} basis points now, and had {before:,} when {row} was proposed; it "
                    "has to be proposed again"
                ).format(node=line.node.code, node_id=now.get(line.node_id, 0), before=line.before, row=row)
            )


def entry(
    row: Reallocation,
    verb: str,
    by: Person | None,
    before: ledger.State | None,
    after: ledger.State | None,
    why: str,
    acting_for: Person | None = None,
) -> None:
    """One entry about a reallocation."""
    ledger.record(
        verb=verb, node=row.parent, cluster=row.cluster, by=by, before=before, after=after, reason=why,
        about=ledger.About(acting_for, row.request, row, row.review, row.evidence),
    )  # fmt: skip
