"""The rows of the decision log: which decisions a person may see, and what each of them says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import CharField, F, Max, Q, QuerySet, Value
from django.db.models.functions import TruncSecond
from django.urls import reverse

from budgets.authority import INSIDE_ROLES, may, nodes_with, roles_of
from budgets.models import (
    BudgetNode,
    Cluster,
    FollowUp,
    LedgerEntry,
    Person,
    Reallocation,
    Request,
    ReviewItem,
    Role,
    State,
)
from budgets.queries import midnight
from portal.views.node import share_at, shares_in
from portal.views.requests import visible as visible_requests

LINES_SHOWN = 12
KINDS = ("reallocation", "request", "entry")
OTHER_ROADS = Q(verb="share.changed", reallocation_id=None)
"""Changes of shares that are no reallocation's: a file's, a history's, the system's."""
SECOND = timedelta(seconds=1)
DECIDED = (State.APPROVED, State.APPLIED)


@dataclass
class Decision:
    """One row of the log. `lines` are node code, before and after in basis points; the people are who decided, and for
    whom; a change of shares that is no reallocation (a file, the system) is a ledger entry.
    """

    at: datetime
    what: str  # "D12", "R5", or "" for an entry of the ledger
    path: str
    node: BudgetNode | None
    node_code: str
    cluster: str
    outcome: str
    by: Person | None
    behalf: Person | None
    reason: str
    starts_on: date | None = None
    ends_on: date | None = None
    lines: Sequence[tuple[str, int, int]] = ()
    reallocation: Reallocation | None = None
    items: list[ReviewItem] = field(default_factory=list)
    follow_up: FollowUp | None = None
    review_seen: bool = False

    @property
    def answers(self) -> list[Request]:
        """The requests that it approved: its own, or those of a review's items that it raised."""
        if self.reallocation is None:
            return []
        raised = {code for code, before, after in self.lines if after > before}
        asked = [self.reallocation.request, *(item.request for item in self.items if item.node.code in raised)]
        return [each for each in asked if each is not None and each.state in DECIDED]

    @property
    def more(self) -> int:
        """How many lines a row of the log leaves out."""
        return max(0, len(self.lines) - LINES_SHOWN)

    @property
    def first_lines(self) -> Sequence[tuple[str, int, int]]:
        """The lines that a row of the log shows."""
        return self.lines[:LINES_SHOWN]


def keys(
    person: Person, node: BudgetNode | None, since: date, until: date, decider: Person | None
) -> QuerySet[Any, dict[str, Any]]:
    """Kind, id and instant of what was decided on these days and the person may see, the latest first."""
    parts = parts_of(person, node, since, until, decider)
    return parts[0].union(*parts[1:], all=True).order_by("-decided", "kind", "-pk")


def parts_of(
    person: Person,
    node: BudgetNode | None,
    since: date,
    until: date,
    decider: Person | None,
    cluster: Cluster | None = None,
) -> list[QuerySet[Any, dict[str, Any]]]:
    """The parts that `keys` lays together: reallocations, denied requests, and what came by other roads."""
    within = (midnight(since), midnight(until + timedelta(days=1)))
    taken = Reallocation.objects.filter(decided_at__gte=within[0], decided_at__lt=within[1])
    denied = Q(state=State.DENIED)
    if Role.OPERATOR not in {role for _, role in roles_of(person)}:
        denied &= Q(parent__path__overlap=nodes_with(person, INSIDE_ROLES)) | Q(author=person)
    taken = taken.filter(Q(state__in=DECIDED) | denied)
    refused = visible_requests(person).filter(state=State.DENIED, decided_at__gte=within[0], decided_at__lt=within[1])
    other = LedgerEntry.objects.filter(OTHER_ROADS, at__gte=within[0], at__lt=within[1])
    if node is not None:
        below = BudgetNode.objects.filter(path__contains=[node.pk]).values("pk")
        taken = taken.filter(Q(parent__in=below) | Q(lines__node=node)).distinct()
        refused, other = refused.filter(node__in=below), other.filter(node_id__in=below)
    if decider is not None:
        taken, refused = taken.filter(decided_by=decider), refused.filter(decided_by=decider)
        other = other.filter(Q(person_id=decider.pk) | Q(person_id=None, on_behalf_of_id=decider.pk))

    if cluster is not None:
        taken, refused = taken.filter(cluster=cluster), refused.filter(cluster=cluster)
        other = other.filter(cluster_name=cluster.name)

    # the last of those that were written together stands for all
    together = other.annotate(second=TruncSecond("at", tzinfo=UTC)).order_by()
    last = together.values("second", "cluster_name", "reason").annotate(last=Max("pk")).values("last")
    other = other.filter(pk__in=last)

    def of(kind: str, rows: QuerySet[Any], at: str) -> QuerySet[Any, dict[str, Any]]:
        named = rows.order_by().annotate(kind=Value(kind, output_field=CharField()), decided=F(at))
        return named.values("kind", "pk", "decided")

    return [of("reallocation", taken, "decided_at"), of("request", refused, "decided_at"), of("entry", other, "at")]


