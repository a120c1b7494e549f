"""The ledger's one entrance."""

from __future__ import annotations

from typing import Any

from django.db import connection

from budgets.models import BudgetNode, Cluster, LedgerEntry, Person

State = dict[str, Any]


def record(
    *,
    verb: str,
    node: BudgetNode,
    by: Person | None,
    before: State | None,
    after: State | None,
    reason: str,
    cluster: Cluster | None = None,
) -> LedgerEntry:
    """Append one entry, in the transaction of the change that it is about.

    `before` and `after` hold the values that changed (ids, whole numbers, ISO dates). The node's code and name are
    copied; people stand in it by id only. `by` is None for the system itself.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("an entry is written in the transaction of its change")
    return LedgerEntry.objects.create(
        verb=verb,
        person_id=by.pk if by else None,
        node_id=node.pk,
        node_code=node.code,
        node_name=node.name,
        cluster_name=cluster.name if cluster else "",
        before=before,
        after=after,
        reason=reason,
    )
