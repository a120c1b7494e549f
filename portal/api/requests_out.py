"""What the API takes and gives of requests, of what is said to them and put beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from budgets import desks
from budgets.authority import may
from budgets.glossary import lazily as meant
from budgets.models import Attachment, Comment, LedgerEntry, Person, Reallocation, Request, State
from portal.api.given import (
    Answer,
    BasisPoints,
    ClusterName,
    Code,
    Day,
    Shares,
    Simulation,
    Versioned,
    day,
    name_of,
)
from portal.api.problems import Strict
from portal.api.serializers import moment

TEXT_LENGTH = 4_000

# --- what it takes ----------------------------------------------------------------------------------------------------


class RequestIn(Strict):
    """More for a node: how much of its parent, for how long, why, and what happens otherwise."""

    node = Code()
    cluster = ClusterName()
    more_basis_points = BasisPoints(min_value=1, help_text="of the parent, on top of what the node has")
    starts_on = Day()
    ends_on = Day(allow_null=True, default=None, help_text="the first day without it; null is for good")
    useless_on = Day(allow_null=True, default=None, help_text="from this day on it would be of no use")
    why = serializers.CharField(max_length=TEXT_LENGTH)
    otherwise = serializers.CharField(max_length=TEXT_LENGTH, help_text="what happens if it isn't given")


class RequestChange(Versioned):
    """What is different; what isn't named stays."""

    node = Code(required=False)
    cluster = ClusterName(required=False)
    more_basis_points = BasisPoints(min_value=1, required=False)
    starts_on = Day(required=False)
    ends_on = Day(allow_null=True, required=False)
    useless_on = Day(allow_null=True, required=False)
    why = serializers.CharField(max_length=TEXT_LENGTH, required=False)
    otherwise = serializers.CharField(max_length=TEXT_LENGTH, required=False)


class WithdrawIn(Versioned):
    """Why it is taken back, if one likes to say."""

    reason = serializers.CharField(max_length=2_000, required=False, allow_blank=True)


class PassUpIn(Answer):
    """How much to ask of the level above, in basis points of it; what is needed unless said."""

    more_basis_points = BasisPoints(min_value=1, required=False)


class ApproveIn(Answer):
    """The shares that answer it. Without any, the node gets what it asks for, out of what is unassigned."""

    shares = Shares(required=False)
    starts_on = Day(required=False, help_text="the day that is asked for unless said")
    ends_on = Day(allow_null=True, required=False, help_text="as asked for unless said; null is for good")
    look_again_on = Day(allow_null=True, required=False, help_text="when it is asked whether it worked")
    simulation = Simulation()
    parent_version = serializers.IntegerField(
        min_value=1, required=False, help_text="of the node whose shares these are: a change since then is refused"
    )


class CommentIn(Strict):
    """What one says, and who may read it."""

    text = serializers.CharField(max_length=TEXT_LENGTH)
    audience = serializers.ChoiceField(choices=Comment.Audience.values, default=Comment.Audience.ALL)


class AttachmentIn(Strict):
    """A file: PDF, PNG, JPEG, CSV or text, at most 5 MiB."""

    file = serializers.FileField()


# --- what it gives ----------------------------------------------------------------------------------------------------


class RequestOut(serializers.Serializer):
    """A request. People are user names. `decidable_as`: for whom you may decide it now, yourself or who is away."""

    number = serializers.IntegerField()
    node = serializers.CharField()
    parent = serializers.CharField()  # type: ignore[assignment]
    cluster = serializers.CharField()
    author = serializers.CharField()
    state = serializers.ChoiceField(choices=State.values)
    more_basis_points = serializers.IntegerField(help_text=meant("shares"))
    starts_on = serializers.DateField()
    ends_on = serializers.DateField(allow_null=True)
    useless_on = serializers.DateField(allow_null=True)
    why = serializers.CharField()
    otherwise = serializers.CharField()
    desk = serializers.CharField(help_text="the node whose managers are to answer")
    answer_by = serializers.DateTimeField(allow_null=True, help_text="unanswered until then, it goes one level up")
    upper = serializers.IntegerField(allow_null=True, help_text="the request that the parent made in its turn")
    lower = serializers.IntegerField(allow_null=True, help_text="the request for which this one was made")
    decision = serializers.IntegerField(allow_null=True, help_text="the reallocation that approved it")
    figures = serializers.DictField(allow_null=True, help_text="the asker's own, when it was submitted")
    created_at = serializers.DateTimeField()
    submitted_at = serializers.DateTimeField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    decided_by = serializers.CharField(allow_null=True)
    decided_for = serializers.CharField(allow_null=True)
    decision_reason = serializers.CharField(allow_blank=True)
    decidable_as = serializers.ListField(child=serializers.CharField())
    version = serializers.IntegerField()


