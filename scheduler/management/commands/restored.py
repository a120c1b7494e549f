"""`restored`: this database comes from a backup; nothing of what was after it is obeyed or given away again."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from scheduler.services import epochs


class Command(BaseCommand):
    """Begin another epoch."""

    help = "After the database was restored from a backup, and before anything is started on it: begin another epoch."

    def handle(self, *args: Any, **options: Any) -> None:
        """Raise it."""
        number = epochs.begin_another(timezone.now())
        self.stdout.write(f"epoch {number}: agents obey this portal, and none that still runs on the database before")
