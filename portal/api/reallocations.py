"""Reallocations over the API: drafting shares, proposing or applying them, and answering what others propose."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from budgets import desks, models
from budgets.authority import INSIDE_ROLES, nodes_with, roles_of, stands_in_at
from budgets.models import Reallocation, ReallocationLine, Role, State
from budgets.queries import today
from budgets.services import reallocations, request_rows
from portal.api.base import Api
from portal.api.given import Versioned, acting_for, cluster_given, node_given, shares_given, versioned
from portal.api.reallocations_out import (
    ApplyIn,
    ReallocationAnswer,
    ReallocationChange,
    ReallocationIn,
    ReallocationOut,
    reallocations_out,
    with_all,
)
from portal.api.requests import FILTERS, Comments, LatestFirst, chosen, looked_at
from portal.api.scopes import DECIDE
from portal.views.reallocation import reallocation_numbered
from portal.views.request import request_numbered

DECIDED = (State.APPROVED, State.APPLIED)


def visible(person: models.Person) -> QuerySet[Reallocation]:
    """The reallocations that the person may see. No query yet."""
    operates = Role.OPERATOR in {role for _, role in roles_of(person)}
    inside = Q(parent__path__overlap=nodes_with(person, INSIDE_ROLES))
    theirs = Q() if operates else inside | Q(desk__path__overlap=list(stands_in_at(person)))
    mine = Q(author=person) | Q(state__in=DECIDED)
    return Reallocation.objects.filter(mine | (theirs & ~Q(state=State.DRAFT)))


def waiting_for(person: models.Person) -> Q:
    """The proposals on a desk of the person's that they may decide, in their own right or for somebody."""
    known = desks.Known()
    known.expect([person])
    theirs = Q(desk__in=nodes_with(person, [Role.MANAGER]))
    for each in known.delegations(person):
        theirs |= Q(desk__path__contains=[each.node_id]) & ~_concerns(each.giver, known)
    return Q(state=State.SUBMITTED) & theirs & ~_concerns(person, known)


def _concerns(person: models.Person, known: desks.Known) -> Q:
    """What the person proposed, or what would raise a node in which they have a part."""
    raised = ReallocationLine.objects.filter(reallocation=OuterRef("pk"), after__gt=F("before"))
    is_theirs = Q(Exists(raised.filter(node__in=known.parts(person))))
    # nobody at all would make it unknown rather than false
    return is_theirs | Q(author=person) | Q(author_for__isnull=False, author_for=person)


class Reallocations(Api):
    """Reallocations: those that one may see, and drafting another."""

    scopes = {"POST": DECIDE}
    filters = FILTERS
    out = ReallocationOut
    pagination_class = LatestFirst

    @extend_schema(responses=ReallocationOut(many=True))
    def get(self, request: Request) -> Response:
        """The newest first; `node` is the one whose children are concerned."""
        person = self.person()
        rows = visible(person).filter(chosen(self.asked(), "parent__path", lambda: waiting_for(person)))
        return self.page(with_all(rows), lambda shown: reallocations_out(shown, person))

    @extend_schema(request=ReallocationIn, responses={201: ReallocationOut})
    def post(self, request: Request) -> Response:
        """Keep a draft, which nobody but you sees; then apply it where it is yours to decide, or propose it."""
        said = self.read(ReallocationIn(data=request.data))
        parent = node_given(said["parent"], "parent")
        made = reallocations.draft(
            parent=parent,
            cluster=cluster_given(said["cluster"]),
            shares=shares_given(parent, said["shares"]),
            starts_on=said.get("starts_on") or today(),
            ends_on=said["ends_on"],
            reason=said["reason"],
            by=self.person(),
            acting_for=acting_for(said),
            request=self.answered(said.get("request"), parent),
            version=said.get("parent_version"),
        )
        return shown_reallocation(self, made, 201)

    def answered(self, number: int | None, parent: models.BudgetNode) -> models.Request | None:
        """The request that it answers.

        Raises:
            ValidationError: there is none about this node's children for them to see.
        """
        if number is None:
            return None
        try:
            row = request_numbered(self.person(), number)
        except Http404 as error:
            raise ValidationError({"request": [str(error)]}) from None
        if row.parent_id != parent.pk:
            message = gettext("{row} asks for nothing of {parent}.").format(row=row, parent=parent.code)
            raise ValidationError({"request": [message]})
        return row


def shown_reallocation(view: Api, row: Reallocation, status: int = 200) -> Response:
    """The reallocation as it is now; a new one says where it is."""
    [body] = reallocations_out(list(with_all(Reallocation.objects.filter(pk=row.pk))), view.person())
    headers = {"Location": reverse("api-reallocation", args=[row.pk])} if status == 201 else {}
    return versioned(body, body["version"], status=status, headers=headers)


