"""`manage.py prepare`: the database's tables and the collected static files, brought up to date."""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """Migrate, then collect the static files; does nothing where both are up to date."""

    help = "Brings the database and the static files up to date (before the services start)."

    def handle(self, *args: Any, **options: Any) -> None:
        """Run both in one process."""
        call_command("migrate", interactive=False, verbosity=options["verbosity"])
        call_command("collectstatic", interactive=False, clear=False, verbosity=options["verbosity"])
