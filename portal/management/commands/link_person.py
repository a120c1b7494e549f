"""`link_person USERNAME SUBJECT`: take whoever signs in with the OpenID provider as SUBJECT to be this person."""

from __future__ import annotations

import argparse
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from budgets.errors import InputError
from budgets.models import Identity, Person
from budgets.services import identities

LINKED_HERE = "linked by the operator of the portal"


class Command(BaseCommand):
    """Link, or unlink, an account and a subject at the provider. It is on the record."""

    help = "Link an account to a subject (the claim `sub`) at the OpenID provider, or say what it is linked to."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Who, and as what."""
        parser.add_argument("username", help="the account here")
        parser.add_argument("subject", nargs="?", default="", help="the subject there; without, what there is is said")
        parser.add_argument("--unlink", action="store_true", help="know them by nothing there any more")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it, and say what holds then."""
        if settings.OPEN_ID is None:
            raise CommandError("no OpenID provider is set up (ALLOTMENT_OIDC_ISSUER)", returncode=2)
        issuer = settings.OPEN_ID.issuer
        person = Person.objects.filter(username=options["username"]).first()
        if person is None:
            raise CommandError(f"there is no account {options['username']!r}", returncode=2)
        if options["unlink"] and options["subject"]:
            raise CommandError("either a subject or --unlink", returncode=2)
        known = Identity.objects.filter(issuer=issuer, person=person).select_related("person").first()
        try:
            if options["subject"]:
                known = identities.link(
                    person=person, issuer=issuer, subject=options["subject"], by=None, reason=LINKED_HERE
                )
            elif options["unlink"] and known is not None:
                identities.unlink(identity=known, by=None, reason="unlinked by the operator of the portal")
                known = None
        except InputError as error:
            raise CommandError(str(error), returncode=2) from None
        said = f"is {known.subject} at {issuer}" if known else f"is nobody at {issuer}"
        self.stdout.write(f"{person.username} {said}")
