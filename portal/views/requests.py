"""Requests: those that one sees, writing one, and what lies on one's desk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from budgets import desks
from budgets.authority import INSIDE_ROLES, may, nodes_with, roles_of, stands_in_at
from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster, Delegation, Person, Reallocation, Request, Role, State
from budgets.queries import entitlement_on, in_force, today
from budgets.services import requests
from budgets.services.reallocation_rows import shares_on
from portal import formats
from portal.clusters import sizes_milli
from portal.forms.requests import RequestForm
from portal.pages import (
    Page,
    choice,
    clusters,
    new_action,
    prefilled,
    render_page,
    spend,
    spent_on,
    status_of,
    whole_number,
)
from scheduler.queries import usage
from scheduler.queries.review_figures import useful_milli_s

PER_PAGE = 50
LOOKED_AT = timedelta(days=28)
"""The time of the asker's own figures."""
STATES = {"open": gettext_lazy("open"), "decided": gettext_lazy("decided"), "all": gettext_lazy("all")}


def visible(person: Person) -> QuerySet[Request]:
    """The requests that the person may see. No query yet."""
    mine = Q(author=person)
    operates = Role.OPERATOR in {role for _, role in roles_of(person)}
    inside = Q(node__path__overlap=nodes_with(person, INSIDE_ROLES))
    theirs = Q() if operates else inside | Q(desk__path__overlap=list(stands_in_at(person)))
    return Request.objects.filter(mine | (theirs & ~Q(state=State.DRAFT)))


def on_desk(person: Person) -> tuple[list[Request], list[Reallocation]]:
    """What waits for this person's decision: in their own right at the very desk, or as a delegate. Drafts never."""
    own = nodes_with(person, [Role.MANAGER])
    known = desks.Known()
    known.expect([person])
    held = {each.node_id for each in known.delegations(person)}
    at = Q(desk__in=own) | Q(desk__path__overlap=list(held))
    asked = Request.objects.filter(at, state=State.SUBMITTED).select_related(
        "node", "parent", "desk__parent", "cluster", "author", "upper"
    )
    proposed = (
        Reallocation.objects.filter(at, state=State.SUBMITTED)
        .select_related("parent", "desk__parent", "cluster", "author")
        .prefetch_related("lines__node")
    )
    order = ("answer_by", "pk")
    return (
        [each for each in asked.order_by(*order) if desks.ways_to_decide(person, desks.matter_of(each), known)],
        [each for each in proposed.order_by(*order) if desks.ways_to_decide(person, desks.matter_of(each), known)],
    )


class OnDesk(Page):
    """What waits for me."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Requests and proposals, the most urgent first."""
        person: Person = request.user  # type: ignore[assignment]
        asked, proposed = on_desk(person)
        delegated = Delegation.objects.filter(in_force(today()), delegate=person, ended_at=None)
        context = {
            "here": "desk",
            "asked": asked,
            "proposed": proposed,
            "count": len(asked) + len(proposed),
            "delegations": delegated.select_related("giver", "node"),
        }
        return render_page(request, "desk", context)


class Requests(Page):
    """All that one may see, open ones first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """A page of them."""
        person: Person = request.user  # type: ignore[assignment]
        state = choice(request, "state", STATES, "open")
        rows = visible(person).select_related("node", "parent", "desk", "cluster", "author", "decided_by")
        is_open = Q(state__in=[State.DRAFT, State.SUBMITTED, State.RETURNED])
        rows = rows.filter(is_open) if state == "open" else rows.exclude(is_open) if state == "decided" else rows
        pages = Paginator(rows.order_by("-pk"), PER_PAGE)
        number = whole_number(request, "page", 1)
        if number > max(1, pages.num_pages):
            raise Http404(gettext("There is no such page of requests."))
        context = {
            "here": "requests",
            "rows": pages.page(number).object_list,
            "number": number,
            "pages": pages.num_pages,
            "count": pages.count,
            "state": state,
            "states": STATES,
            "may_ask": askable(person).exists(),
        }
        return render_page(request, "requests", context)


@dataclass(frozen=True, slots=True)
class Figures:
    """The asker's own figures on one cluster: what the node has and what came of it in the last weeks."""

    basis_points: int
    units: Any
    books: usage.Books
    useful_milli_s: int
    parent_unassigned: int

    def plain(self) -> dict[str, int]:
        """As they are kept with the request, in whole numbers."""
        return {
            "basis_points": self.basis_points,
            "entitled_milli_s": self.books.entitled_milli_s,
            "delivered_milli_s": self.books.charged_milli_s,
            "borrowed_milli_s": self.books.borrowed_milli_s,
            "useful_milli_s": self.useful_milli_s,
            "owed_milli_s": self.books.owed_milli_s,
            "not_delivered_milli_s": self.books.not_delivered_milli_s,
            "not_asked_milli_s": self.books.not_asked_milli_s,
            "days": LOOKED_AT.days,
        }


def figures_of(node: BudgetNode, cluster: Cluster) -> Figures:
    """What the node is entitled to and got. A few queries, however large the tree."""
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    assert node.parent is not None
    given = shares_on(node.parent, cluster, today())
    size = Fraction(sizes_milli().get(cluster.pk, 0), formats.MILLI)
    return Figures(
        basis_points=given.get(node.pk, 0),
        units=entitlement_on(node, cluster, today()) * size,
        books=usage.totals([node], cluster, end - LOOKED_AT, end)[node.pk],
        useful_milli_s=useful_milli_s([node], cluster, end - LOOKED_AT, end).get(node.pk, 0),
        parent_unassigned=10_000 - sum(given.values()),
    )


