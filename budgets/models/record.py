"""What was changed: the ledger."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class LedgerEntry(models.Model):
    """One change to tree, roles or shares, or to what was asked and decided. It is append-only: the database refuses
    UPDATE, DELETE and TRUNCATE.

    Names of nodes are copied; people are named by id only.
    """

    at = models.DateTimeField(db_default=Now(), db_index=True)
    person_id = models.BigIntegerField(null=True, help_text="who did it; null for the system")
    on_behalf_of_id = models.BigIntegerField(null=True)
    verb = models.CharField(max_length=40)
    node_id = models.BigIntegerField(null=True, db_index=True)
    node_code = models.CharField(max_length=16, blank=True)
    node_name = models.CharField(max_length=120, blank=True)
    cluster_name = models.CharField(max_length=40, blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.TextField(blank=True)
    evidence = models.JSONField(null=True, help_text="the figures that were looked at, if any were kept")
    request_id = models.BigIntegerField(null=True)
    reallocation_id = models.BigIntegerField(null=True)
    review_id = models.BigIntegerField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=[f"{subject}_id"], name=f"entry_of_{subject}", condition=~models.Q(**{f"{subject}_id": None})
            )
            for subject in ("request", "reallocation", "review")
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.node_code}"
