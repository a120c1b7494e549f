"""`manage.py glossary`: write docs/glossary.md from the one source of the words."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.utils import translation

from budgets import glossary


class Command(BaseCommand):
    """Write the file; the tests compare it."""

    help = "Writes docs/glossary.md from budgets/glossary.py."

    def handle(self, *args: Any, **options: Any) -> None:
        """In English, as all of docs/."""
        with translation.override(settings.LANGUAGE_CODE):
            (settings.BASE_DIR / "docs" / "glossary.md").write_text(glossary.as_markdown(), encoding="utf-8")
