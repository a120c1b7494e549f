"""The decision log over the API, and "did it work?"."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.http import Http404
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.models import FollowUp, Person, Reallocation, State
from budgets.queries import today
from budgets.services import follow_ups
from portal import decision_log
from portal.api import filters
from portal.api.base import Api, Pages
from portal.api.given import cluster_given, day, name_of, node_given, person_given
from portal.api.paging import is_beyond
from portal.api.problems import Strict
from portal.api.reallocations_out import LineOut
from portal.api.scopes import DECIDE
from portal.api.serializers import moment
from portal.decision_log import Decision, decisions
from portal.views.decisions import books_of, decision_numbered
from portal.views.requests import visible

BEGINNING = date(2000, 1, 1)
OUTCOMES = ("approved", "applied", "denied", "changed")

# --- what it takes ----------------------------------------------------------------------------------------------------


class FollowUpAnswer(Strict):
    """Whether it worked, and what one sees. It is said once, for good."""

    verdict = serializers.ChoiceField(choices=FollowUp.Verdict.values)
    text = serializers.CharField(max_length=follow_ups.TEXT_LENGTH)


# --- what it gives ----------------------------------------------------------------------------------------------------


class VoiceOut(serializers.Serializer):
    """Who abstained or dissented, and why."""

    node = serializers.CharField()
    person = serializers.CharField()
    kind = serializers.ChoiceField(choices=["abstains", "dissents"])
    text = serializers.CharField(allow_blank=True)


class NotFundedOut(serializers.Serializer):
    """What was asked for in a review and not given."""

    node = serializers.CharField()
    text = serializers.CharField()


class FollowUpOut(serializers.Serializer):
    """Did it work? `decision` is the number of the reallocation; `figures` compare the days before it and since."""

    decision = serializers.IntegerField()
    node = serializers.CharField(help_text="whose children were changed")
    cluster = serializers.CharField()
    due_on = serializers.DateField()
    verdict = serializers.ChoiceField(choices=FollowUp.Verdict.values, allow_null=True)
    text = serializers.CharField(allow_blank=True)
    answered_at = serializers.DateTimeField(allow_null=True)
    answered_by = serializers.CharField(allow_null=True)
    figures = serializers.DictField(allow_null=True)


class DecisionOut(serializers.Serializer):
    """What was decided, by whatever road. `kind` is reallocation; request, where one was denied; or entry, where shares
    were changed by a file or the system: `number` is that of its last entry of the ledger then."""

    kind = serializers.ChoiceField(choices=decision_log.KINDS)
    number = serializers.IntegerField()
    at = serializers.DateTimeField()
    node = serializers.CharField(allow_null=True)
    cluster = serializers.CharField()
    outcome = serializers.ChoiceField(choices=OUTCOMES)
    by = serializers.CharField(allow_null=True, help_text="by user name; null is the system, or that nobody objected")
    behalf = serializers.CharField(allow_null=True, help_text="who was away, or by whom an import says it was decided")
    reason = serializers.CharField(allow_blank=True)
    starts_on = serializers.DateField(allow_null=True)
    ends_on = serializers.DateField(allow_null=True)
    lines = LineOut(many=True)
    requests = serializers.ListField(child=serializers.IntegerField(), help_text="that it approved")
    review = serializers.IntegerField(allow_null=True)
    voices = VoiceOut(many=True)
    not_funded = NotFundedOut(many=True)
    follow_up = FollowUpOut(allow_null=True)


class Key(NamedTuple):
    """Which row of the log."""

    kind: str
    pk: int
    decided: Any


class Log(Pages):
    """Pages of the log, the latest first: its kinds are laid together, each filtered by itself."""

    ordering = ("-decided", "kind", "-pk")

    def beyond(self, rows: Any, order: Sequence[str], values: Sequence[Any]) -> QuerySet[Any]:
        """Of the parts of the log."""
        parts = [part.filter(is_beyond(order, values)) for part in rows] if values else rows
        return parts[0].union(*parts[1:], all=True).order_by(*order)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """Keys."""
        self.page = [Key(**each) for each in super().paginate_queryset(queryset, request, view)]
        return self.page


class Decisions(Api):
    """The decision log."""

    filters = (
        filters.text("node", "about this budget node, or one below it", at_most=16),
        filters.text("cluster", "on this cluster", at_most=40),
        filters.day("from", "decided on this day or later"),
        filters.day("until", "decided on this day or earlier"),
        filters.text("by", "decided by this person, by user name", at_most=150),
    )
    out = DecisionOut
    pagination_class = Log

    @extend_schema(responses=DecisionOut(many=True))
    def get(self, request: Request) -> Response:
        """The latest first, as far as one may see them."""
        asked, person = self.asked(), self.person()
        since, until = asked["from"] or BEGINNING, asked["until"] or today()
        rows = decision_log.parts_of(
            person,
            None if asked["node"] is None else node_given(asked["node"]),
            since,
            until,
            None if asked["by"] is None else person_given(asked["by"], "by", may_be_gone=True),
            None if asked["cluster"] is None else cluster_given(asked["cluster"]),
        )
        return self.page(rows, lambda keys: decisions_out(keys, person))  # type: ignore[arg-type]


class DecisionDetail(Api):
    """One decision on shares."""

    out = DecisionOut

    @extend_schema(responses=DecisionOut)
    def get(self, request: Request, number: int) -> Response:
        """What was decided, and whether it worked."""
        row = decision_numbered(self.person(), number)
        return Response(decisions_out([Key("reallocation", row.pk, row.decided_at)], self.person())[0])


class FollowUpDetail(Api):
    """Whether a decision worked."""

    scopes = {"POST": DECIDE}
    out = FollowUpOut

    @extend_schema(responses=FollowUpOut)
    def get(self, request: Request, number: int) -> Response:
        """The answer with the figures of then; before there is one, those of now, once it is due."""
        row = self.row(number)
        is_due = row.answered_at is None and row.due_on <= today() and row.reallocation.state == State.APPLIED
        return Response(follow_up_out(row, follow_ups.figures_of(row, books_of) if is_due else row.figures))

    @extend_schema(request=FollowUpAnswer, responses={201: FollowUpOut})
    def post(self, request: Request, number: int) -> Response:
        """Say whether it worked, once it is due; the figures of now are kept with it."""
        row, said = self.row(number), self.read(FollowUpAnswer(data=request.data))
        answered = follow_ups.answer(follow_up=row, by=self.person(), books_of=books_of, **said)
        return Response(follow_up_out(answered, answered.figures), status=201)

    def row(self, number: int) -> FollowUp:
        """What is asked of the decision.

        Raises:
            Http404: there is no such decision for them, or nobody asks whether it worked.
        """
        decision = decision_numbered(self.person(), number)
        found = _with_all(FollowUp.objects.filter(reallocation=decision)).first()
        if found is None:
            raise Http404(gettext("Nobody asks whether {row} worked: it isn't in force.").format(row=decision))
        return found


class FirstDueFirst(Pages):
    """What has been due for longest first."""

    ordering = ("due_on", "pk")


class FollowUps(Api):
    """What is to be said now about decisions of one's own nodes."""

    out = FollowUpOut
    pagination_class = FirstDueFirst

    @extend_schema(responses=FollowUpOut(many=True))
    def get(self, request: Request) -> Response:
        """What has been due for longest first. Each is answered at its decision."""
        rows = _with_all(follow_ups.due_for(self.person()))
        return self.page(rows, lambda shown: [follow_up_out(each, None) for each in shown])


