"""Who signs in."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models


class Person(AbstractUser):
    """Somebody who signs in.

    Ledger entries name people by id; `display_name` can be erased (privacy law) without touching an entry.
    """

    display_name = models.CharField(max_length=120, blank=True)
    language = models.CharField(
        max_length=8, blank=True, editable=False, help_text="of pages and letters; empty is what the browser asks for"
    )
    disabled_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="when what they held was taken away"
    )

    class Meta:
        ordering = ["username"]

    def __str__(self) -> str:
        return self.display_name or f"person {self.pk}"
