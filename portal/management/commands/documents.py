"""`manage.py documents`: write what of docs/ follows from the source: glossary, authority, knobs, advice, API..."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.utils import translation

from budgets import glossary
from portal import authority_matrix
from portal.api.schema import as_yaml
from portal.demo import examples
from scheduler import knobs_document
from scheduler.advisor import document


class Command(BaseCommand):
    """Write the files; the tests compare them."""

    help = "Writes docs/glossary.md, authority.md, policy.md, advisor.md, openapi.yaml, the guides' examples."

    def handle(self, *args: Any, **options: Any) -> None:
        """The glossary in English, as docs/ is; guides in the languages that they are there in."""
        folder = settings.BASE_DIR / "docs"
        with translation.override(settings.LANGUAGE_CODE):
            (folder / "glossary.md").write_text(glossary.as_markdown(), encoding="utf-8")
            (folder / "authority.md").write_text(authority_matrix.as_markdown(), encoding="utf-8")
            (folder / "policy.md").write_text(knobs_document.as_markdown(), encoding="utf-8")
        advisor = folder / "advisor.md"
        advisor.write_text(document.written_into(advisor.read_text(encoding="utf-8")), encoding="utf-8")
        (folder / "openapi.yaml").write_text(as_yaml(), encoding="utf-8")
        for path, text in examples.guides(folder):
            path.write_text(text, encoding="utf-8")
