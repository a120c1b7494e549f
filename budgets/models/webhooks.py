"""Addresses to which things are posted as JSON, what is to be posted there, and how each try went."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from budgets.models.people import Person
from budgets.models.sealed import SealedText
from budgets.models.tree import Cluster


class Webhook(models.Model):
    """An address to which messages to its person are posted, or what happens in the organisation; signed.

    A new secret replaces the old one at once for receivers that know it; until `old_secret_until` posts are signed with
    both, so that receivers can change over. After many failures in a row it is turned off, and its person told.
    """

    class Scope(models.TextChoices):
        """What is posted there."""

        PERSON = "person", gettext_lazy("my messages")
        ORGANISATION = "organisation", gettext_lazy("what happens in the organisation")

    scope = models.CharField(max_length=12, choices=Scope, default=Scope.PERSON)
    person = models.ForeignKey(
        Person, models.CASCADE, related_name="webhooks", help_text="whose messages; or who set it up"
    )
    name = models.CharField(max_length=60, blank=True)
    url = models.URLField(max_length=300)
    events = ArrayField(
        models.CharField(max_length=40), default=list, blank=True, help_text="kinds of messages or events; empty: all"
    )
    secret = SealedText()
    old_secret = SealedText(blank=True, default="")
    old_secret_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    failures = models.PositiveIntegerField(default=0, help_text="tries in a row that failed")
    paused_until = models.DateTimeField(null=True, blank=True, help_text="after a failure nothing is tried until then")
    delivered_at = models.DateTimeField(null=True, blank=True, help_text="the last success")
    turned_off_at = models.DateTimeField(null=True, blank=True)
    turned_off_why = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(
                fields=["scope"], name="webhooks_of_all", condition=Q(scope="organisation", turned_off_at=None)
            )
        ]

    def __str__(self) -> str:
        return self.name or self.url

    @property
    def is_on(self) -> bool:
        """Whether things are posted there."""
        return self.turned_off_at is None


class WebhookDelivery(models.Model):
    """One thing to be posted to one webhook, until it was taken or given up. The body is the same at each try.

    `key` names the occasion: it is unique for a webhook, so that a retry or a second worker posts nothing twice, and
    stands in the header by which receivers know what they have had.
    """

    class State(models.TextChoices):
        WAITING = "waiting", gettext_lazy("Waiting")
        DELIVERED = "delivered", gettext_lazy("Delivered")
        FAILED = "failed", gettext_lazy("Given up")

    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="deliveries")
    key = models.CharField(max_length=160)
    event = models.CharField(max_length=40)
    body = models.TextField()
    made_at = models.DateTimeField()
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    tries = models.PositiveSmallIntegerField(default=0, help_text="since it was last to be sent")
    next_try_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["webhook", "key"], name="delivered_once")]
        indexes = [
            models.Index(fields=["webhook", "-id"], name="deliveries_of_webhook"),
            models.Index(fields=["next_try_at"], name="deliveries_due", condition=Q(state="waiting")),
            models.Index(fields=["made_at"], name="deliveries_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.webhook_id}"


class WebhookTry(models.Model):
    """One try of a delivery: what was answered, and how long that took. Nothing of it is secret."""

    delivery = models.ForeignKey(WebhookDelivery, models.CASCADE, related_name="attempts")
    at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True, blank=True, help_text="of the answer; null: there was none")
    ms = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=200, blank=True)
    answer = models.TextField(blank=True, help_text="how the answer begins")

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.delivery_id}: {self.status or self.error}"


class WebhookMark(models.Model):
    """How far one of the organisation's webhooks has followed a cluster's event log; it begins with what is new."""

    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="marks")
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    event_id = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["webhook", "cluster"], name="one_mark_of_a_webhook")]

    def __str__(self) -> str:
        return f"{self.webhook_id} on {self.cluster_id}: {self.event_id}"
