"""Webhooks over the API: mine, and the organisation's for those who see to them; what was posted, and once more."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.models import Webhook, WebhookDelivery
from budgets.services import deliveries, webhook_settings
from budgets.services.webhooks import URL_LENGTH
from portal.api import filters
from portal.api.base import Api, Pages
from portal.api.problems import Strict
from portal.api.scopes import OPERATE

NO_STORE = {"Cache-Control": "no-store"}


class WebhookIn(Strict):
    """A webhook to be set up."""

    url = serializers.CharField(max_length=URL_LENGTH, help_text="an https address that takes a POST of JSON")
    scope = serializers.ChoiceField(choices=Webhook.Scope.values, default=Webhook.Scope.PERSON.value)
    name = serializers.CharField(max_length=webhook_settings.NAME_LENGTH, allow_blank=True, default="")
    events = serializers.ListField(
        child=serializers.CharField(max_length=40), default=list, max_length=40, help_text="which; none is all"
    )


class WebhookChange(Strict):
    """What is to be otherwise; what is left out stays."""

    url = serializers.CharField(max_length=URL_LENGTH, required=False)
    name = serializers.CharField(max_length=webhook_settings.NAME_LENGTH, allow_blank=True, required=False)
    events = serializers.ListField(child=serializers.CharField(max_length=40), max_length=40, required=False)
    is_on = serializers.BooleanField(required=False)


class WebhookOut(serializers.Serializer):
    """What there is to know of a webhook; never its secret."""

    id = serializers.IntegerField()
    scope = serializers.ChoiceField(choices=Webhook.Scope.values)
    name = serializers.CharField()
    url = serializers.CharField()
    events = serializers.ListField(child=serializers.CharField(), help_text="none is all")
    is_on = serializers.BooleanField()
    turned_off_at = serializers.DateTimeField(allow_null=True)
    turned_off_why = serializers.CharField()
    failures = serializers.IntegerField(help_text="tries in a row that failed")
    paused_until = serializers.DateTimeField(allow_null=True, help_text="after a failure nothing is tried until then")
    delivered_at = serializers.DateTimeField(allow_null=True, help_text="the last success")
    old_secret_until = serializers.DateTimeField(
        allow_null=True, help_text="until then posts are signed with the secret before as well"
    )
    created_at = serializers.DateTimeField()


class WebhookMade(WebhookOut):
    """A webhook with its new secret."""

    secret = serializers.CharField(help_text="shown this once")


class TryOut(serializers.Serializer):
    """One try."""

    at = serializers.DateTimeField()
    status = serializers.IntegerField(allow_null=True)
    ms = serializers.IntegerField()
    error = serializers.CharField()
    answer = serializers.CharField(help_text="how the answer begins")


class DeliveryOut(serializers.Serializer):
    """One thing that was posted, or is to be."""

    id = serializers.IntegerField()
    key = serializers.CharField(help_text="the same at each try: X-Allotment-Id")
    event = serializers.CharField()
    state = serializers.ChoiceField(choices=WebhookDelivery.State.values)
    made_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    tries = serializers.IntegerField()
    next_try_at = serializers.DateTimeField(allow_null=True)


class DeliveryDetail(DeliveryOut):
    """With what is posted, and how each try went."""

    body = serializers.DictField()
    attempts = TryOut(many=True)


class DeliveryPages(Pages):
    """The latest first."""

    ordering = ("-id",)


class One(Api):
    """What is about one webhook."""

    def webhook(self, number: int) -> Webhook:
        """Of that number.

        Raises:
            Http404: there is none, or it is not theirs to see.
        """
        found = webhook_settings.visible_to(self.person()).filter(pk=number).first()
        if found is None:
            raise Http404(gettext("There is no webhook {number} of yours.").format(number=number))
        return found

    def delivery(self, number: int, delivery: int) -> WebhookDelivery:
        """Of that number, of this webhook.

        Raises:
            Http404: there is none, or it is not theirs to see.
        """
        found = WebhookDelivery.objects.filter(webhook=self.webhook(number), pk=delivery).first()
        if found is None:
            raise Http404(gettext("This webhook has no delivery {number}.").format(number=delivery))
        return found


class WebhookPages(Pages):
    """The first one first."""

    ordering = ("id",)


class Webhooks(Api):
    """My webhooks, and for operators and administrators the organisation's."""

    pagination_class = WebhookPages
    out = WebhookOut
    scopes = {"POST": OPERATE}
    secrets = ("secret",)

    @extend_schema(operation_id="webhooks_list", responses=WebhookOut(many=True))
    def get(self, request: Request) -> Response:
        """One page of them."""
        return self.page(webhook_settings.visible_to(self.person()), lambda rows: [plain(each) for each in rows])

    @extend_schema(request=WebhookIn, responses={201: WebhookMade})
    def post(self, request: Request) -> Response:
        """Set one up. Its secret is in this answer and nowhere else."""
        said = self.read(WebhookIn(data=request.data))
        made = webhook_settings.create(by=self.person(), **said)
        headers = {"Location": reverse("api-webhook", args=[made.pk]), **NO_STORE}
        return Response({**plain(made), "secret": made.secret}, status=201, headers=headers)