def _with_all(rows: QuerySet[FollowUp]) -> QuerySet[FollowUp]:
    return rows.select_related("reallocation__parent", "reallocation__cluster", "answered_by")


def follow_up_out(row: FollowUp, figures: dict[str, Any] | None) -> dict[str, Any]:
    """FollowUpOut."""
    decision: Reallocation = row.reallocation
    return {
        "decision": decision.pk,
        "node": decision.parent.code,
        "cluster": decision.cluster.name,
        "due_on": day(row.due_on),
        "verdict": row.verdict or None,
        "text": row.text,
        "answered_at": moment(row.answered_at),
        "answered_by": name_of(row.answered_by),
        "figures": figures,
    }


def decisions_out(keys: Sequence[Key], person: Person) -> list[dict[str, Any]]:
    """DecisionOut of each. The same number of queries however many they are."""
    rows = decisions(person, [key._asdict() for key in keys])
    asked = {each.pk for row in rows for each in row.answers}
    seen = set(visible(person).filter(pk__in=asked).values_list("pk", flat=True)) if asked else set()
    return [_decision(key, row, seen, person) for key, row in zip(keys, rows, strict=True)]


def _decision(key: Key, row: Decision, seen: set[int], person: Person) -> dict[str, Any]:
    review = row.reallocation.review_id if row.reallocation is not None and row.review_seen else None
    return {
        "kind": key.kind,
        "number": key.pk,
        "at": moment(row.at),
        "node": row.node_code or None,
        "cluster": row.cluster,
        "outcome": row.outcome,
        "by": name_of(row.by),
        "behalf": name_of(row.behalf),
        "reason": row.reason,
        "starts_on": day(row.starts_on),
        "ends_on": day(row.ends_on),
        "lines": [{"node": code, "before": before, "after": after} for code, before, after in row.lines],
        "requests": [each.pk for each in row.answers if each.pk in seen],
        "review": review,
        "voices": [
            {"node": item.node.code, "person": voice.person.username, "kind": voice.kind, "text": voice.text}
            for item in row.items
            for voice in item.voices.all()
        ],
        "not_funded": [{"node": item.node.code, "text": item.not_funded} for item in row.items if item.not_funded],
        "follow_up": None if row.follow_up is None else follow_up_out(row.follow_up, None),
    }