def decisions(person: Person, found: Sequence[dict[str, Any]]) -> list[Decision]:
    """The rows of these keys, in their order. The same number of queries however many they are."""
    ids: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for key in found:
        ids[key["kind"]].append(key["pk"])
    known: dict[tuple[str, int], Decision] = {}
    for taken in reallocations_of(ids["reallocation"]):
        known["reallocation", taken.pk] = from_reallocation(person, taken)
    requests = Request.objects.filter(pk__in=ids["request"])
    for asked in requests.select_related("node", "parent", "cluster", "decided_by", "decided_for"):
        known["request", asked.pk] = from_request(asked)
    last = list(LedgerEntry.objects.filter(pk__in=ids["entry"]))
    people = Person.objects.in_bulk({pk for each in last for pk in (each.person_id, each.on_behalf_of_id) if pk})
    entries: dict[tuple[datetime, str, str], list[LedgerEntry]] = {}
    seconds = {second_of(each) for each in last}
    rows = LedgerEntry.objects.annotate(second=TruncSecond("at", tzinfo=UTC)).filter(OTHER_ROADS, second__in=seconds)
    if seconds:  # within the index of the instants
        rows = rows.filter(at__gte=min(seconds), at__lt=max(seconds) + SECOND)
    for entry in rows.order_by("pk"):
        entries.setdefault((second_of(entry), entry.cluster_name, entry.reason), []).append(entry)
    for one in last:
        same = entries[second_of(one), one.cluster_name, one.reason]
        known["entry", one.pk] = from_entries(one, same, people)
    return [known[key["kind"], key["pk"]] for key in found]


def reallocations_of(ids: Sequence[int]) -> QuerySet[Reallocation]:
    """With all that a row of the log shows."""
    rows = Reallocation.objects.filter(pk__in=ids).select_related(
        "parent", "cluster", "author", "decided_by", "decided_for", "request", "review__node", "follow_up__answered_by"
    )
    rows = rows.defer("review__snapshot")
    return rows.prefetch_related(
        "lines__node", "review__items__node", "review__items__request", "review__items__voices__person"
    )


def from_reallocation(person: Person, row: Reallocation) -> Decision:
    """A decision on shares. What was said in a review is for those who may see the review."""
    seen = row.review is not None and may(person, "review.see", row.review)
    touched = {line.node_id for line in row.lines.all()}
    items = []
    if row.review is not None and seen:
        items = [
            each for each in row.review.items.all() if each.cluster_id == row.cluster_id and each.node_id in touched
        ]
    assert row.decided_at is not None
    return Decision(
        at=row.decided_at,
        what=str(row),
        path=reverse("decision", args=[row.pk]),
        node=row.parent,
        node_code=row.parent.code,
        cluster=row.cluster.name,
        outcome="denied" if row.state == State.DENIED else "applied" if row.state == State.APPLIED else "approved",
        by=row.decided_by,
        behalf=row.decided_for,
        reason=row.decision_reason,
        starts_on=row.starts_on,
        ends_on=row.ends_on,
        lines=[(line.node.code, line.before, line.after) for line in row.lines.all()],
        reallocation=row,
        items=items,
        follow_up=getattr(row, "follow_up", None),
        review_seen=seen,
    )


def from_request(row: Request) -> Decision:
    """A denied request."""
    assert row.decided_at is not None
    return Decision(
        at=row.decided_at,
        what=str(row),
        path=reverse("request", args=[row.pk]),
        node=row.node,
        node_code=row.node.code,
        cluster=row.cluster.name,
        outcome="denied",
        by=row.decided_by,
        behalf=row.decided_for,
        reason=row.decision_reason,
        starts_on=row.starts_on,
        ends_on=row.ends_on,
    )


def from_entries(entry: LedgerEntry, together: Sequence[LedgerEntry], people: dict[int, Person]) -> Decision:
    """A change of shares that came by another road: a file, an import of history, the system."""
    changes = [change for each in together if (change := first_change(each)) is not None]
    return Decision(
        at=entry.at,
        what="",
        path="",
        node=None,
        node_code="",
        cluster=entry.cluster_name,
        outcome="changed",
        by=people.get(entry.person_id or entry.on_behalf_of_id or 0),
        behalf=people.get(entry.on_behalf_of_id or 0) if entry.person_id else None,
        reason=entry.reason,
        starts_on=min((date.fromisoformat(day) for day, *_ in changes), default=None),
        lines=[(code, before, after) for _, code, before, after in changes],
    )


def second_of(entry: LedgerEntry) -> datetime:
    """When it was written, to the second: entries of one change are written one right after the other."""
    return entry.at.astimezone(UTC).replace(microsecond=0)


def first_change(entry: LedgerEntry) -> tuple[str, str, int, int] | None:
    """The first day on which a child's share is another one, its code, and the share before and after."""
    before, after = shares_in(entry.before), shares_in(entry.after)
    days = sorted({spell["from"] for spell in (*before, *after)} | {spell["until"] or "" for spell in after} - {""})
    first = next((day for day in days if share_at(before, day) != share_at(after, day)), None)
    return None if first is None else (first, entry.node_code, share_at(before, first), share_at(after, first))
