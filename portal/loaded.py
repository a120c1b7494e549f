"""What the web server has loaded before it forks, so that none of its processes loads it for its first reader."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.template.loader import get_template
from django.urls import get_resolver


def load_pages() -> None:
    """Import all that addresses lead to, and compile the templates: some two seconds of processor time."""
    assert get_resolver().reverse_dict
    folders: list[Path] = settings.TEMPLATES[0]["DIRS"]  # type: ignore[assignment]
    for folder in folders:
        for path in folder.rglob("*.html"):
            get_template(str(path.relative_to(folder)))