class WebhookDetail(One):
    """One webhook."""

    out = WebhookOut
    scopes = {"PATCH": OPERATE, "DELETE": OPERATE}

    @extend_schema(responses=WebhookOut)
    def get(self, request: Request, number: int) -> Response:
        """How it is."""
        return Response(plain(self.webhook(number)))

    @extend_schema(request=WebhookChange, responses=WebhookOut)
    def patch(self, request: Request, number: int) -> Response:
        """Post elsewhere or other things, or turn it off and on."""
        row, said = self.webhook(number), self.read(WebhookChange(data=request.data))
        is_on = said.pop("is_on", None)
        if said:
            webhook_settings.change(webhook=row, **said)
        if is_on is not None:
            (webhook_settings.turn_on if is_on else webhook_settings.turn_off)(webhook=row)
        return Response(plain(self.webhook(number)))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, number: int) -> Response:
        """Forget it, and what was posted there."""
        webhook_settings.remove(webhook=self.webhook(number))
        return Response(status=204)


class WebhookSecret(One):
    """Another secret."""

    scopes = {"POST": OPERATE}
    secrets = ("secret",)

    @extend_schema(request=None, responses={201: WebhookMade})
    def post(self, request: Request, number: int) -> Response:
        """Posts are signed with the old one as well for a day."""
        row = webhook_settings.rotate(webhook=self.webhook(number))
        return Response({**plain(row), "secret": row.secret}, status=201, headers=NO_STORE)


class WebhookTest(One):
    """Posting something that means nothing."""

    scopes = {"POST": OPERATE}

    @extend_schema(request=None, responses={202: DeliveryOut})
    def post(self, request: Request, number: int) -> Response:
        """It is posted within seconds; its delivery says how that went."""
        made = webhook_settings.ping(webhook=self.webhook(number))
        where = reverse("api-webhook-delivery", args=[number, made.pk])
        return Response(delivered(made), status=202, headers={"Location": where})


class Deliveries(One):
    """What was posted to a webhook, or is to be."""

    filters = (filters.one_of("state", "how it stands", WebhookDelivery.State.values),)
    pagination_class = DeliveryPages
    out = DeliveryOut

    @extend_schema(operation_id="webhooks_deliveries_list", responses=DeliveryOut(many=True))
    def get(self, request: Request, number: int) -> Response:
        """One page of the last 30 days, the latest first."""
        rows = WebhookDelivery.objects.filter(webhook=self.webhook(number)).defer("body")
        state = self.asked()["state"]
        return self.page(rows.filter(state=state) if state else rows, lambda found: [delivered(each) for each in found])


class Delivery(One):
    """One delivery."""

    out = DeliveryDetail

    @extend_schema(operation_id="webhooks_deliveries_retrieve", responses=DeliveryDetail)
    def get(self, request: Request, number: int, delivery: int) -> Response:
        """With its body and all tries."""
        row = self.delivery(number, delivery)
        tries = row.attempts.values("at", "status", "ms", "error", "answer")
        return Response({**delivered(row), "body": json.loads(row.body), "attempts": list(tries)})


class DeliveryAgain(One):
    """Once more."""

    scopes = {"POST": OPERATE}

    @extend_schema(request=None, responses={202: DeliveryOut})
    def post(self, request: Request, number: int, delivery: int) -> Response:
        """The same body under the same id, within seconds."""
        row = self.delivery(number, delivery)
        if not deliveries.send_again(delivery=row):
            raise ValidationError({"webhook": [gettext("is turned off; turn it on first")]})
        row.refresh_from_db()
        return Response(delivered(row), status=202)


def plain(row: Webhook) -> dict[str, Any]:
    """As the API gives it."""
    return {name: getattr(row, name) for name in _names(WebhookOut().fields)}


def _names(fields: Iterable[str]) -> list[str]:
    return list(fields)


def delivered(row: WebhookDelivery) -> dict[str, Any]:
    """As the API gives it."""
    is_open = row.state == WebhookDelivery.State.WAITING
    return {
        "id": row.pk,
        "key": row.key,
        "event": row.event,
        "state": row.state,
        "made_at": row.made_at,
        "ended_at": row.ended_at,
        "tries": row.tries,
        "next_try_at": row.next_try_at if is_open else None,
    }
