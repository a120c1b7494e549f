"""Help: the glossary, and a guide for each role."""

from __future__ import annotations

from django.conf import settings
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext

from budgets import glossary
from portal import guides
from portal.api import shown
from portal.pages import Page, render_page


class Glossary(Page):
    """Every word with its one meaning."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page."""
        terms = [(term, [glossary.BY_KEY[key] for key in term.see]) for term in glossary.TERMS]
        return render_page(request, "glossary", {"here": "glossary", "terms": terms})


class Help(Page):
    """Which guides there are."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page."""
        return render_page(request, "help", {"here": "help", "guides": guides.GUIDES.values()})


class GuidePage(Page):
    """One guide, from its Markdown file."""

    def get(self, request: HttpRequest, key: str) -> HttpResponse:
        """The page."""
        if key not in guides.GUIDES:
            raise Http404(gettext("There is no guide {key!r}.").format(key=key))
        context = {"here": "help", "key": key, "guide": guides.page(key), "guides": guides.GUIDES.values()}
        return render_page(request, "guide", context)


class ApiReference(Page):
    """The API as its description has it: every operation by subject; one with all that it takes and gives."""

    def get(self, request: HttpRequest, key: str = "") -> HttpResponse:
        """The page."""
        if not key:
            said = guides.rendered(shown.CONVENTIONS)
            return render_page(request, "api_reference", {"here": "help", "said": said, "tags": shown.by_tag()})
        operation = shown.operations().get(key)
        if operation is None:
            raise Http404(gettext("The API has no operation {key!r}.").format(key=key))
        return render_page(request, "api_operation", {"here": "help", "operation": operation})


class Picture(Page):
    """A picture of a guide."""

    def get(self, request: HttpRequest, name: str) -> FileResponse:
        """The file."""
        path = settings.BASE_DIR / "docs" / "screenshots" / name
        if not name.endswith(".png") or not path.is_file():
            raise Http404(gettext("There is no picture {name!r}.").format(name=name))
        return FileResponse(path.open("rb"), content_type="image/png")
