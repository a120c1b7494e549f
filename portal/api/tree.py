"""The budget tree over the API: its nodes, what becomes of them, the roles at them, and their children's shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from budgets import desks
from budgets.authority import may
from budgets.models import BudgetNode, Cluster, Role, RoleGrant, Share
from budgets.queries import in_force, today
from budgets.services import reallocations, roles, tree
from portal.api import filters
from portal.api.base import Api, Pages
from portal.api.given import (
    Code,
    Day,
    Reasoned,
    Shares,
    UserName,
    Why,
    acting_for,
    day,
    name_of,
    node_given,
    person_given,
    shares_given,
    versioned,
)
from portal.api.problems import Strict
from portal.api.scopes import DECIDE
from portal.api.serializers import ShareOut, moment, share
from portal.pages import cluster_named, clusters
from portal.views.node import node_named

KINDS = [kind for kind in BudgetNode.Kind.values if kind != BudgetNode.Kind.ORGANISATION]

# --- what it takes ----------------------------------------------------------------------------------------------------


class ChildIn(Strict):
    """A new node, with no share yet."""

    code = Code(help_text="short and for life")
    name = serializers.CharField(max_length=120)
    kind = serializers.ChoiceField(choices=KINDS)
    colour = serializers.IntegerField(min_value=0, max_value=8, default=0, help_text="1 to 8 for life; 0 is other")
    reason = Why()


class RenameIn(Reasoned):
    """Another name."""

    name = serializers.CharField(max_length=120)


class MoveIn(Reasoned):
    """Another parent, by code."""

    parent = Code()  # type: ignore[assignment]


class GrantIn(Strict):
    """A role for somebody, on the organisation's days [valid_from, valid_until)."""

    person = UserName()
    role = serializers.ChoiceField(choices=Role.values)
    valid_from = Day(required=False, help_text="today unless said")
    valid_until = Day(allow_null=True, default=None, help_text="the first day without it; null is for good")
    reason = Why()


class EndRoleIn(Strict):
    """The first day without it; today unless said."""

    on = Day(required=False)
    reason = Why()


class SetShares(Reasoned):
    """Children's shares from a day on; others keep theirs. The version is the parent's."""

    shares = Shares()
    valid_from = Day()
    valid_until = Day(allow_null=True, default=None, help_text="the first day without them; null is for good")
    acting_for = UserName(required=False, allow_blank=True)
    look_again_on = Day(allow_null=True, default=None, help_text="when it is asked whether it worked")


# --- what it gives ----------------------------------------------------------------------------------------------------


class BudgetOut(serializers.Serializer):
    """A node of the budget tree. `version` is what changes of it, and of its children's shares, are made from."""

    code = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=BudgetNode.Kind.values)
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]
    path = serializers.ListField(child=serializers.CharField(), help_text="codes from the root to the node itself")
    colour = serializers.IntegerField()
    children_count = serializers.IntegerField(help_text="closed ones included")
    is_closed = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    closed_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField()


class RoleOut(serializers.Serializer):
    """Somebody's role at a node, on the organisation's days [valid_from, valid_until)."""

    number = serializers.IntegerField()
    person = serializers.CharField()
    node = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.values)
    valid_from = serializers.DateField()
    valid_until = serializers.DateField(allow_null=True)
    granted_by = serializers.CharField(allow_null=True)


def budgets_out(rows: Sequence[BudgetNode]) -> list[dict[str, Any]]:
    """BudgetOut of each. Two queries, however many they are."""
    above = {pk for row in rows for pk in row.path}
    codes = dict(BudgetNode.objects.filter(pk__in=above).values_list("pk", "code"))
    below = BudgetNode.objects.filter(parent__in=rows).order_by().values_list("parent")
    children = dict(below.annotate(count=Count("pk")))
    return [
        {
            "code": row.code,
            "name": row.name,
            "kind": row.kind,
            "parent": codes[row.parent_id] if row.parent_id else None,
            "path": [codes[pk] for pk in row.path],
            "colour": row.colour,
            "children_count": children.get(row.pk, 0),
            "is_closed": row.is_closed,
            "created_at": moment(row.created_at),
            "closed_at": moment(row.closed_at),
            "version": row.version,
        }
        for row in rows
    ]


