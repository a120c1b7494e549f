"""People over the API: who there is, who comes and goes, who decides for whom, and how the organisation decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from budgets import models
from budgets.authority import may
from budgets.models import BudgetNode, Delegation, Person, Role, RoleGrant
from budgets.queries import in_force, today
from budgets.services import delegations, people, requests
from portal.api import filters
from portal.api.base import Api, Pages
from portal.api.given import (
    BasisPoints,
    Code,
    Day,
    Reasoned,
    UserName,
    Why,
    day,
    node_given,
    person_given,
    versioned,
)
from portal.api.problems import Strict
from portal.api.scopes import DECIDE
from portal.api.serializers import moment
from portal.views.people import person_numbered

# --- what it takes ----------------------------------------------------------------------------------------------------


class ReasonIn(Strict):
    """Why; it goes to the ledger."""

    reason = Why()


class DelegationIn(Strict):
    """Who decides for you, where you are a manager, on the organisation's days [valid_from, valid_until)."""

    delegate = UserName()
    node = Code()
    limit_basis_points = BasisPoints(min_value=1, help_text="of the node, moved by one decision")
    valid_from = Day(required=False, help_text="today unless said")
    valid_until = Day(help_text="the first day on which you decide again yourself")


class EndDelegationIn(Strict):
    """Why it is taken back, if one likes to say."""

    reason = Why(required=False, allow_blank=True)


class HouseIn(Reasoned):
    """What is different; what isn't named stays."""

    root_rule = serializers.ChoiceField(choices=models.House.RootRule.values, required=False)
    answer_days = serializers.IntegerField(min_value=1, max_value=60, required=False)
    look_again_weeks = serializers.IntegerField(min_value=1, max_value=52, required=False)


# --- what it gives ----------------------------------------------------------------------------------------------------


class HeldRoleOut(serializers.Serializer):
    """A role in force today, and where; what is below the node is included."""

    node = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.values)
    valid_from = serializers.DateField()
    valid_until = serializers.DateField(allow_null=True)


class PersonOut(serializers.Serializer):
    """Somebody. Elsewhere in the API people are named by their user name."""

    number = serializers.IntegerField()
    username = serializers.CharField()
    name = serializers.CharField()
    is_active = serializers.BooleanField(help_text="whether they can sign in")
    roles = HeldRoleOut(many=True)


class DelegationOut(serializers.Serializer):
    """Who decides for whom; `ended_at` where it was taken back."""

    number = serializers.IntegerField()
    giver = serializers.CharField()
    delegate = serializers.CharField()
    node = serializers.CharField()
    limit_basis_points = serializers.IntegerField()
    valid_from = serializers.DateField()
    valid_until = serializers.DateField()
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class HouseOut(serializers.Serializer):
    """How the organisation decides."""

    root_rule = serializers.ChoiceField(
        choices=models.House.RootRule.values, help_text="who decides what raises a part of its author's, at the root"
    )
    answer_days = serializers.IntegerField(help_text="unanswered for so long, a request goes one level up")
    look_again_weeks = serializers.IntegerField(help_text="until it is asked whether a decision worked")
    version = serializers.IntegerField()


def people_out(rows: Sequence[Person]) -> list[dict[str, Any]]:
    """PersonOut of each. One query, however many they are."""
    held: dict[int, list[RoleGrant]] = {row.pk: [] for row in rows}
    grants = RoleGrant.objects.filter(in_force(today()), person__in=list(held)).select_related("node")
    for grant in grants.order_by("node__path", "role"):
        held[grant.person_id].append(grant)
    return [
        {
            "number": row.pk,
            "username": row.username,
            "name": str(row),
            "is_active": row.is_active,
            "roles": [
                {
                    "node": grant.node.code,
                    "role": grant.role,
                    "valid_from": day(grant.valid_from),
                    "valid_until": day(grant.valid_until),
                }
                for grant in held[row.pk]
            ],
        }
        for row in rows
    ]


def delegation_out(row: Delegation) -> dict[str, Any]:
    """DelegationOut."""
    return {
        "number": row.pk,
        "giver": row.giver.username,
        "delegate": row.delegate.username,
        "node": row.node.code,
        "limit_basis_points": row.limit_basis_points,
        "valid_from": day(row.valid_from),
        "valid_until": day(row.valid_until),
        "created_at": moment(row.created_at),
        "ended_at": moment(row.ended_at),
    }


def house_out(row: models.House) -> dict[str, Any]:
    """HouseOut."""
    return {name: getattr(row, name) for name in ("root_rule", "answer_days", "look_again_weeks", "version")}


# --- people -----------------------------------------------------------------------------------------------------------


class ByUserName(Pages):
    """By user name."""

    ordering = ("username",)


class People(Api):
    """Everybody, with their roles, so that one finds who decides what."""

    filters = (
        filters.text("find", "part of the name or the user name"),
        filters.text("node", "with a role at this very budget node", at_most=16),
        filters.one_of("role", "with this role, there or anywhere", Role.values),
        filters.flag("active", "only those who can sign in, or only those who can't"),
    )
    out = PersonOut
    pagination_class = ByUserName

    @extend_schema(responses=PersonOut(many=True))
    def get(self, request: Request) -> Response:
        """By user name."""
        asked, rows = self.asked(), Person.objects.all()
        if asked["find"]:
            rows = rows.filter(Q(display_name__icontains=asked["find"]) | Q(username__icontains=asked["find"]))
        if asked["active"] is not None:
            rows = rows.filter(is_active=asked["active"])
        if asked["node"] is not None or asked["role"]:
            grants = RoleGrant.objects.filter(in_force(today()))
            grants = grants if asked["node"] is None else grants.filter(node=node_given(asked["node"]))
            grants = grants.filter(role=asked["role"]) if asked["role"] else grants
            rows = rows.filter(pk__in=grants.values("person"))
        return self.page(rows, people_out)


