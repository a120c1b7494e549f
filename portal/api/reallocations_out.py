"""What the API takes and gives of reallocations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from budgets import desks
from budgets.authority import may
from budgets.glossary import lazily as meant
from budgets.models import Person, Reallocation, State
from portal.api.given import Answer, ClusterName, Code, Day, Shares, Simulation, UserName, Versioned, Why, day, name_of
from portal.api.problems import Strict
from portal.api.requests_out import decidable_as, seen
from portal.api.serializers import moment

# --- what it takes ----------------------------------------------------------------------------------------------------


class ReallocationIn(Strict):
    """Shares for children of one node on one cluster, from a day on; children that aren't named keep theirs."""

    parent = Code()  # type: ignore[assignment]
    cluster = ClusterName()
    shares = Shares()
    starts_on = Day(required=False, help_text="today unless said")
    ends_on = Day(allow_null=True, default=None, help_text="the first day without it; null is for good")
    reason = Why(allow_blank=True, default="")
    acting_for = UserName(required=False, allow_blank=True)
    request = serializers.IntegerField(required=False, min_value=1, help_text="the request that it answers")
    parent_version = serializers.IntegerField(
        min_value=1, required=False, help_text="of the node whose shares these are: a change since then is refused"
    )


class ReallocationChange(Versioned):
    """What is different in a draft; what isn't named stays."""

    shares = Shares(required=False)
    starts_on = Day(required=False)
    ends_on = Day(allow_null=True, required=False)
    reason = Why(allow_blank=True, required=False)


class ApplyIn(Versioned):
    """Why, where the draft doesn't say it; what was looked at; and when it is asked whether it worked."""

    reason = Why(required=False)
    simulation = Simulation()
    look_again_on = Day(allow_null=True, required=False)
    parent_version = serializers.IntegerField(
        min_value=1, required=False, help_text="of the node whose shares these are; as the draft read it unless said"
    )


class ReallocationAnswer(Answer):
    """Yes or no to what somebody else proposed, and why."""


# --- what it gives ----------------------------------------------------------------------------------------------------


class LineOut(serializers.Serializer):
    """One child's share before and after, in basis points of the parent."""

    node = serializers.CharField()
    before = serializers.IntegerField()
    after = serializers.IntegerField()


class ReallocationOut(serializers.Serializer):
    """A set of changes among the children of one node; approved, it is a decision. People are user names."""

    number = serializers.IntegerField()
    parent = serializers.CharField()  # type: ignore[assignment]
    cluster = serializers.CharField()
    author = serializers.CharField()
    author_for = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(choices=State.values)
    starts_on = serializers.DateField()
    ends_on = serializers.DateField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    lines = LineOut(many=True)
    unassigned_change = serializers.IntegerField(help_text=meant("unassigned"))
    desk = serializers.CharField(help_text="the node whose managers are to answer")
    answer_by = serializers.DateTimeField(allow_null=True)
    by_notice = serializers.BooleanField(help_text="takes effect unless somebody objects until then")
    request = serializers.IntegerField(allow_null=True, help_text="the request that it answers")
    review = serializers.IntegerField(allow_null=True, help_text="the review in which it was decided")
    created_at = serializers.DateTimeField()
    submitted_at = serializers.DateTimeField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    decided_by = serializers.CharField(allow_null=True)
    decided_for = serializers.CharField(allow_null=True)
    decision_reason = serializers.CharField(allow_blank=True)
    applied_at = serializers.DateTimeField(allow_null=True)
    decidable_as = serializers.ListField(child=serializers.CharField())
    parent_version = serializers.IntegerField(help_text="of the parent, when the shares were read")
    version = serializers.IntegerField()


def with_all(rows: QuerySet[Reallocation]) -> QuerySet[Reallocation]:
    """With what `reallocations_out` looks at."""
    rows = rows.select_related(
        "parent", "cluster", "author", "author_for", "desk", "decided_by", "decided_for", "request__node",
        "request__desk", "review__node",
    )  # fmt: skip
    return rows.defer("review__snapshot").prefetch_related("lines__node")


def reallocations_out(rows: Sequence[Reallocation], person: Person) -> list[dict[str, Any]]:
    """ReallocationOut of each. The same number of queries however many they are."""
    known = desks.Known()
    known.expect([person])
    return [_reallocation(row, person, known) for row in rows]


def _reallocation(row: Reallocation, person: Person, known: desks.Known) -> dict[str, Any]:
    lines = list(row.lines.all())
    review = row.review_id if row.review is not None and may(person, "review.see", row.review) else None
    return {
        "number": row.pk,
        "parent": row.parent.code,
        "cluster": row.cluster.name,
        "author": row.author.username,
        "author_for": name_of(row.author_for),
        "state": row.state,
        "starts_on": day(row.starts_on),
        "ends_on": day(row.ends_on),
        "reason": row.reason,
        "lines": [{"node": line.node.code, "before": line.before, "after": line.after} for line in lines],
        "unassigned_change": -sum(line.change for line in lines),
        "desk": row.desk.code,
        "answer_by": moment(row.answer_by),
        "by_notice": row.by_notice,
        "request": seen(row.request, person),
        "review": review,
        "created_at": moment(row.created_at),
        "submitted_at": moment(row.submitted_at),
        "decided_at": moment(row.decided_at),
        "decided_by": name_of(row.decided_by),
        "decided_for": name_of(row.decided_for),
        "decision_reason": row.decision_reason,
        "applied_at": moment(row.applied_at),
        "decidable_as": decidable_as(row, person, known),
        "parent_version": row.base_version,
        "version": row.version,
    }
