"""The decision log: all that was decided, by whatever road, and whether it worked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from django.core.exceptions import BadRequest
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from budgets.authority import may
from budgets.models import (
    BudgetNode,
    Cluster,
    FollowUp,
    Person,
    Reallocation,
    Request,
    State,
)
from budgets.queries import midnight, today
from budgets.services import follow_ups
from portal.decision_log import DECIDED, decisions, keys
from portal.forms.reviews import AnswerFollowUpForm
from portal.pages import Once, Page, day_named, new_action, render_page, whole_number
from portal.views.node import node_named
from scheduler.queries import usage

PER_PAGE = 25


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
            raise Http404(gettext("There is no such page of decisions."))
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


class DecisionPage(Once):
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
            raise Http404(gettext("Nobody asks whether {row} worked: it isn't in force.").format(row=row))
        address = reverse("decision", args=[row.pk])
        form = AnswerFollowUpForm(request.POST)
        answer, status = self.once(
            request,
            form,
            address,
            gettext("Your answer stands with the decision."),
            lambda said: follow_ups.answer(
                follow_up=asked, verdict=said["verdict"], text=said["text"], by=person, books_of=books_of
            ),
        )
        return answer or self.show(request, row, form, status)

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
        raise Http404(gettext("There is no decision D{number}.").format(number=number))
    return row


def decider_named(text: str) -> Person:
    """Who decided, by id.

    Raises:
        BadRequest: no such person.
    """
    found = (
        Person.objects.filter(pk=int(text)).first() if text.isascii() and text.isdigit() and len(text) < 10 else None
    )
    if found is None:
        raise BadRequest(gettext("by: {text!r} is nobody's id").format(text=text))
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
    "entitled": gettext_lazy("entitled"),
    "delivered": gettext_lazy("delivered"),
    "borrowed": gettext_lazy("of it borrowed"),
    "owed": gettext_lazy("owed"),
    "not_delivered": gettext_lazy("owed, not delivered"),
    "not_asked": gettext_lazy("not asked for"),
}
"""What is compared, in words."""


def compared(figures: dict[str, Any]) -> list[tuple[str, list[tuple[str, int, int]]]]:
    """By node: what, before, after, in thousandths of the unit times seconds."""
    return [
        (code, [(str(words), sides["before"][name], sides["after"][name]) for name, words in FIGURES.items()])
        for code, sides in figures["nodes"].items()
    ]
