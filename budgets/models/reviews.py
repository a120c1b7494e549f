"""Budget-review meetings: their agenda, pencil marks, voices, and the snapshot that all their outputs come from."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from budgets.models.people import Person
from budgets.models.requests import Reallocation, Request
from budgets.models.tree import WHOLE_BASIS_POINTS, BudgetNode, Cluster


class Review(models.Model):
    """A meeting of a node's people about what its children got in a period, and get from a day on.

    `snapshot` is frozen when the meeting opens: page, PDF and CSV come from it, and `snapshot_id` (a hash of it) stands
    on each. `line` is the item that the presenter shows; others follow. Closed, nothing of it changes.
    """

    class State(models.TextChoices):
        """Being prepared, open (snapshot frozen), closed and applied, or called off."""

        PLANNED = "planned", gettext_lazy("Planned")
        OPEN = "open", gettext_lazy("Open")
        CLOSED = "closed", gettext_lazy("Closed")
        CANCELLED = "cancelled", gettext_lazy("Cancelled")

    node = models.ForeignKey(BudgetNode, models.PROTECT, related_name="reviews")
    title = models.CharField(max_length=120)
    period_from = models.DateField()
    period_until = models.DateField(help_text="the first day that is not of the period")
    meets_at = models.DateTimeField()
    state = models.CharField(max_length=10, choices=State, default=State.PLANNED)
    applies_from = models.DateField(null=True, blank=True, help_text="the stated day of close and apply")
    hands_back_below_percent = models.PositiveSmallIntegerField(
        default=10, help_text="rule: who used less than this share of its entitlement ..."
    )
    hands_back_percent = models.PositiveSmallIntegerField(
        default=25, help_text="... is proposed to hand back so much of its share. It pre-fills and never cuts."
    )
    snapshot = models.JSONField(null=True)
    snapshot_id = models.CharField(max_length=16, blank=True)
    line = models.PositiveSmallIntegerField(default=0)
    opened_by = models.ForeignKey(Person, models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    opened_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_by = models.ForeignKey(Person, models.PROTECT, null=True, blank=True, related_name="+")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-meets_at", "-id"]
        constraints = [
            models.CheckConstraint(name="review_period_in_order", condition=Q(period_until__gt=F("period_from"))),
            models.CheckConstraint(
                name="review_frozen_once_open",
                condition=Q(state__in=["planned", "cancelled"]) | ~Q(snapshot_id=""),
            ),
            models.UniqueConstraint(fields=["node"], name="one_open_review_of_a_node", condition=Q(state="open")),
        ]

    def __str__(self) -> str:
        return f"{self.title} ({self.node.code})"


class ReviewItem(models.Model):
    """One screen of a meeting: a child on one cluster, with an open request or a line that a rule points at.

    Shares are basis points of the review's node. `pencil` is the mark of the meeting, which counts once the review
    is closed; no mark leaves the share as it is.
    """

    review = models.ForeignKey(Review, models.CASCADE, related_name="items")
    position = models.PositiveSmallIntegerField()
    node = models.ForeignKey(BudgetNode, models.PROTECT, related_name="+")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    request = models.ForeignKey(Request, models.PROTECT, null=True, blank=True, related_name="review_items")
    rule = models.CharField(max_length=200, blank=True, help_text="why it is on the agenda, if a rule put it there")
    now = models.PositiveIntegerField()
    proposed = models.PositiveIntegerField(help_text="what the request or the rule would make of it")
    pencil = models.PositiveIntegerField(null=True, blank=True)
    reason = models.TextField(blank=True)
    not_funded = models.TextField(blank=True, help_text="what was asked for and isn't given")
    look_again_on = models.DateField(null=True, blank=True)
    marked_by = models.ForeignKey(Person, models.PROTECT, null=True, blank=True, related_name="+")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["review", "position"]
        constraints = [
            models.UniqueConstraint(fields=["review", "node", "cluster"], name="one_item_for_a_line"),
            models.UniqueConstraint(
                fields=["review", "position"], name="items_in_order", deferrable=models.Deferrable.DEFERRED
            ),
            models.CheckConstraint(
                name="pencil_at_most_the_whole", condition=Q(pencil__isnull=True) | Q(pencil__lte=WHOLE_BASIS_POINTS)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.position}. {self.node.code} on {self.cluster}"


class Voice(models.Model):
    """Who abstained from an item, or dissented, and why. A person who has a part in the item's node abstains."""

    class Kind(models.TextChoices):
        """How the person stands to it."""

        ABSTAINS = "abstains", gettext_lazy("Abstains")
        DISSENTS = "dissents", gettext_lazy("Dissents")

    item = models.ForeignKey(ReviewItem, models.CASCADE, related_name="voices")
    person = models.ForeignKey(Person, models.PROTECT, related_name="+")
    kind = models.CharField(max_length=8, choices=Kind)
    text = models.TextField(blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["item", "person"], name="one_voice_each")]

    def __str__(self) -> str:
        return f"{self.person} {self.kind}"


class FollowUp(models.Model):
    """Did it work? Asked of a decision on the day named with it, and answered once, with the figures of then."""

    class Verdict(models.TextChoices):
        """The answer."""

        WORKED = "worked", gettext_lazy("Worked")
        PARTLY = "partly", gettext_lazy("Partly")
        DID_NOT = "did_not", gettext_lazy("did not work")

    reallocation = models.OneToOneField(Reallocation, models.PROTECT, related_name="follow_up")
    due_on = models.DateField()
    asked_at = models.DateTimeField(null=True, blank=True, help_text="when its managers were told that it is due")
    verdict = models.CharField(max_length=8, choices=Verdict, blank=True)
    text = models.TextField(blank=True)
    figures = models.JSONField(null=True)
    answered_at = models.DateTimeField(null=True, blank=True)
    answered_by = models.ForeignKey(Person, models.PROTECT, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["due_on", "id"]
        constraints = [
            models.CheckConstraint(
                name="answered_with_a_verdict",
                condition=Q(answered_at__isnull=True, verdict="") | (Q(answered_at__isnull=False) & ~Q(verdict="")),
            )
        ]

    def __str__(self) -> str:
        return f"{self.reallocation} on {self.due_on}"