class OnePerson(Api):
    """What the views of one person share."""

    out: type[serializers.Serializer] | None = PersonOut

    def answer(self, row: Person) -> Response:
        """The person as they are now."""
        return Response(people_out([Person.objects.get(pk=row.pk)])[0])


class PersonDetail(OnePerson):
    """One person."""

    @extend_schema(responses=PersonOut)
    def get(self, request: Request, number: int) -> Response:
        """With their roles of today."""
        return self.answer(person_numbered(number))


class Disable(OnePerson):
    """Disabling somebody."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=ReasonIn, responses=PersonOut)
    def post(self, request: Request, number: int) -> Response:
        """They can't sign in any more; sessions, tokens and delegations end. Administrators may, but not themselves."""
        row, said = person_numbered(number), self.read(ReasonIn(data=request.data))
        people.disable(person=row, by=self.person(), reason=said["reason"])
        return self.answer(row)


class Enable(OnePerson):
    """Enabling somebody."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=ReasonIn, responses=PersonOut)
    def post(self, request: Request, number: int) -> Response:
        """They can sign in again. Administrators may."""
        row, said = person_numbered(number), self.read(ReasonIn(data=request.data))
        people.enable(person=row, by=self.person(), reason=said["reason"])
        return self.answer(row)


class Erase(OnePerson):
    """Erasing somebody's name."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=ReasonIn, responses=PersonOut)
    def post(self, request: Request, number: int) -> Response:
        """Of somebody who has left, for good; no entry of the ledger is touched. Administrators may."""
        row, said = person_numbered(number), self.read(ReasonIn(data=request.data))
        people.erase_name(person=row, by=self.person(), reason=said["reason"])
        return self.answer(row)


# --- delegations ------------------------------------------------------------------------------------------------------


class LatestDelegationFirst(Pages):
    """Those that were given last first."""

    ordering = ("-pk",)


class Delegations(Api):
    """Who decides for me while I am away, and for whom I do."""

    scopes = {"POST": DECIDE}
    filters = (filters.flag("in_force", "only those in force today, or only the others"),)
    out = DelegationOut
    pagination_class = LatestDelegationFirst

    @extend_schema(responses=DelegationOut(many=True))
    def get(self, request: Request) -> Response:
        """Those that you gave or hold, the latest first."""
        rows, wanted = mine(self.person()), self.asked()["in_force"]
        if wanted is not None:
            holds = in_force(today()) & Q(ended_at=None)
            rows = rows.filter(holds) if wanted else rows.exclude(holds)
        return self.page(rows, lambda shown: map(delegation_out, shown))

    @extend_schema(request=DelegationIn, responses={201: DelegationOut})
    def post(self, request: Request) -> Response:
        """Let somebody decide for you, up to so much at once."""
        said = self.read(DelegationIn(data=request.data))
        made = delegations.give(
            giver=self.person(),
            delegate=person_given(said["delegate"], "delegate"),
            node=node_given(said["node"]),
            limit_basis_points=said["limit_basis_points"],
            valid_from=said.get("valid_from") or today(),
            valid_until=said["valid_until"],
        )
        return Response(delegation_out(mine(self.person()).get(pk=made.pk)), status=201)


def mine(person: Person) -> QuerySet[Delegation]:
    """The delegations that the person gave or holds."""
    return with_all(Delegation.objects.filter(Q(giver=person) | Q(delegate=person)))


def with_all(rows: QuerySet[Delegation]) -> QuerySet[Delegation]:
    """With what is given of them."""
    return rows.select_related("giver", "delegate", "node")


class EndDelegation(Api):
    """Taking a delegation back."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=EndDelegationIn, responses=DelegationOut)
    def post(self, request: Request, number: int) -> Response:
        """At once. Who gave it may, who holds it, and administrators."""
        is_anybodys = may(self.person(), "person.change")
        found = (with_all(Delegation.objects.all()) if is_anybodys else mine(self.person())).filter(pk=number).first()
        if found is None:
            raise Http404(gettext("There is no delegation {number} of yours.").format(number=number))
        said = self.read(EndDelegationIn(data=request.data))
        delegations.end(delegation=found, by=self.person(), reason=said.get("reason") or "taken back")
        return Response(delegation_out(with_all(Delegation.objects.all()).get(pk=number)))


# --- the house --------------------------------------------------------------------------------------------------------


class House(Api):
    """How the organisation decides."""

    scopes = {"PATCH": DECIDE}
    out = HouseOut
    matches = ("PATCH",)

    @extend_schema(responses=HouseOut)
    def get(self, request: Request) -> Response:
        """As it is now."""
        row = requests.house()
        return versioned(house_out(row), row.version)

    @extend_schema(request=HouseIn, responses=HouseOut)
    def patch(self, request: Request) -> Response:
        """Choose. Its managers may."""
        root = BudgetNode.objects.filter(parent=None).first()
        if root is None or not may(self.person(), "house.change", root):
            raise PermissionDenied(gettext("This is for the managers of the organisation to choose."))
        said, row = self.read(HouseIn(data=request.data)), requests.house()
        version = self.version_said(said)
        chosen = {name: said.get(name, getattr(row, name)) for name in ("root_rule", "answer_days", "look_again_weeks")}
        changed = delegations.change_house(
            root=root,
            by=self.person(),
            reason=said["reason"],
            version=row.version if version is None else version,
            **chosen,
        )
        return versioned(house_out(changed), changed.version)
