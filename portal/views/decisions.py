"""The decision log: all that was decided, by whatever road, and whether it worked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.core.paginator import Paginator
from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import TruncSecond
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from budgets.authority import INSIDE_ROLES, may, nodes_with, roles_of
from budgets.errors import InputError
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
from budgets.queries import midnight, today
from budgets.services import follow_ups
from portal.forms.reviews import AnswerFollowUpForm
from portal.pages import Page, day_named, new_action, render_page, spend, spent_on, whole_number
from portal.views.node import node_named, share_at, shares_in
from portal.views.requests import visible as visible_requests
from portal.views.reviews import DONE_ALREADY, status_of
from scheduler.queries import usage

PER_PAGE = 25
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


class Decisions(Page):
    """`?node=` at or below it, `?from=` and `?until=` days, `?by=` who decided."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """A page of the log, the latest first."""
        person: Person = request.user  # type: ignore[assignment]
        code, by = request.GET.get("node", ""), request.GET.get("by", "")
        node = node_named(code) if code else None
        until = day_named(request, "until", today())
        since = day_named(request, "from", date(2000, 1, 1))
        decider = decider_named(by) if by else None
        rows = keys(person, node, since, until, decider)
        pages = Paginator(rows, PER_PAGE)
        number = whole_number(request, "page", 1)
        if number > max(1, pages.num_pages):
            raise Http404("There is no such page of decisions.")
        context = {
            "here": "decisions",
            "rows": decisions(person, list(pages.page(number).object_list)),
            "number": number,
            "pages": pages.num_pages,
            "count": pages.count,
            "node": node,
            "since": request.GET.get("from", ""),
            "until": request.GET.get("until", ""),
            "by": by,
            "nodes": BudgetNode.objects.filter(children__isnull=False).distinct().order_by("path"),
            "deciders": deciders(),
            "due": list(follow_ups.due_for(person)[:PER_PAGE]),
        }
        return render_page(request, "decisions", context)


class DecisionPage(Page):
    """One decision with what was looked at, and "did it work?"."""

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """The page."""
        return self.show(request, decision_numbered(request.user, number), None)  # type: ignore[arg-type]

    def post(self, request: HttpRequest, number: int) -> HttpResponse:
        """Say whether it worked, once."""
        person: Person = request.user  # type: ignore[assignment]
        row = decision_numbered(person, number)
        asked = FollowUp.objects.filter(reallocation=row).first()
        if asked is None:
            raise Http404(f"Nobody asks whether {row} worked: it isn't in force.")
        address = reverse("decision", args=[row.pk])
        if spent_on(request, request.POST.get("action", "")) is not None:
            messages.info(request, DONE_ALREADY)
            return HttpResponseRedirect(address)
        form = AnswerFollowUpForm(request.POST)
        status = 400
        if form.is_valid():
            said = form.cleaned_data
            try:
                follow_ups.answer(
                    follow_up=asked, verdict=said["verdict"], text=said["text"], by=person, books_of=books_of
                )
            except InputError as error:
                form.take(error)
                status = status_of(error)
            else:
                spend(request, said["action"], address)
                messages.info(request, "Your answer stands with the decision.")
                return HttpResponseRedirect(address)
        return self.show(request, row, form, status)

    def show(
        self, request: HttpRequest, row: Reallocation, form: AnswerFollowUpForm | None, status: int = 200
    ) -> HttpResponse:
        """The page; the figures of now against before stand beside the question."""
        person: Person = request.user  # type: ignore[assignment]
        [shown] = decisions(person, [{"kind": "reallocation", "pk": row.pk}])
        asked = shown.follow_up
        is_due = asked is not None and asked.answered_at is None and asked.due_on <= today()
        is_due = is_due and row.state == State.APPLIED
        figures = None
        if asked is not None and asked.answered_at is not None:
            figures = asked.figures
        elif asked is not None and is_due:
            figures = follow_ups.figures_of(asked, books_of)
        context = {
            "here": "decisions",
            "row": row,
            "shown": shown,
            "asked": asked,
            "is_due": is_due,
            "figures": figures,
            "compared": compared(figures) if figures else [],
            "may_answer": is_due and may(person, "share.change", row.parent),
            "form": form or AnswerFollowUpForm(initial={"action": new_action()}),
        }
        return render_page(request, "decision", context, status=status)


def decision_numbered(person: Person, number: int) -> Reallocation:
    """The decided reallocation, if the person may see it.

    Raises:
        Http404: there is none for them.
    """
    row = Reallocation.objects.select_related("parent", "cluster").filter(pk=number).first()
    if row is None or row.state not in (*DECIDED, State.DENIED) or not may(person, "reallocation.see", row):
        raise Http404(f"There is no decision D{number}.")
    return row


def keys(
    person: Person, node: BudgetNode | None, since: date, until: date, decider: Person | None
) -> QuerySet[Any, dict[str, Any]]:
    """Kind, id and instant of what was decided on these days and the person may see, the latest first."""
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

    other = other.annotate(second=TruncSecond("at", tzinfo=UTC))
    later = other.filter(
        pk__gt=OuterRef("pk"), at__gte=OuterRef("second"), at__lt=OuterRef("second") + SECOND,
        cluster_name=OuterRef("cluster_name"), reason=OuterRef("reason"),
    )  # fmt: skip
    other = other.filter(~Exists(later))  # the last of those that were written together stands for all

    def of(kind: str, rows: QuerySet[Any], at: str) -> QuerySet[Any, dict[str, Any]]:
        named = rows.order_by().annotate(kind=Value(kind, output_field=CharField()), decided=F(at))
        return named.values("kind", "pk", "decided")

    parts = [of("reallocation", taken, "decided_at"), of("request", refused, "decided_at"), of("entry", other, "at")]
    return parts[0].union(*parts[1:], all=True).order_by("-decided", "kind", "-pk")


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
    for entry in last:
        same = entries[second_of(entry), entry.cluster_name, entry.reason]
        known["entry", entry.pk] = from_entries(entry, same, people)
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


def decider_named(text: str) -> Person:
    """Who decided, by id.

    Raises:
        BadRequest: no such person.
    """
    found = (
        Person.objects.filter(pk=int(text)).first() if text.isascii() and text.isdigit() and len(text) < 10 else None
    )
    if found is None:
        raise BadRequest(f"by: {text!r} is nobody's id")
    return found


def deciders() -> list[Person]:
    """Everybody who has decided something, by name."""
    taken = Reallocation.objects.exclude(decided_by=None).order_by().values("decided_by")
    refused = Request.objects.exclude(decided_by=None).order_by().values("decided_by")
    people = Person.objects.filter(Q(pk__in=taken) | Q(pk__in=refused))
    return sorted(people, key=str)


def books_of(nodes: Sequence[BudgetNode], cluster: Cluster, start: date, end: date) -> dict[int, dict[str, int]]:
    """The books of these nodes over the organisation's days [start, end), as plain numbers."""
    found = usage.totals(nodes, cluster, midnight(start), midnight(end))
    return {
        pk: {
            "entitled": books.entitled_milli_s,
            "delivered": books.charged_milli_s,
            "borrowed": books.borrowed_milli_s,
            "owed": books.owed_milli_s,
            "not_delivered": books.not_delivered_milli_s,
            "not_asked": books.not_asked_milli_s,
        }
        for pk, books in found.items()
    }


FIGURES = {
    "entitled": "entitled", "delivered": "delivered", "borrowed": "of it borrowed", "owed": "owed",
    "not_delivered": "owed, not delivered", "not_asked": "not asked for",
}  # fmt: skip
"""What is compared, in words."""


def compared(figures: dict[str, Any]) -> list[tuple[str, list[tuple[str, int, int]]]]:
    """By node: what, before, after, in thousandths of the unit times seconds."""
    return [
        (code, [(words, sides["before"][name], sides["after"][name]) for name, words in FIGURES.items()])
        for code, sides in figures["nodes"].items()
    ]
