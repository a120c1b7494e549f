"""The ledger's one entrance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from budgets.models import BudgetNode, Cluster, LedgerEntry, Person, Reallocation, Request, Review
from budgets.services import deliveries

State = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Where a change was decided before it was stored here, as in an import: when, and by whom if that is known."""

    at: datetime
    person: Person | None = None


@dataclass(frozen=True, slots=True)
class About:
    """What an entry belongs to beside its node: for whom it was done, what was asked, decided, reviewed, looked at."""

    acting_for: Person | None = None
    request: Request | None = None
    reallocation: Reallocation | None = None
    review: Review | None = None
    evidence: State | None = None


NOTHING_ELSE = About()


def record(
    *,
    verb: str,
    node: BudgetNode,
    by: Person | None,
    before: State | None,
    after: State | None,
    reason: str,
    cluster: Cluster | None = None,
    recorded: Recorded | None = None,
    about: About = NOTHING_ELSE,
) -> LedgerEntry:
    """Append one entry, in the transaction of the change that it is about.

    `before` and `after` hold the values that changed (ids, whole numbers, ISO dates). The node's code and name are
    copied; people stand in it by id only. `by` is None for the system itself. An imported change is dated as it was
    `recorded`, and reads "the system, for" whoever decided it. What a delegate does reads "B for A" (`about`).
    """
    if not connection.in_atomic_block:
        raise RuntimeError("an entry is written in the transaction of its change")
    known = {"at": recorded.at} if recorded else {}
    behalf = about.acting_for or (recorded.person if recorded else None)
    entry = LedgerEntry.objects.create(
        **known,
        verb=verb,
        person_id=by.pk if by else None,
        on_behalf_of_id=behalf.pk if behalf else None,
        node_id=node.pk,
        node_code=node.code,
        node_name=node.name,
        cluster_name=cluster.name if cluster else "",
        before=before,
        after=after,
        reason=reason,
        evidence=about.evidence,
        request_id=about.request.pk if about.request else None,
        reallocation_id=about.reallocation.pk if about.reallocation else None,
        review_id=about.review.pk if about.review else None,
    )
    deliveries.tell_of_entry(entry)
    return entry


def record_of_all(
    *,
    verb: str,
    by: Person | None,
    before: State | None,
    after: State | None,
    reason: str,
    cluster: Cluster | None = None,
) -> LedgerEntry | None:
    """`record` at the organisation, of what is about all people or a whole cluster.

    A portal that has no tree yet has no ledger either.
    """
    root = BudgetNode.objects.filter(parent=None).first()
    if root is None:
        return None
    return record(verb=verb, node=root, by=by, before=before, after=after, reason=reason, cluster=cluster)
