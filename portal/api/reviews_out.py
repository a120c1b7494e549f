"""What the API takes and gives of budget reviews."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from budgets.models import Review, ReviewItem, Voice
from budgets.services import reviews
from budgets.services.review_closing import Closed
from budgets.services.review_totals import Standing
from portal.api.given import BasisPoints, ClusterName, Code, Day, Instant, Reasoned, Versioned, Why, day, name_of
from portal.api.problems import Strict
from portal.api.serializers import moment

# --- what it takes ----------------------------------------------------------------------------------------------------


class ReviewIn(Strict):
    """A meeting about what a node's children got on the days [period_from, period_until), and get from a day on."""

    node = Code()
    title = serializers.CharField(max_length=reviews.TITLE_LENGTH)
    period_from = Day()
    period_until = Day(help_text="the first day that is not of the period")
    meets_at = Instant()
    applies_from = Day()
    hands_back_below_percent = serializers.IntegerField(
        min_value=0, max_value=100, default=10, help_text="who used less of its entitlement than this ..."
    )
    hands_back_percent = serializers.IntegerField(
        min_value=0, max_value=100, default=25, help_text="... is proposed to hand back so much; it never cuts"
    )


class TakeUpIn(Strict):
    """Another line for the agenda."""

    node = Code()
    cluster = ClusterName()


class ShowIn(Strict):
    """Which item everybody sees, from 1; 0 is the agenda."""

    line = serializers.IntegerField(min_value=0, max_value=32_767)


class MarkIn(Versioned):
    """A mark in pencil, in basis points of the review's node; null takes it away. `version` is the item's."""

    pencil = BasisPoints(allow_null=True)
    reason = serializers.CharField(max_length=reviews.TEXT_LENGTH, allow_blank=True, default="")
    not_funded = serializers.CharField(max_length=reviews.TEXT_LENGTH, allow_blank=True, default="")
    look_again_on = Day(allow_null=True, default=None)


class SpeakIn(Strict):
    """One's voice, for the record; an empty kind takes it back."""

    kind = serializers.ChoiceField(choices=Voice.Kind.values, allow_blank=True)
    text = serializers.CharField(max_length=reviews.TEXT_LENGTH, allow_blank=True, default="")


class CloseIn(Versioned):
    """From which day the marks count, and why in all."""

    applies_from = Day()
    reason = Why(max_length=1_000)


class CancelIn(Reasoned):
    """Why it is called off."""


# --- what it gives ----------------------------------------------------------------------------------------------------


class ReviewVoiceOut(serializers.Serializer):
    """Who abstains or dissents, and why."""

    person = serializers.CharField()
    kind = serializers.ChoiceField(choices=Voice.Kind.values)
    text = serializers.CharField(allow_blank=True)


class ReviewItemOut(serializers.Serializer):
    """One screen of the meeting: a child on a cluster. Shares are basis points of the review's node."""

    position = serializers.IntegerField()
    node = serializers.CharField()
    cluster = serializers.CharField()
    request = serializers.IntegerField(allow_null=True)
    rule = serializers.CharField(allow_blank=True, help_text="why a rule put it on the agenda")
    now = serializers.IntegerField()
    proposed = serializers.IntegerField()
    pencil = serializers.IntegerField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    not_funded = serializers.CharField(allow_blank=True)
    look_again_on = serializers.DateField(allow_null=True)
    marked_by = serializers.CharField(allow_null=True)
    voices = ReviewVoiceOut(many=True)
    version = serializers.IntegerField()


class StandingOut(serializers.Serializer):
    """The running total of one cluster, in basis points: it can't be closed while it is over the whole."""

    cluster = serializers.CharField()
    total = serializers.IntegerField(help_text="with the marks")
    total_now = serializers.IntegerField(help_text="without them")
    over = serializers.IntegerField()
    unassigned = serializers.IntegerField()


class ReviewOut(serializers.Serializer):
    """A budget review. `line` is the item that is shown; `snapshot_id` names the figures that were frozen."""

    number = serializers.IntegerField()
    node = serializers.CharField()
    title = serializers.CharField()
    state = serializers.ChoiceField(choices=Review.State.values)
    period_from = serializers.DateField()
    period_until = serializers.DateField()
    meets_at = serializers.DateTimeField()
    applies_from = serializers.DateField(allow_null=True)
    hands_back_below_percent = serializers.IntegerField()
    hands_back_percent = serializers.IntegerField()
    line = serializers.IntegerField()
    snapshot_id = serializers.CharField(allow_blank=True)
    planned_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    opened_at = serializers.DateTimeField(allow_null=True)
    closed_at = serializers.DateTimeField(allow_null=True)
    closed_by = serializers.CharField(allow_null=True)
    version = serializers.IntegerField()


class ReviewDetailOut(ReviewOut):
    """The same with its agenda and the running totals; these are there while it is open."""

    items = ReviewItemOut(many=True)
    standing = StandingOut(many=True)


class ClosedOut(serializers.Serializer):
    """What closing has done: numbers of decisions and of requests."""

    review = serializers.IntegerField()
    reallocations = serializers.ListField(child=serializers.IntegerField())
    approved = serializers.ListField(child=serializers.IntegerField())
    denied = serializers.ListField(child=serializers.IntegerField())
    undecided = serializers.ListField(child=serializers.IntegerField(), help_text="back on their desk")
    elsewhere = serializers.ListField(child=serializers.IntegerField(), help_text="decided while the meeting went on")


def review_out(row: Review) -> dict[str, Any]:
    """ReviewOut."""
    return {
        "number": row.pk,
        "node": row.node.code,
        "title": row.title,
        "state": row.state,
        "period_from": day(row.period_from),
        "period_until": day(row.period_until),
        "meets_at": moment(row.meets_at),
        "applies_from": day(row.applies_from),
        "hands_back_below_percent": row.hands_back_below_percent,
        "hands_back_percent": row.hands_back_percent,
        "line": row.line,
        "snapshot_id": row.snapshot_id,
        "planned_by": row.opened_by.username,
        "created_at": moment(row.created_at),
        "opened_at": moment(row.opened_at),
        "closed_at": moment(row.closed_at),
        "closed_by": name_of(row.closed_by),
        "version": row.version,
    }


def detail_out(row: Review, items: Sequence[ReviewItem], standing: Sequence[Standing]) -> dict[str, Any]:
    """ReviewDetailOut."""
    totals = [
        {
            "cluster": each.cluster.name,
            "total": each.total,
            "total_now": each.total_now,
            "over": each.over,
            "unassigned": each.unassigned,
        }
        for each in standing
    ]
    return {**review_out(row), "items": [item_out(item) for item in items], "standing": totals}


def item_out(item: ReviewItem) -> dict[str, Any]:
    """ReviewItemOut."""
    voices = [{"person": voice.person.username, "kind": voice.kind, "text": voice.text} for voice in item.voices.all()]
    return {
        "position": item.position,
        "node": item.node.code,
        "cluster": item.cluster.name,
        "request": item.request_id,
        "rule": item.rule,
        "now": item.now,
        "proposed": item.proposed,
        "pencil": item.pencil,
        "reason": item.reason,
        "not_funded": item.not_funded,
        "look_again_on": day(item.look_again_on),
        "marked_by": name_of(item.marked_by),
        "voices": voices,
        "version": item.version,
    }


def closed_out(done: Closed) -> dict[str, Any]:
    """ClosedOut."""
    return {"review": done.review.pk, **done.plain()}
