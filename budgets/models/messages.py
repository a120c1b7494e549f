"""What people are told, and how they choose to be told."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from budgets.models.people import Person
from budgets.models.tree import BudgetNode, Cluster


class Kind(models.TextChoices):
    """What a message is about."""

    TO_DECIDE = "to_decide", gettext_lazy("something waits for my decision")
    DECISION = "decision", gettext_lazy("something of mine was decided")
    COMMENT = "comment", gettext_lazy("somebody said something to a request of mine")
    BUDGET = "budget", gettext_lazy("a budget changes, ends, or is nearly used")
    REVIEW = "review", gettext_lazy("a review meeting")
    WORKLOAD = "workload", gettext_lazy("a workload of mine was preempted or has failed")
    FOLLOW_UP = "follow_up", gettext_lazy("a decision is to be looked at again")
    WEBHOOK = "webhook", gettext_lazy("a webhook of mine was turned off")
    ACCESS = "access", gettext_lazy("my password was changed, or an access token of mine ends")


ALWAYS_SENT = (Kind.DECISION,)
"""Decisions are never mutable."""


class Parcel(models.Model):
    """What goes out to one person by e-mail, and to their webhooks if they have any.

    Each way is noted by itself, so that a fault of one repeats nothing on the other; `sent_at` is set when nothing is
    left to do. A letter that could not be sent is tried again later, `tries` times at most (budgets.services.sending);
    `posted_at` is when it was handed to the deliveries of webhooks, which see to themselves (WebhookDelivery).
    """

    emailed_at = models.DateTimeField(null=True, blank=True)
    posted_at = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    try_again_at = models.DateTimeField(null=True, blank=True)
    last_error = models.CharField(max_length=200, blank=True)

    class Meta:
        abstract = True


class Digest(Parcel):
    """A person's digest of a day; unique, so that there is one a day. Which messages are in it, they say."""

    person = models.ForeignKey(Person, models.CASCADE, related_name="digests")
    day = models.DateField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["person", "day"], name="one_digest_a_day")]
        indexes = [models.Index(fields=["id"], name="digests_to_send", condition=Q(sent_at=None))]

    def __str__(self) -> str:
        return f"{self.person} on {self.day}"


class Message(Parcel):
    """One thing told to one person. `key` is unique: a retry, or a second beat, tells nobody twice.

    `text` is plain; `path` is an address of the portal. It is sent at once, with the next daily digest, or stands on
    the portal only, as the person chose when it was made (`mode`).
    """

    class Mode(models.TextChoices):
        """When it goes out."""

        NOW = "now", gettext_lazy("at once")
        DIGEST = "digest", gettext_lazy("in one daily digest")
        OFF = "off", gettext_lazy("on the portal only")

    key = models.CharField(max_length=120, unique=True)
    person = models.ForeignKey(Person, models.PROTECT, related_name="messages")
    kind = models.CharField(max_length=10, choices=Kind)
    subject = models.CharField(max_length=200)
    text = models.TextField(blank=True)
    path = models.CharField(max_length=300, blank=True)
    mode = models.CharField(max_length=6, choices=Mode)
    at = models.DateTimeField(db_default=Now())
    digest = models.ForeignKey(Digest, models.SET_NULL, null=True, blank=True, related_name="messages")
    read_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["person", "-id"], name="messages_of_a_person"),
            models.Index(fields=["person"], name="messages_unread", condition=Q(read_at=None)),
            models.Index(fields=["id"], name="messages_to_send", condition=Q(sent_at=None) & ~Q(mode="off")),
        ]

    def __str__(self) -> str:
        return self.subject


class MessageChoice(models.Model):
    """How a person wants to be told of one kind of thing; no row is "at once"."""

    person = models.ForeignKey(Person, models.CASCADE, related_name="message_choices")
    kind = models.CharField(max_length=10, choices=Kind)
    mode = models.CharField(max_length=6, choices=Message.Mode)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "kind"], name="one_choice_for_a_kind"),
            models.CheckConstraint(name="decisions_are_told", condition=~Q(kind="decision", mode="off")),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.mode}"


class Threshold(models.Model):
    """A mark on a budget's use in its period, in per cent of what is entitled: told once when it is passed, and
    armed again when the budget grows.
    """

    node = models.ForeignKey(BudgetNode, models.PROTECT, related_name="thresholds")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    percent = models.PositiveSmallIntegerField()
    fired_at = models.DateTimeField(null=True, blank=True)
    fired_entitled_milli_s = models.BigIntegerField(
        null=True, blank=True, help_text="what was entitled when it fired: a larger budget arms it again"
    )
    times_fired = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "cluster", "percent"], name="one_threshold_of_a_kind"),
            models.CheckConstraint(name="threshold_1_to_200", condition=Q(percent__gte=1, percent__lte=200)),
        ]

    def __str__(self) -> str:
        return f"{self.percent} % of {self.node.code}"
