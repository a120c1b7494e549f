"""One search over nodes, people, workloads and requests, limited to what one may see (governance.md "Who sees what").

Nodes and people are few and found by any part of their name. Workloads are many and found by the beginning of their id,
or of their name where one sees inside (the last 20,000 of them). So no extension of the database is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.core.exceptions import BadRequest
from django.db import connection
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext, gettext_lazy

from budgets.authority import INSIDE_ROLES, nodes_with
from budgets.models import BudgetNode, Person, Request
from portal.pages import Page, choice, render_page, whole_number
from portal.views.queue import leaves_seen_inside
from portal.views.requests import visible
from scheduler.models import Workload

FIND_LENGTH = 80
AT_LEAST = 2
"""Characters from which on something is looked for."""
SHOWN = 8
"""Of each kind, where all kinds are shown."""
PER_PAGE = 50
COUNTED_MAX = 1_000
"""Hits beyond this are not counted."""
NAMED_AMONG = 20_000
"""How many of the last workloads that one sees inside are looked through by name."""
NAMED_SQL = """
SELECT id FROM (
    SELECT id, name FROM scheduler_workload WHERE leaf_id = ANY(%(leaves)s::bigint[]) OR owner_id = %(person)s
    ORDER BY id DESC LIMIT %(among)s
) AS seen WHERE starts_with(upper(name), upper(%(find)s)) LIMIT %(most)s"""
REQUEST_ID = re.compile(r"[Rr](\d{1,9})")


@dataclass(frozen=True, slots=True)
class Found:
    """The hits of one kind that are shown, and how many there are, at most COUNTED_MAX."""

    kind: str
    title: str
    rows: list[Any]
    count: int

    @property
    def is_cut(self) -> bool:
        """Whether there are more than are shown."""
        return self.count > len(self.rows)


class Search(Page):
    """`?find=` what, `?kind=` only of one kind, then paged."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The hits."""
        self.allow("tree.see")
        person: Person = request.user  # type: ignore[assignment]
        find = " ".join(request.GET.get("find", "").split())
        if len(find) > FIND_LENGTH or "\0" in find:
            raise BadRequest(gettext("find: at most {find_length} plain characters").format(find_length=FIND_LENGTH))
        kind = choice(request, "kind", {"": "", **KINDS}, "")
        number, found, pages = whole_number(request, "page", 1), [], 1
        if len(find) >= AT_LEAST:
            for each in [kind] if kind else list(KINDS):
                rows = KINDS[each][1](person, find)
                count = rows[:COUNTED_MAX].count()
                pages = max(1, -(-count // PER_PAGE)) if kind else 1
                number = min(number, pages)
                first = (number - 1) * PER_PAGE
                shown = rows[first : first + PER_PAGE] if kind else rows[:SHOWN]
                found.append(Found(each, str(KINDS[each][0]), list(shown), count))
        workloads = next((each.rows for each in found if each.kind == "workloads"), [])
        context = {
            "here": "search",
            "find": find,
            "kind": kind,
            "found": found,
            "count": sum(each.count for each in found),
            "number": number,
            "pages": pages,
            "is_short": len(find) < AT_LEAST,
            "inside": leaves_seen_inside(person, [row.leaf_id for row in workloads]),
        }
        return render_page(request, "search", context)


def nodes(_person: Person, find: str) -> QuerySet[BudgetNode]:
    """Nodes whose code begins so, or whose name has it; everyone sees the tree."""
    rows = BudgetNode.objects.filter(Q(code__istartswith=find) | Q(name__icontains=find))
    return rows.select_related("parent").order_by("closed_at", "path")


def people(_person: Person, find: str) -> QuerySet[Person]:
    """Who can sign in and is called so; everyone may know who decides what."""
    named = Q(display_name__icontains=find) | Q(username__istartswith=find)
    return Person.objects.filter(named, is_active=True).order_by("display_name", "username")


def workloads(person: Person, find: str) -> QuerySet[Workload]:
    """Workloads whose id begins so, for everyone; those inside, and one's own, also by the beginning of their name if
    they are among the last NAMED_AMONG. Three queries before the rows themselves, each with an index.
    """
    ids = reduce(or_, (Q(code__startswith=each) for each in _spellings(find)))
    rows = Workload.objects.filter(ids | Q(pk__in=_named(person, find)))
    return rows.select_related("leaf", "cluster").order_by("-submitted_at", "-pk")


def _named(person: Person, find: str) -> list[int]:
    """Ids of the last workloads that the person sees inside, of those whose names begin so."""
    leaves = BudgetNode.objects.filter(path__overlap=nodes_with(person, INSIDE_ROLES)).values_list("pk", flat=True)
    values: dict[str, Any] = {
        "person": person.pk, "leaves": list(leaves), "find": find, "among": NAMED_AMONG, "most": COUNTED_MAX,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(NAMED_SQL, values)
        return [pk for (pk,) in cursor]


def requests(person: Person, find: str) -> QuerySet[Request]:
    """Requests of that number, for that node, or that say so, of those one may see."""
    wanted = Q(node__code__istartswith=find) | Q(why__icontains=find) | Q(node__name__icontains=find)
    if match := REQUEST_ID.fullmatch(find):
        wanted |= Q(pk=int(match[1]))
    return visible(person).filter(wanted).select_related("node", "parent", "author", "cluster").order_by("-pk")


def _spellings(find: str) -> list[str]:
    """The ids that could be meant, in the letters that nodes have: an index is used, which knows large from small."""
    head, dash, rest = find.partition("-")
    codes = BudgetNode.objects.filter(code__iexact=head).values_list("code", flat=True)[:3] if dash else []
    return list(dict.fromkeys([find, find.upper(), *(f"{code}-{rest}" for code in codes)]))


KINDS: dict[str, tuple[Any, Callable[[Person, str], QuerySet[Any]]]] = {
    "nodes": (gettext_lazy("Budget nodes"), nodes),
    "people": (gettext_lazy("People"), people),
    "workloads": (gettext_lazy("Workloads"), workloads),
    "requests": (gettext_lazy("Requests"), requests),
}
"""Title and finder of each kind, in the order of the page."""
