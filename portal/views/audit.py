"""The ledger: the whole of it, of a node with all below it, of a request; filtered, paged, exported.

Who may see entries is `node.see_ledger`: the people of a node, those above it, and administrators. The rest is not
there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.core.exceptions import BadRequest
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.utils.translation import gettext

from budgets.authority import INSIDE_ROLES, may, nodes_with
from budgets.models import BooksCheck, BudgetNode, LedgerEntry, Person, Role
from budgets.queries import midnight, today
from portal.csv_files import Cell, csv_response
from portal.ledger_words import VERBS, Diff, called, diffs_of
from portal.pages import Page, choice, day_named, render_page, whole_number
from portal.views.node import node_named

PER_PAGE = 50
COUNTED_MAX = 10_000
"""Rows beyond this are not counted: the count would cost more than it says."""
WHO_LENGTH = 80
EXPORT_MAX = 100_000
HEADER = (
    "entry", "at", "person", "person name", "for person", "for person name", "verb", "node", "node name", "cluster",
    "before", "after", "reason", "evidence", "request", "reallocation", "review",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """An entry with its people and what it changed, in words."""

    entry: LedgerEntry
    person: str
    behalf: str
    verb: str
    diffs: Sequence[Diff]

    @property
    def is_new(self) -> bool:
        """Whether it began something, that was nothing before; for a share that is 0 %."""
        return self.entry.before is None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a URL asks for: the entries, and the node or request that they are about."""

    rows: QuerySet[LedgerEntry]
    node: BudgetNode | None
    is_filtered: bool


class Audit(Page):
    """`?node=&request=&entry=&who=&what=&since=&as_of=` choose; the latest first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page of entries."""
        person: Person = request.user  # type: ignore[assignment]
        asked = entries_asked_for(request)
        count = asked.rows[:COUNTED_MAX].count()
        pages = max(1, -(-count // PER_PAGE))
        number = min(whole_number(request, "page", 1), pages)
        context = {
            "here": "audit",
            "lines": lines_of(list(asked.rows[(number - 1) * PER_PAGE : number * PER_PAGE])),
            "number": number,
            "pages": pages,
            "count": count,
            "node": asked.node,
            "is_filtered": asked.is_filtered,
            "verbs": VERBS,
            "sees_any": bool(nodes_with(person, LEDGER_ROLES)),
            "checks": BooksCheck.objects.all(),
        }
        return render_page(request, "audit", context)


class AuditExport(Page):
    """The same entries as a CSV file, the earliest first."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        """The file."""
        asked = entries_asked_for(request)
        name = f"ledger of {asked.node.code}" if asked.node else "ledger"
        return csv_response(name, HEADER, exported(asked.rows.order_by("id")[:EXPORT_MAX]))


LEDGER_ROLES = (*INSIDE_ROLES, Role.ADMINISTRATOR)


def visible(person: Person) -> QuerySet[LedgerEntry]:
    """The entries that the person may see. No query yet."""
    nodes = BudgetNode.objects.filter(path__overlap=nodes_with(person, LEDGER_ROLES))
    return LedgerEntry.objects.filter(node_id__in=nodes.values("pk"))


def entries_asked_for(request: HttpRequest) -> Asked:
    """What the URL asks for, of what the person may see.

    Raises:
        BadRequest: a filter that can't be read. Http404: a node or request whose ledger they may not see.
    """
    person: Person = request.user  # type: ignore[assignment]
    rows, node = visible(person), None
    if code := request.GET.get("node", ""):
        node = node_named(code)
        if not may(person, "node.see_ledger", node):
            raise Http404(gettext("The ledger of {code} is not yours to see.").format(code=code))
        rows = rows.filter(node_id__in=BudgetNode.objects.filter(path__contains=[node.pk]).values("pk"))
    if number := whole_number(request, "request", 0, at_most=10**9 - 1):
        rows = rows.filter(request_id=number)
        if not rows.exists():
            raise Http404(gettext("There is no ledger of a request R{number} that you may see.").format(number=number))
    if number := whole_number(request, "entry", 0, at_most=10**9 - 1):
        rows = rows.filter(pk=number)
    if who := request.GET.get("who", "").strip():
        rows = rows.filter(_about_people(who))
    if what := choice(request, "what", {"": "", **VERBS}, ""):
        rows = rows.filter(verb=what)
    if request.GET.get("since"):
        rows = rows.filter(at__gte=midnight(day_named(request, "since", today())))
    if request.GET.get("as_of"):
        rows = rows.filter(at__lt=midnight(day_named(request, "as_of", today()) + timedelta(days=1)))
    filters = ("node", "request", "entry", "who", "what", "since", "as_of")
    return Asked(rows.order_by("-id"), node, any(request.GET.get(name) for name in filters))


def _about_people(who: str) -> Q:
    """Entries by, or for, whoever is called so."""
    if len(who) > WHO_LENGTH or "\0" in who:
        raise BadRequest(gettext("who: at most {who_length} plain characters").format(who_length=WHO_LENGTH))
    people = Person.objects.filter(Q(display_name__icontains=who) | Q(username=who)).values("pk")
    return Q(person_id__in=people) | Q(on_behalf_of_id__in=people)


def lines_of(entries: Sequence[LedgerEntry]) -> list[Line]:
    """The entries in words. Two queries, however many."""
    people, nodes = names_in(entries)
    return [
        Line(
            entry=entry,
            person=people.get(entry.person_id, f"person {entry.person_id}")
            if entry.person_id
            else gettext("the system"),
            behalf=people.get(entry.on_behalf_of_id or 0, ""),
            verb=called(entry.verb),
            diffs=diffs_of(entry, nodes, people),
        )
        for entry in entries
    ]


def names_in(entries: Sequence[LedgerEntry]) -> tuple[dict[int, str], dict[int, str]]:
    """What the people and the nodes are called that these entries name by id."""
    ids = {pk for entry in entries for pk in (entry.person_id, entry.on_behalf_of_id) if pk}
    node_ids: set[int] = set()
    for side in (each for entry in entries for each in (entry.before, entry.after) if isinstance(each, dict)):
        ids |= {value for key, value in side.items() if key in PERSON_KEYS and isinstance(value, int)}
        node_ids |= {value for key, value in side.items() if key in NODE_KEYS and isinstance(value, int)}
        node_ids |= {int(key) for value in side.values() if isinstance(value, dict) for key in value if key.isdigit()}
    people = {person.pk: str(person) for person in Person.objects.filter(pk__in=ids)}
    codes = dict(BudgetNode.objects.filter(pk__in=node_ids).values_list("pk", "code"))
    return people, codes


PERSON_KEYS = ("person", "giver", "delegate", "author", "decided_by")
NODE_KEYS = ("parent", "node", "desk")


def exported(entries: QuerySet[LedgerEntry]) -> Iterator[tuple[Cell, ...]]:
    """The rows of the file under HEADER. People's names are as they are now; nodes' as they were then."""
    people = {person.pk: str(person) for person in Person.objects.all()}
    for entry in entries.iterator(chunk_size=2_000):
        yield (
            entry.pk, entry.at, entry.person_id, people.get(entry.person_id or 0), entry.on_behalf_of_id,
            people.get(entry.on_behalf_of_id or 0), entry.verb, entry.node_code, entry.node_name, entry.cluster_name,
            _json(entry.before), _json(entry.after), entry.reason, _json(entry.evidence), entry.request_id,
            entry.reallocation_id, entry.review_id,
        )  # fmt: skip


def _json(value: object) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)