class CommentOut(serializers.Serializer):
    """What somebody said; it is never changed."""

    number = serializers.IntegerField()
    at = serializers.DateTimeField()
    author = serializers.CharField()
    audience = serializers.ChoiceField(choices=Comment.Audience.values)
    text = serializers.CharField()


class AttachmentOut(serializers.Serializer):
    """A file beside a request; its content is at its own address."""

    number = serializers.IntegerField()
    at = serializers.DateTimeField()
    author = serializers.CharField()
    name = serializers.CharField()
    content_type = serializers.CharField()
    size_bytes = serializers.IntegerField()
    sha256 = serializers.CharField()


def with_all(rows: QuerySet[Request]) -> QuerySet[Request]:
    """With what `requests_out` looks at."""
    return rows.select_related(
        "node", "parent__parent", "desk", "cluster", "author", "decided_by", "decided_for",
        "upper__node", "upper__desk", "lower__node", "lower__desk",
    )  # fmt: skip


def requests_out(rows: Sequence[Request], person: Person) -> list[dict[str, Any]]:
    """RequestOut of each. The same number of queries however many they are."""
    answers = LedgerEntry.objects.filter(verb="request.approved", request_id__in=[row.pk for row in rows])
    decided = dict(answers.values_list("request_id", "reallocation_id"))
    known = desks.Known()
    known.expect([person])
    return [_request(row, person, decided.get(row.pk), known) for row in rows]


def _request(row: Request, person: Person, decision: int | None, known: desks.Known) -> dict[str, Any]:
    return {
        "number": row.pk,
        "node": row.node.code,
        "parent": row.parent.code,
        "cluster": row.cluster.name,
        "author": row.author.username,
        "state": row.state,
        "more_basis_points": row.more_basis_points,
        "starts_on": day(row.starts_on),
        "ends_on": day(row.ends_on),
        "useless_on": day(row.useless_on),
        "why": row.why,
        "otherwise": row.otherwise,
        "desk": row.desk.code,
        "answer_by": moment(row.answer_by),
        "upper": seen(row.upper, person),
        "lower": seen(getattr(row, "lower", None), person),
        "decision": decision,
        "figures": row.figures,
        "created_at": moment(row.created_at),
        "submitted_at": moment(row.submitted_at),
        "decided_at": moment(row.decided_at),
        "decided_by": name_of(row.decided_by),
        "decided_for": name_of(row.decided_for),
        "decision_reason": row.decision_reason,
        "decidable_as": decidable_as(row, person, known),
        "version": row.version,
    }


def seen(row: Request | None, person: Person) -> int | None:
    """The number of a request, for who may see it."""
    return row.pk if row is not None and may(person, "request.see", row) else None


def decidable_as(row: Request | Reallocation, person: Person, known: desks.Known) -> list[str]:
    """For whom the person may decide it, by user name."""
    if row.state != State.SUBMITTED:
        return []
    ways = desks.ways_to_decide(person, desks.matter_of(row), known)
    return [(person if way is None else way).username for way in ways]


def comment_out(row: Comment) -> dict[str, Any]:
    """CommentOut."""
    return {
        "number": row.pk,
        "at": moment(row.at),
        "author": row.author.username,
        "audience": row.audience,
        "text": row.text,
    }


def attachment_out(row: Attachment) -> dict[str, Any]:
    """AttachmentOut."""
    return {
        "number": row.pk,
        "at": moment(row.at),
        "author": row.author.username,
        "name": row.name,
        "content_type": row.content_type,
        "size_bytes": row.size_bytes,
        "sha256": row.sha256,
    }
