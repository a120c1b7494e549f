"""`manage.py authority_matrix`: who may do what to which thing, as the code answers it. docs/authority.md is this."""

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import translation

from portal import authority_matrix


class Command(BaseCommand):
    """Print it."""

    help = "Prints who may do what (docs/authority.md), as the code answers it. Needs no database."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Markdown on standard output."""
        with translation.override("en"):
            self.stdout.write(authority_matrix.as_markdown(), ending="")
