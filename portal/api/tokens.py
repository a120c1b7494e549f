"""Access tokens over the API: making one takes a session; a token lists its person's, and ends itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import Http404
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.authority import may
from budgets.models import AccessToken, Person, Scope
from budgets.services import tokens
from portal.api import filters
from portal.api.authentication import token_of
from portal.api.base import Api, Pages
from portal.api.problems import Strict
from portal.api.scopes import ANY, OPERATE, SESSION

REASON = OpenApiParameter("reason", str, description="why; needed for a token of somebody else's")


class TokenIn(Strict):
    """A token to be made."""

    name = serializers.CharField(max_length=tokens.NAME_LENGTH, help_text="what you call it")
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=Scope.values), allow_empty=False, max_length=len(Scope.values)
    )
    days = serializers.IntegerField(min_value=1, max_value=3_650, help_text="until it ends; the portal has a maximum")


class TokenOut(serializers.Serializer):
    """What there is to know of a token; never the token itself."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="its first characters")
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.values))
    created_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="to the minute")
    ended_at = serializers.DateTimeField(allow_null=True, help_text="when it was revoked, if it was")
    is_alive = serializers.BooleanField()


class TokenMade(TokenOut):
    """A new token, with its text."""

    token = serializers.CharField(help_text="shown this once")


class TokenPages(Pages):
    """The latest first."""

    ordering = ("-id",)


class Tokens(Api):
    """My tokens; operators and administrators also find those of somebody else."""

    filters = (filters.text("person", "somebody else's user name, for operators and administrators", at_most=150),)
    pagination_class = TokenPages
    out = TokenOut
    scopes = {"POST": SESSION}
    secrets = ("token",)

    @extend_schema(operation_id="tokens_list", responses=TokenOut(many=True))
    def get(self, request: Request) -> Response:
        """One page, with those that have ended."""
        owner, wanted = self.person(), self.asked()["person"]
        if wanted and wanted != owner.username:
            found = Person.objects.filter(username=wanted).first()
            if found is None or not may(owner, "token.revoke", found):
                raise Http404(gettext("There is nobody {name!r} whose tokens are yours to see.").format(name=wanted))
            owner = found
        return self.page(AccessToken.objects.filter(person=owner), plain)

    @extend_schema(request=TokenIn, responses={201: TokenMade})
    def post(self, request: Request) -> Response:
        """Make one, for yourself. Its text is in this answer and nowhere else."""
        said = self.read(TokenIn(data=request.data))
        token, shown = tokens.create(person=self.person(), through=token_of(request), **said)
        headers = {"Location": reverse("api-token", args=[token.pk]), "Cache-Control": "no-store"}
        return Response({**one(token), "token": shown}, status=201, headers=headers)


class TokenDetail(Api):
    """One token."""

    known = frozenset({"reason"})
    scopes = {"DELETE": ANY}

    @extend_schema(responses=TokenOut)
    def get(self, request: Request, number: int) -> Response:
        """What there is to know of it."""
        return Response(one(self.token(number)))

    @extend_schema(parameters=[REASON], responses={204: None})
    def delete(self, request: Request, number: int) -> Response:
        """Revoke it at once. A token may end itself, whatever its scopes; another one takes the scope `operate`."""
        token, used = self.token(number), token_of(request)
        if used is not None and used.pk != token.pk and OPERATE not in used.scopes:
            raise PermissionDenied(gettext("This token can end itself alone."))
        tokens.revoke(token=token, by=self.person(), reason=request.query_params.get("reason", ""))
        return Response(status=204)

    def token(self, number: int) -> AccessToken:
        """Of that number.

        Raises:
            Http404: there is none, or it is not theirs to see.
        """
        token = AccessToken.objects.filter(pk=number).select_related("person").first()
        if token is None or not may(self.person(), "token.revoke", token.person):
            raise Http404(gettext("There is no token {number} of yours.").format(number=number))
        return token


def plain(rows: Iterable[AccessToken]) -> list[dict[str, Any]]:
    """As the API gives them."""
    return [one(each) for each in rows]


def one(token: AccessToken) -> dict[str, Any]:
    """As the API gives it."""
    return {
        "id": token.pk,
        "name": token.name,
        "prefix": token.prefix,
        "scopes": list(token.scopes),
        "created_at": token.created_at,
        "ends_at": token.ends_at,
        "last_used_at": token.last_used_at,
        "ended_at": token.ended_at,
        "is_alive": token.is_alive(timezone.now()),
    }
