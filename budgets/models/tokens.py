"""What programs show in a person's stead: access tokens."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy

from budgets.models.people import Person


class Scope(models.TextChoices):
    """What a token may be used for, of what its person may do. None includes another."""

    READ = "read", gettext_lazy("look, and change nothing")
    SUBMIT = "submit", gettext_lazy("submit and cancel workloads, simulate")
    OPERATE = "operate", gettext_lazy("operate clusters and nodes")
    DECIDE = "decide", gettext_lazy("ask for, propose and decide shares and roles")


class AccessToken(models.Model):
    """A secret by which a program acts for a person, within scopes and until an end. Only a keyed hash is kept.

    What it may is asked at each call: its scopes, of what its person may do at that moment.
    """

    person = models.ForeignKey(Person, models.PROTECT, related_name="tokens")
    name = models.CharField(max_length=60, help_text="what its person calls it")
    prefix = models.CharField(max_length=16, help_text="its first characters, by which people tell it from others")
    digest = models.CharField(max_length=64, unique=True, help_text="the keyed hash of the secret")
    scopes = ArrayField(models.CharField(max_length=8, choices=Scope))
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="to the minute")
    ended_at = models.DateTimeField(null=True, blank=True, help_text="revoked before its end")
    ended_by = models.ForeignKey(Person, models.PROTECT, null=True, related_name="+")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(name="token_dates_in_order", condition=Q(expires_at__gt=F("created_at"))),
            models.CheckConstraint(
                name="token_has_known_scopes",
                condition=Q(scopes__len__gt=0, scopes__contained_by=list(Scope.values)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.prefix}…"

    @property
    def ends_at(self) -> datetime:
        """When it ends by itself. Where the longest time has been shortened since, that holds for it as well."""
        longest = self.created_at + timedelta(days=settings.TOKEN_MAX_DAYS)
        return min(self.expires_at, longest)

    def is_alive(self, at: datetime) -> bool:
        """Whether it is neither revoked nor over."""
        return self.ended_at is None and at < self.ends_at