def role_out(row: RoleGrant) -> dict[str, Any]:
    """RoleOut."""
    return {
        "number": row.pk,
        "person": row.person.username,
        "node": row.node.code,
        "role": row.role,
        "valid_from": day(row.valid_from),
        "valid_until": day(row.valid_until),
        "granted_by": name_of(row.granted_by),
    }


# --- nodes ------------------------------------------------------------------------------------------------------------


def shown_budget(pk: int, status: int = 200) -> Response:
    """The node as it is now; a new one says where it is."""
    row = BudgetNode.objects.get(pk=pk)
    [body] = budgets_out([row])
    headers = {"Location": reverse("api-budget", args=[row.code])} if status == 201 else {}
    return versioned(body, row.version, status=status, headers=headers)


class Budget(Api):
    """A node of the budget tree."""

    out = BudgetOut

    @extend_schema(responses=BudgetOut)
    def get(self, request: Request, code: str) -> Response:
        """As it is now."""
        return shown_budget(node_named(code).pk)


class ByCode(Pages):
    """By code."""

    ordering = ("code",)


class Children(Api):
    """The children of a node."""

    scopes = {"POST": DECIDE}
    filters = (filters.flag("closed", "only those that are closed, or only those that are not"),)
    out = BudgetOut
    pagination_class = ByCode

    @extend_schema(responses=BudgetOut(many=True))
    def get(self, request: Request, code: str) -> Response:
        """By code."""
        rows, is_closed = BudgetNode.objects.filter(parent=node_named(code)), self.asked()["closed"]
        if is_closed is not None:
            rows = rows.filter(closed_at__isnull=not is_closed)
        return self.page(rows, budgets_out)

    @extend_schema(request=ChildIn, responses={201: BudgetOut})
    def post(self, request: Request, code: str) -> Response:
        """Add one. If work was submitted to the node itself, that moves to a closed child first."""
        parent, said = node_named(code), self.read(ChildIn(data=request.data))
        return shown_budget(tree.add_child(parent=parent, by=self.person(), **said).pk, 201)


class Rename(Api):
    """Another name for a node."""

    scopes = {"POST": DECIDE}
    matches = ("POST",)

    @extend_schema(request=RenameIn, responses=BudgetOut)
    def post(self, request: Request, code: str) -> Response:
        """Its code, the ids of its workloads and its past stay."""
        node, said = node_named(code), self.read(RenameIn(data=request.data))
        version = self.version_said(said)
        tree.rename(node=node, name=said["name"], by=self.person(), reason=said["reason"], version=version)
        return shown_budget(node.pk)


class Move(Api):
    """Another parent for a node."""

    scopes = {"POST": DECIDE}
    matches = ("POST",)

    @extend_schema(request=MoveIn, responses=BudgetOut)
    def post(self, request: Request, code: str) -> Response:
        """With all below it. Its shares end with the day; the managers of the new parent give it new ones."""
        node, said = node_named(code), self.read(MoveIn(data=request.data))
        version, target = self.version_said(said), node_given(said["parent"], "parent")
        tree.move(node=node, parent=target, by=self.person(), reason=said["reason"], version=version)
        return shown_budget(node.pk)


class Close(Api):
    """The end of a node."""

    scopes = {"POST": DECIDE}
    matches = ("POST",)

    @extend_schema(request=Reasoned, responses=BudgetOut)
    def post(self, request: Request, code: str) -> Response:
        """Of it and all below it: nothing new is taken, what is queued is held, what runs goes on."""
        node, said = node_named(code), self.read(Reasoned(data=request.data))
        tree.close(node=node, by=self.person(), reason=said["reason"], version=self.version_said(said))
        return shown_budget(node.pk)


# --- roles ------------------------------------------------------------------------------------------------------------


class LatestRoleFirst(Pages):
    """Those that were given last first."""

    ordering = ("-pk",)


