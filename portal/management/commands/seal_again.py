"""`manage.py seal_again`: after the sealing key was changed, seal anew what older keys have sealed."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from budgets.sealing import CannotOpen, CannotSeal
from budgets.services import resealing


class Command(BaseCommand):
    """Seal anew, or only look."""

    help = "Seals stored secrets anew with the first of ALLOTMENT_SEALING_KEYS; then older ones can be taken away."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Whether anything is changed."""
        parser.add_argument("--check", action="store_true", help="only say what an older key has sealed")

    def handle(self, *args: Any, **options: Any) -> None:
        """One transaction, and one line for each column."""
        try:
            found = resealing.look() if options["check"] else resealing.seal_again()
        except (CannotOpen, CannotSeal) as error:
            raise CommandError(str(error), returncode=2) from None
        did = "of an older key" if options["check"] else "sealed anew"
        for each in found:
            self.stdout.write(f"{each.name}: {each.sealed} sealed, {each.older} {did}")