class OneReallocation(Api):
    """What the views of one reallocation share."""

    out = ReallocationOut
    matches = ("POST",)

    def row(self, number: int) -> Reallocation:
        """The reallocation, if the person may see it; else it is not there."""
        return reallocation_numbered(self.person(), number)

    def answered(self, row: Reallocation, said: dict[str, Any]) -> dict[str, Any]:
        """What every answer to a proposal says."""
        return {
            "reallocation": row,
            "by": self.person(),
            "reason": said["reason"],
            "acting_for": acting_for(said),
            "version": self.version_said(said, needed=False),
        }


class ReallocationDetail(OneReallocation):
    """One reallocation."""

    scopes = {"PATCH": DECIDE}
    matches = ("PATCH",)

    @extend_schema(responses=ReallocationOut)
    def get(self, request: Request, number: int) -> Response:
        """As it is now."""
        return shown_reallocation(self, self.row(number))

    @extend_schema(request=ReallocationChange, responses=ReallocationOut)
    def patch(self, request: Request, number: int) -> Response:
        """Change a draft of yours; its shares, where they are named, as a whole."""
        row, said = self.row(number), self.read(ReallocationChange(data=request.data))
        shares = shares_given(row.parent, said["shares"]) if "shares" in said else lines_of(row)
        reallocations.save_draft(
            reallocation=row,
            shares=shares,
            starts_on=said.get("starts_on", row.starts_on),
            ends_on=said.get("ends_on", row.ends_on),
            reason=said.get("reason", row.reason),
            by=self.person(),
            version=self.version_said(said),
        )
        return shown_reallocation(self, row)


class Propose(OneReallocation):
    """Proposing a draft."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=Versioned, responses=ReallocationOut)
    def post(self, request: Request, number: int) -> Response:
        """Lay your draft before the level above, since you have a part in what it raises."""
        row, said = self.row(number), self.read(Versioned(data=request.data))
        reallocations.propose(reallocation=row, by=self.person(), version=self.version_said(said, needed=False))
        return shown_reallocation(self, row)


class Apply(OneReallocation):
    """Applying a draft."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=ApplyIn, responses={201: ReallocationOut})
    def post(self, request: Request, number: int) -> Response:
        """Decide your draft: it becomes a decision with a number of its own, and answers the request that it names."""
        row, said = self.row(number), self.read(ApplyIn(data=request.data))
        request_rows.refuse_late(row, self.version_said(said, needed=False), (State.DRAFT,))
        made = reallocations.apply_directly(
            parent=row.parent,
            cluster=row.cluster,
            shares=lines_of(row),
            starts_on=max(row.starts_on, today()),
            ends_on=row.ends_on,
            by=self.person(),
            reason=said.get("reason") or row.reason,
            acting_for=row.author_for,
            version=said.get("parent_version", row.base_version),
            request=row.request,
            draft=row,
            look_again_on=said.get("look_again_on"),
            evidence=looked_at(self.person(), said),
        )
        return shown_reallocation(self, made, 201)


class Approve(OneReallocation):
    """Approving a proposal."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=ReallocationAnswer, responses=ReallocationOut)
    def post(self, request: Request, number: int) -> Response:
        """Decide what somebody else proposed."""
        row, said = self.row(number), self.read(ReallocationAnswer(data=request.data))
        reallocations.approve(**self.answered(row, said))
        return shown_reallocation(self, row)


class Deny(OneReallocation):
    """Denying a proposal."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=ReallocationAnswer, responses=ReallocationOut)
    def post(self, request: Request, number: int) -> Response:
        """Say no to what somebody else proposed, or object to it within its notice."""
        row, said = self.row(number), self.read(ReallocationAnswer(data=request.data))
        reallocations.deny(**self.answered(row, said))
        return shown_reallocation(self, row)


class Withdraw(OneReallocation):
    """Taking a draft or a proposal back."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=Versioned, responses=ReallocationOut)
    def post(self, request: Request, number: int) -> Response:
        """Your own may be taken back as long as it is not decided."""
        row, said = self.row(number), self.read(Versioned(data=request.data))
        reallocations.withdraw(reallocation=row, by=self.person(), version=self.version_said(said, needed=False))
        return shown_reallocation(self, row)


class ReallocationComments(Comments):
    """What is said to a reallocation."""

    scopes = {"POST": DECIDE}

    def on(self, number: int) -> models.Request | Reallocation:
        """What it is said to, if the person may see that."""
        return reallocation_numbered(self.person(), number)


def lines_of(row: Reallocation) -> dict[models.BudgetNode, int]:
    """The shares that it gives, by child."""
    return {line.node: line.after for line in row.lines.select_related("node")}
