"""`manage.py translations`: bring the catalogues of all languages into step with the source."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    """Read what is marked, keep what is translated, and say what is not."""

    help = "Brings locale/*/LC_MESSAGES/django.po and .mo into step with what the source marks for translation."

    def add_arguments(self, parser: CommandParser) -> None:
        """Only look."""
        parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if something is missing")

    def handle(self, *args: Any, **options: Any) -> None:
        """All languages."""
        from portal import catalogue  # what it needs is not there where only the portal runs

        root = settings.BASE_DIR
        wanted = catalogue.phrases(root)
        is_complete = True
        for language in catalogue.languages():
            folder = catalogue.folder(root, language)
            catalog = catalogue.in_step(catalogue.read(root, language), wanted.values())
            files = {"po": catalogue.po_text(catalog), "mo": catalogue.mo_bytes(catalog)}
            missing = catalogue.untranslated(catalog)
            for ending, content in files.items():
                path = folder / f"{catalogue.DOMAIN}.{ending}"
                if not path.exists() or path.read_bytes() != content:
                    is_complete = False if options["check"] else is_complete
                    if not options["check"]:
                        folder.mkdir(parents=True, exist_ok=True)
                        path.write_bytes(content)
            for text in missing:
                self.stdout.write(f"{language}: not translated: {text}")
            self.stdout.write(f"{language}: {len(wanted) - len(missing):,} of {len(wanted):,} are translated.")
            is_complete = is_complete and not missing
        if options["check"] and not is_complete:
            raise CommandError("run manage.py translations, and translate what it lists", returncode=1)
