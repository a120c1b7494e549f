"""The ledger over the API: who changed what, when and why, of what one may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.models import LedgerEntry, Person
from portal.api import filters
from portal.api.base import Api, Pages
from portal.api.serializers import moment
from portal.ledger_words import VERBS
from portal.views.audit import WHO_LENGTH, entries_asked_for


class Newest(Pages):
    """Pages of entries."""

    ordering = ("-pk",)


class AuditOut(serializers.Serializer):
    """An entry of the ledger: never changed, never removed. `before` and `after` hold the values that changed."""

    number = serializers.IntegerField()
    at = serializers.DateTimeField()
    person = serializers.CharField(allow_null=True, help_text="user name; null: the system")
    on_behalf_of = serializers.CharField(allow_null=True, help_text="user name, where a delegate acted")
    verb = serializers.CharField()
    node = serializers.CharField(help_text="the budget node's code at that time")
    node_name = serializers.CharField(allow_blank=True)
    cluster = serializers.CharField(allow_blank=True)
    before = serializers.DictField(allow_null=True)
    after = serializers.DictField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    evidence = serializers.DictField(allow_null=True, help_text="what was looked at")
    request = serializers.IntegerField(allow_null=True)
    reallocation = serializers.IntegerField(allow_null=True)
    review = serializers.IntegerField(allow_null=True)


class Audit(Api):
    """The ledger, of the nodes that one sees inside of or administers."""

    pagination_class = Newest
    out = AuditOut
    filters = (
        filters.text("node", "of a budget node and all below it, by its code", at_most=16),
        filters.whole("request", "of a request, by its number", at_least=1, at_most=10**9 - 1),
        filters.whole("entry", "the one of that number", at_least=1, at_most=10**9 - 1),
        filters.text("who", "a user name, or a part of a name: who did it, or for whom", at_most=WHO_LENGTH),
        filters.one_of("what", "the verb", list(VERBS)),
        filters.day("since", "from that day on"),
        filters.day("as_of", "up to the end of that day"),
    )

    @extend_schema(operation_id="audit_list", responses=AuditOut(many=True))
    def get(self, request: Request) -> Response:
        """The latest first."""
        self.asked()
        return self.page(entries_asked_for(request).rows, _shown)


def _shown(page: Sequence[LedgerEntry]) -> list[dict[str, Any]]:
    """AuditOut of each. One query."""
    ids = {pk for entry in page for pk in (entry.person_id, entry.on_behalf_of_id) if pk}
    names = dict(Person.objects.filter(pk__in=ids).values_list("pk", "username"))
    return [
        {
            "number": entry.pk,
            "at": moment(entry.at),
            "person": names.get(entry.person_id or 0),
            "on_behalf_of": names.get(entry.on_behalf_of_id or 0),
            "verb": entry.verb,
            "node": entry.node_code,
            "node_name": entry.node_name,
            "cluster": entry.cluster_name,
            "before": entry.before,
            "after": entry.after,
            "reason": entry.reason,
            "evidence": entry.evidence,
            "request": entry.request_id,
            "reallocation": entry.reallocation_id,
            "review": entry.review_id,
        }
        for entry in page
    ]
