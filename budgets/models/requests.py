"""What is asked for and what is decided: requests, reallocations, what people say to them, what they attach."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from budgets.models.people import Person
from budgets.models.tree import WHOLE_BASIS_POINTS, BudgetNode, Cluster


class State(models.TextChoices):
    """draft > submitted > (returned > submitted) > approved | denied | withdrawn, then applied (governance.md)."""

    DRAFT = "draft", gettext_lazy("Draft")
    SUBMITTED = "submitted", gettext_lazy("Submitted")
    RETURNED = "returned", gettext_lazy("Returned")
    APPROVED = "approved", gettext_lazy("Approved")
    DENIED = "denied", gettext_lazy("Denied")
    WITHDRAWN = "withdrawn", gettext_lazy("Withdrawn")
    APPLIED = "applied", gettext_lazy("Applied")


OPEN_STATES = (State.DRAFT, State.SUBMITTED, State.RETURNED)
"""Not decided yet."""


class Request(models.Model):
    """A node's wish for more of its parent on one cluster: how much, for how long, why, by when it would be
    useless, and what happens otherwise.

    `desk` is the node whose managers are to answer: the parent, or a node above it once it has gone up.
    `upper` is the request that the parent made in its turn, since this one needs more than it has: while that one is
    open, this one waits for it.
    """

    node = models.ForeignKey(BudgetNode, models.PROTECT, related_name="requests")
    parent = models.ForeignKey(BudgetNode, models.PROTECT, related_name="+", help_text="what it is a share of")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="requests")
    author = models.ForeignKey(Person, models.PROTECT, related_name="requests")
    more_basis_points = models.PositiveIntegerField(help_text="of the parent, on top of what the node has")
    starts_on = models.DateField()
    ends_on = models.DateField(null=True, blank=True, help_text="the first day without it; none is for good")
    why = models.TextField()
    otherwise = models.TextField(help_text="what happens if it isn't given")
    useless_on = models.DateField(null=True, blank=True, help_text="from this day on it would be of no use")
    state = models.CharField(max_length=10, choices=State, default=State.DRAFT)
    desk = models.ForeignKey(BudgetNode, models.PROTECT, related_name="desk_requests")
    answer_by = models.DateTimeField(null=True, blank=True, help_text="unanswered until then, it goes one level up")
    upper = models.OneToOneField("self", models.PROTECT, null=True, blank=True, related_name="lower")
    figures = models.JSONField(null=True, help_text="the asker's own figures when it was submitted")
    created_at = models.DateTimeField(db_default=Now())
    submitted_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(Person, models.PROTECT, null=True, blank=True, related_name="+")
    decided_for = models.ForeignKey(Person, models.PROTECT, null=True, blank=True, related_name="+")
    decision_reason = models.TextField(blank=True)
    version = models.PositiveIntegerField(default=1, help_text="raised by every change; forms carry it")

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["desk"], name="request_open_at", condition=Q(state="submitted"))]
        constraints = [
            models.CheckConstraint(
                name="request_asks_for_something",
                condition=Q(more_basis_points__gte=1, more_basis_points__lte=WHOLE_BASIS_POINTS),
            ),
            models.CheckConstraint(
                name="request_dates_in_order", condition=Q(ends_on__isnull=True) | Q(ends_on__gt=F("starts_on"))
            ),
            models.CheckConstraint(
                name="request_not_decided_by_its_author",
                condition=Q(decided_by__isnull=True) | ~Q(decided_by=F("author")),
            ),
            models.CheckConstraint(
                name="request_not_decided_for_its_author",
                condition=Q(decided_for__isnull=True) | ~Q(decided_for=F("author")),
            ),
            models.CheckConstraint(
                name="request_submitted_at_some_time",
                condition=Q(state="draft") | Q(submitted_at__isnull=False) | Q(state="withdrawn"),
            ),
            models.CheckConstraint(
                name="request_decided_at_some_time",
                condition=Q(decided_at__isnull=False) | ~Q(state__in=["approved", "denied", "applied"]),
            ),
        ]

    def __str__(self) -> str:
        return f"R{self.pk}"

    @property
    def is_open(self) -> bool:
        """Not decided yet."""
        return self.state in OPEN_STATES


class Reallocation(models.Model):
    """A set of changes among the children of one node on one cluster, from a day on; with *unassigned* it sums to
    zero. Approving a request, a meeting and a manager's own change all end in one: it is the decision.

    A draft is its author's alone. `base` holds all children's shares (basis points by node id) as its author saw
    them, so that a later save can be laid beside what became of them. `desk`: as for a request, where its author
    can't decide it themselves.
    """

    parent = models.ForeignKey(BudgetNode, models.PROTECT, related_name="reallocations")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="reallocations")
    author = models.ForeignKey(Person, models.PROTECT, related_name="reallocations")
    author_for = models.ForeignKey(Person, models.PROTECT, null=True, blank=True, related_name="+")
    starts_on = models.DateField()
    ends_on = models.DateField(null=True, blank=True)
    reason = models.TextField(blank=True)
    base = models.JSONField(default=dict)
    base_version = models.PositiveIntegerField(help_text="the parent's, when it was read")
    state = models.CharField(max_length=10, choices=State, default=State.DRAFT)
    desk = models.ForeignKey(BudgetNode, models.PROTECT, related_name="desk_reallocations")
    answer_by = models.DateTimeField(null=True, blank=True)
    by_notice = models.BooleanField(
        default=False, help_text="at the root: approved when the notice is over and nobody has denied it"
    )
    request = models.ForeignKey(
        Request, models.PROTECT, null=True, blank=True, related_name="reallocations", help_text="that it answers"
    )
    review = models.ForeignKey("budgets.Review", models.PROTECT, null=True, blank=True, related_name="reallocations")
    evidence = models.JSONField(null=True, help_text="figures that were looked at: a what-if, the facts of a review")
    created_at = models.DateTimeField(db_default=Now())
    submitted_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(Person, models.PROTECT, null=True, blank=True, related_name="+")
    decided_for = models.ForeignKey(Person, models.PROTECT, null=True, blank=True, related_name="+")
    decision_reason = models.TextField(blank=True)
    applied_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["desk"], name="reallocation_open_at", condition=Q(state="submitted")),
            models.Index(fields=["starts_on"], name="reallocation_to_apply", condition=Q(state="approved")),
        ]
        constraints = [
            models.CheckConstraint(
                name="reallocation_dates_in_order", condition=Q(ends_on__isnull=True) | Q(ends_on__gt=F("starts_on"))
            ),
            models.CheckConstraint(
                name="reallocation_decided_at_some_time",
                condition=Q(decided_at__isnull=False) | ~Q(state__in=["approved", "denied", "applied"]),
            ),
            models.CheckConstraint(
                name="reallocation_applied_at_some_time",
                condition=Q(applied_at__isnull=False) | ~Q(state="applied"),
            ),
            models.UniqueConstraint(
                fields=["request"],
                name="one_decision_on_a_request",
                condition=Q(state__in=["approved", "applied"]),
            ),
        ]

    def __str__(self) -> str:
        return f"D{self.pk}"

    @property
    def is_open(self) -> bool:
        """Not decided yet."""
        return self.state in OPEN_STATES


class ReallocationLine(models.Model):
    """One child's change in a reallocation: its share before, on the first day, and after, in basis points."""

    reallocation = models.ForeignKey(Reallocation, models.CASCADE, related_name="lines")
    node = models.ForeignKey(BudgetNode, models.PROTECT, related_name="+")
    before = models.PositiveIntegerField()
    after = models.PositiveIntegerField()

    class Meta:
        ordering = ["reallocation", "node"]
        constraints = [
            models.UniqueConstraint(fields=["reallocation", "node"], name="one_line_for_a_child"),
            models.CheckConstraint(
                name="line_at_most_the_whole",
                condition=Q(before__lte=WHOLE_BASIS_POINTS, after__lte=WHOLE_BASIS_POINTS),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_id}: {self.before} > {self.after}"

    @property
    def change(self) -> int:
        """Basis points more, or less."""
        return self.after - self.before


class Comment(models.Model):
    """What somebody said to a request or a reallocation. It is never changed."""

    class Audience(models.TextChoices):
        """Whoever sees the request, or only those who decide it and the reviewers."""

        ALL = "all", gettext_lazy("everybody who sees the request")
        REVIEWERS = "reviewers", gettext_lazy("those who decide, and reviewers")

    request = models.ForeignKey(Request, models.PROTECT, null=True, blank=True, related_name="comments")
    reallocation = models.ForeignKey(Reallocation, models.PROTECT, null=True, blank=True, related_name="comments")
    author = models.ForeignKey(Person, models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())
    text = models.TextField()
    audience = models.CharField(max_length=10, choices=Audience, default=Audience.ALL)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                name="comment_on_one_thing",
                condition=Q(request__isnull=True, reallocation__isnull=False)
                | Q(request__isnull=False, reallocation__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return self.text[:40]


class Attachment(models.Model):
    """A file with a request, kept in the database, so that one backup holds all. It is served as a download only."""

    request = models.ForeignKey(Request, models.PROTECT, related_name="attachments")
    author = models.ForeignKey(Person, models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())
    name = models.CharField(max_length=120)
    content_type = models.CharField(max_length=60)
    content = models.BinaryField()
    size_bytes = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["request", "sha256"], name="same_file_once"),
        ]

    def __str__(self) -> str:
        return self.name