def askable(person: Person) -> QuerySet[BudgetNode]:
    """The open nodes for which the person may ask for more: where they are a member or manager, but the root."""
    at = nodes_with(person, [Role.MEMBER, Role.MANAGER])
    return BudgetNode.objects.filter(path__overlap=at, closed_at=None, parent__isnull=False).order_by("path")


class WriteRequest(Page):
    """A new request, or a draft or returned one of one's own."""

    def get(self, request: HttpRequest, number: int | None = None) -> HttpResponse:
        """The form; what the node has and got stands beside it."""
        person: Person = request.user  # type: ignore[assignment]
        row = self.row(person, number)
        nodes, among = self.places(person)
        initial: dict[str, Any] = {"action": new_action(), "starts_on": today()}
        if row is not None:
            initial |= {
                "version": row.version,
                "node": row.node.code,
                "cluster": row.cluster.name,
                "more": formats.share(row.more_basis_points),
                **{name: getattr(row, name) for name in ("starts_on", "ends_on", "useless_on", "why", "otherwise")},
            }
        else:
            known = [node.code for node in nodes]
            initial["node"] = prefilled(request, "node", known) or _first(person, nodes).code
            initial["cluster"] = prefilled(request, "cluster", [each.name for each in among], among[0].name)
        return self.show(request, RequestForm(nodes=nodes, clusters=among, initial=initial), row, nodes, among)

    def post(self, request: HttpRequest, number: int | None = None) -> HttpResponse:
        """Keep it as a draft or submit it, once."""
        person: Person = request.user  # type: ignore[assignment]
        before = spent_on(request, request.POST.get("action", ""))
        if before is not None:
            messages.info(request, gettext("This had been sent already; nothing was changed again."))
            return HttpResponseRedirect(before)
        row = self.row(person, number)
        nodes, among = self.places(person)
        data = request.POST.copy()
        does_submit = data.pop("submit", None) is not None
        form = RequestForm(data, nodes=nodes, clusters=among)
        status = 400
        if form.is_valid():
            try:
                done = self.keep(person, row, form, nodes, among, does_submit)
            except InputError as error:
                form.take(error)
                status = status_of(error)
            else:
                led_to = reverse("request", args=[done.pk])
                spend(request, form.cleaned_data["action"], led_to)
                words = (
                    gettext("It lies on the desk of {desk} now.").format(desk=done.desk.code)
                    if does_submit
                    else gettext("Nobody but you sees it yet.")
                )
                messages.info(request, f"{done} is {done.state}. {words}")
                return HttpResponseRedirect(led_to)
        return self.show(request, form, row, nodes, among, status)

    def keep(
        self, person: Person, row: Request | None, form: RequestForm, nodes: Any, among: Any, does_submit: bool
    ) -> Request:
        """Write the draft down, and submit it where that was the button; both or nothing."""
        said = form.cleaned_data
        node = next(each for each in nodes if each.code == said["node"])
        cluster = next(each for each in among if each.name == said["cluster"])
        fields = {name: said[name] for name in ("starts_on", "ends_on", "useless_on", "why", "otherwise")}
        with transaction.atomic():
            if row is None:
                kept = requests.draft(node=node, cluster=cluster, more_basis_points=said["more"], by=person, **fields)
            else:
                kept = requests.edit(
                    request=row, node=node, cluster=cluster, more_basis_points=said["more"], by=person,
                    version=said["version"], **fields,
                )  # fmt: skip
            if does_submit:
                return requests.submit(request=kept, by=person, figures=figures_of(node, cluster).plain())
            return kept

    def places(self, person: Person) -> tuple[list[BudgetNode], list[Cluster]]:
        """For which nodes and on which clusters one may ask.

        Raises:
            PermissionDenied: for none.
        """
        nodes = list(askable(person).select_related("parent"))
        if not nodes:
            raise PermissionDenied(gettext("You have no part in any budget, so there is none to ask more for."))
        return nodes, clusters()

    def row(self, person: Person, number: int | None) -> Request | None:
        """One's own, that can still be changed.

        Raises:
            Http404: there is none.
        """
        if number is None:
            return None
        rows = Request.objects.filter(pk=number, author=person, state__in=[State.DRAFT, State.RETURNED])
        row = rows.select_related("node__parent", "cluster").first()
        if row is None:
            raise Http404(gettext("There is no draft R{number} of yours.").format(number=number))
        return row

    def show(
        self, request: HttpRequest, form: RequestForm, row: Request | None, nodes: Any, among: Any, status: int = 200
    ) -> HttpResponse:
        """The page, with the figures of the node that is chosen."""
        person: Person = request.user  # type: ignore[assignment]
        value = form["node"].value()
        node = next((each for each in nodes if each.code == value), nodes[0])
        cluster = next((each for each in among if each.name == form["cluster"].value()), among[0])
        context = {
            "here": "requests",
            "form": form,
            "row": row,
            "node": node,
            "cluster": cluster,
            "figures": figures_of(node, cluster),
            "lead_could": may(person, "share.change", node.parent),
            "days": LOOKED_AT.days,
        }
        return render_page(request, "request_form", context, status=status)


def _first(person: Person, nodes: list[BudgetNode]) -> BudgetNode:
    """The node that a person most likely asks for: the first in which they themselves have a role."""
    own = set(nodes_with(person, [Role.MEMBER, Role.MANAGER]))
    return next((node for node in nodes if node.pk in own), nodes[0])
