"""Lent and borrowed between the children of a node: who ran on whose entitlement.

The rule, hour by hour. What a child was charged above its entitlement is borrowed; what it was entitled to of the
healthy devices and was not charged for is spare, and so is what the node has assigned to no child. What was borrowed
comes from the spare of the others, of each in proportion to its spare; what the spare of that hour does not cover came
from outside the node (another part of the tree, or devices that were not healthy). Then work that is charged to nobody
takes from what is left, the same way. All amounts are whole, and split by largest remainder: each row sums to what the
books say that child has borrowed, each column to what it lent, and nobody lends more than they had to spare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from budgets.models import BudgetNode, Cluster
from scheduler.queries.usage import BALANCED

OTHERS = -1
"""Children beyond CHILDREN_MAX, taken together."""
UNASSIGNED = -2
"""What the node has assigned to no child: it can only lend."""
OUTSIDE = -3
"""What no child of the node had to spare: it can only lend."""
UNALLOCATED = -4
"""Work that is charged to nobody, of all children: it can only borrow."""
CHILDREN_MAX = 16
"""Children with a row and a column of their own: those that borrowed and lent most."""

Cells = dict[tuple[int, int], int]
"""Amounts by (borrower, lender)."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Who ran on whose entitlement, thousandths times seconds.

    Attributes:
        borrowers, lenders: ids of children in order, then the special ones; only those with an amount.
        cells: amounts by (borrower, lender); what is missing is 0.
    """

    borrowers: Sequence[int]
    lenders: Sequence[int]
    cells: Mapping[tuple[int, int], int]

    def borrowed(self, borrower: int) -> int:
        """What it had of all others."""
        return sum(amount for (who, _), amount in self.cells.items() if who == borrower)

    def lent(self, lender: int) -> int:
        """What all others had of it."""
        return sum(amount for (_, whose), amount in self.cells.items() if whose == lender)

    @property
    def total(self) -> int:
        """All that was borrowed, which is all that was lent."""
        return sum(self.cells.values())


def shared_out(amount: int, among: Mapping[int, int]) -> dict[int, int]:
    """A whole amount in proportion to `among`, by largest remainder, then the lower id; at most the sum of them."""
    total = sum(among.values())
    assert 0 <= amount <= total, "nobody lends more than they have"
    if not amount:
        return dict.fromkeys(among, 0)
    found, remainders = {}, []
    for key, weight in among.items():
        whole, rest = divmod(amount * weight, total)
        found[key] = whole
        remainders.append((-rest, key))
    for _, key in sorted(remainders)[: amount - sum(found.values())]:
        found[key] += 1
    return found


def attribute(borrowed: Mapping[int, int], spare: Mapping[int, int], cells: Cells) -> dict[int, int]:
    """One hour: add to `cells` who ran on whose spare, and give back what is left of it.

    Args:
        borrowed: by borrower; a child that borrowed has nothing to spare, and the other way round.
        spare: by lender.
        cells: where it is added up.
    """
    wanted = sum(borrowed.values())
    lent = shared_out(min(wanted, sum(spare.values())), spare)
    if wanted > sum(lent.values()):
        lent[OUTSIDE] = wanted - sum(lent.values())
    left = {lender: amount for lender, amount in lent.items() if amount}
    for borrower, amount in borrowed.items():
        for lender, part in shared_out(amount, left).items():
            if part:
                cells[borrower, lender] = cells.get((borrower, lender), 0) + part
                left[lender] -= part
    return {lender: amount - lent.get(lender, 0) for lender, amount in spare.items()}


HOURS_SQL = f"""
WITH {BALANCED}, traffic AS (
    SELECT node FROM balanced GROUP BY node
    ORDER BY sum(borrowed + greatest(0, available - charged)) DESC, node LIMIT {CHILDREN_MAX}
), grouped AS (
    SELECT b.hour, coalesce(t.node, {OTHERS}) AS child, sum(b.borrowed)::bigint AS borrowed,
        sum(greatest(0, b.available - b.charged))::bigint AS spare, sum(b.uncharged)::bigint AS uncharged,
        sum(b.available)::bigint AS available
    FROM balanced b LEFT JOIN traffic t ON t.node = b.node GROUP BY b.hour, coalesce(t.node, {OTHERS})
), parents AS (
    SELECT u.hour, u.available_milli_s AS available FROM scheduler_usagehour u
    WHERE u.cluster_id = %(cluster)s AND u.node_id = %(parent)s AND u.hour >= %(start)s AND u.hour < %(end)s
)
SELECT g.hour, g.child, g.borrowed, g.spare, g.uncharged, greatest(0, coalesce(p.available, 0)
    - sum(g.available) OVER (PARTITION BY g.hour))::bigint
FROM grouped g LEFT JOIN parents p ON p.hour = g.hour ORDER BY g.hour, g.child"""


def matrix(parent: BudgetNode, cluster: Cluster, start: datetime, end: datetime) -> Matrix:
    """Who of the children of `parent` ran on whose entitlement, over the hours that begin in [start, end).

    Two queries.
    """
    children = list(BudgetNode.objects.filter(parent=parent).order_by("code").values_list("pk", flat=True))
    values: dict[str, Any] = {
        "cluster": cluster.pk, "nodes": children, "parent": parent.pk, "start": start, "end": end,
    }  # fmt: skip
    hours: dict[datetime, list[tuple[int, int, int, int, int]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(HOURS_SQL, values)
        for hour, *row in cursor:
            hours.setdefault(hour, []).append(tuple(row))
    cells: Cells = {}
    for rows in hours.values():
        _add_hour(rows, cells)
    order = [*children, OTHERS, UNASSIGNED, OUTSIDE, UNALLOCATED]
    return Matrix(
        [pk for pk in order if any(who == pk for who, _ in cells)],
        [pk for pk in order if any(whose == pk for _, whose in cells)],
        cells,
    )


def _add_hour(rows: Sequence[tuple[int, int, int, int, int]], cells: Cells) -> None:
    """Rows of one hour: child, borrowed, spare, uncharged, and what is assigned to nobody."""
    borrowed = {child: amount for child, amount, *_ in rows if amount}
    spare = {child: amount for child, _, amount, *_ in rows if amount}
    uncharged = sum(row[3] for row in rows)
    if rows[0][4]:
        spare[UNASSIGNED] = rows[0][4]
    left = attribute(borrowed, spare, cells)
    if uncharged:
        attribute({UNALLOCATED: uncharged}, {lender: amount for lender, amount in left.items() if amount}, cells)
