"""Shares that came in a file."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from budgets.models.people import Person


class ShareImport(models.Model):
    """A CSV of shares: previewed, then applied whole or not at all. `sha256` is of its rows as they were understood, so
    that the same file in another encoding is noticed.
    """

    author = models.ForeignKey(Person, models.PROTECT, related_name="+")
    name = models.CharField(max_length=120)
    sha256 = models.CharField(max_length=64)
    rows = models.JSONField()
    reason = models.TextField(blank=True)
    at = models.DateTimeField(db_default=Now())
    applied_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["sha256"], name="same_import_once", condition=Q(applied_at__isnull=False))
        ]

    def __str__(self) -> str:
        return self.name