class Roles(Api):
    """Who has which role at a node."""

    scopes = {"POST": DECIDE}
    filters = (
        filters.one_of("role", "of this role", Role.values),
        filters.text("person", "of this person, by user name", at_most=150),
        filters.flag("over", "true: also those that are over"),
    )
    out = RoleOut
    pagination_class = LatestRoleFirst

    @extend_schema(responses=RoleOut(many=True))
    def get(self, request: Request, code: str) -> Response:
        """At this very node, those to come included."""
        rows, asked = RoleGrant.objects.filter(node=node_named(code)), self.asked()
        if asked["role"]:
            rows = rows.filter(role=asked["role"])
        if asked["person"] is not None:
            rows = rows.filter(person=person_given(asked["person"], "person", may_be_gone=True))
        if not asked["over"]:
            rows = rows.exclude(valid_until__lte=today())
        return self.page(rows.select_related("person", "node", "granted_by"), lambda shown: map(role_out, shown))

    @extend_schema(request=GrantIn, responses={201: RoleOut})
    def post(self, request: Request, code: str) -> Response:
        """Give one. Nobody gives themselves a role."""
        node, said = node_named(code), self.read(GrantIn(data=request.data))
        person = person_given(said.pop("person"), "person")
        first = said.pop("valid_from", None) or today()
        made = roles.grant(person=person, node=node, valid_from=first, by=self.person(), **said)
        return Response(role_out(made), status=201)


class EndRole(Api):
    """The end of a role."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=EndRoleIn, responses=RoleOut)
    def post(self, request: Request, code: str, grant: int) -> Response:
        """Before the day `on`; a role that would have begun later never holds, and is gone."""
        found = RoleGrant.objects.filter(node=node_named(code), pk=grant).select_related("node", "person").first()
        if found is None:
            raise Http404(gettext("{code} has no such role.").format(code=code))
        said = self.read(EndRoleIn(data=request.data))
        ended = roles.end(grant=found, on=said.get("on") or today(), by=self.person(), reason=said["reason"])
        if ended.pk is None:
            ended.pk, ended.valid_until = grant, ended.valid_from
        return Response(role_out(ended))


# --- shares -----------------------------------------------------------------------------------------------------------


class SharesOf(Api):
    """The shares of a node's children on a cluster; whoever may divide the node sets them."""

    scopes = {"POST": DECIDE}
    filters = (filters.day("as_of", "only those that hold on this day"),)
    out = ShareOut
    matches = ("POST",)

    @extend_schema(responses=ShareOut(many=True))
    def get(self, request: Request, cluster: str, code: str) -> Response:
        """All dates unless `as_of` names one; not paged. The ETag is the version that a change is made from."""
        on = self.asked()["as_of"]
        node, where = node_named(code), cluster_named(cluster, clusters())
        rows = self.rows(node, where)
        return self.shown(node, rows if on is None else rows.filter(in_force(on)))

    @extend_schema(request=SetShares, responses=ShareOut(many=True))
    def post(self, request: Request, cluster: str, code: str) -> Response:
        """Decide them from a day on; others keep theirs. It is a decision, and stands in the log as one."""
        node, where = node_named(code), cluster_named(cluster, clusters())
        self.refuse_others(node)
        said = self.read(SetShares(data=request.data))
        reallocations.apply_directly(
            parent=node,
            cluster=where,
            shares=shares_given(node, said["shares"]),
            starts_on=said["valid_from"],
            ends_on=said["valid_until"],
            by=self.person(),
            reason=said["reason"],
            acting_for=acting_for(said),
            look_again_on=said["look_again_on"],
            version=self.version_said(said),
        )
        node.refresh_from_db()
        return self.shown(node, self.rows(node, where))

    def refuse_others(self, node: BudgetNode) -> None:
        """Nothing, if the person may divide the node, in their own right or for somebody.

        Raises:
            PermissionDenied: they may not.
        """
        if not may(self.person(), "share.change", node) and not desks.delegations_of(self.person(), node):
            raise PermissionDenied(
                gettext("The shares of {code} are for its managers to change.").format(code=node.code)
            )

    def rows(self, node: BudgetNode, cluster: Cluster) -> QuerySet[Share]:
        """Of the node's children, in order."""
        rows = Share.objects.filter(parent=node, cluster=cluster)
        return rows.select_related("node").order_by("node__code", "valid_from")

    def shown(self, node: BudgetNode, rows: QuerySet[Share]) -> Response:
        """With the node's version."""
        return versioned([share(each) for each in rows], node.version)
