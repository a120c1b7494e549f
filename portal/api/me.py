"""Who am I, for programs: a name, roles, and what the token that was shown may be used for."""

from __future__ import annotations

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.models import Role, RoleGrant
from budgets.queries import in_force, submittable_leaves, today
from portal.api.authentication import token_of
from portal.api.base import Api
from portal.api.scopes import ANY
from portal.api.tokens import TokenOut, one

LEAVES_MAX = 200


class RoleOut(serializers.Serializer):
    """A role in force."""

    role = serializers.ChoiceField(choices=Role.values)
    node = serializers.CharField(help_text="the code of the budget node; the role holds for all below it as well")
    node_name = serializers.CharField()
    valid_from = serializers.DateField()
    valid_until = serializers.DateField(allow_null=True, help_text="the first day without it")


class LeafOut(serializers.Serializer):
    """A budget node that one may submit to."""

    code = serializers.CharField()
    name = serializers.CharField()


class MeOut(serializers.Serializer):
    """Whoever asks."""

    id = serializers.IntegerField()
    username = serializers.CharField()
    display_name = serializers.CharField()
    roles = RoleOut(many=True)
    leaves = LeafOut(many=True, help_text="where one may submit to, by code; at most 200")
    token = TokenOut(allow_null=True, help_text="the token that this was asked with; null in a session")
    now = serializers.DateTimeField(help_text="the portal's clock")


class Me(Api):
    """Who am I."""

    scopes = {"GET": ANY}
    out = MeOut

    @extend_schema(responses=MeOut)
    def get(self, request: Request) -> Response:
        """Takes any token."""
        person, token = self.person(), token_of(request)
        grants = RoleGrant.objects.filter(in_force(today()), person=person).select_related("node")
        roles = [
            {
                "role": grant.role,
                "node": grant.node.code,
                "node_name": grant.node.name,
                "valid_from": grant.valid_from,
                "valid_until": grant.valid_until,
            }
            for grant in grants.order_by("node__path", "role")
        ]
        body = {
            "id": person.pk,
            "username": person.username,
            "display_name": person.display_name,
            "roles": roles,
            "leaves": list(submittable_leaves(person).values("code", "name")[:LEAVES_MAX]),
            "token": one(token) if token is not None else None,
            "now": timezone.now(),
        }
        return Response(body)
